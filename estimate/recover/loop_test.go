package recover_test

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// loopOf is a Loop of so many trips whose body multiplies its carried value by a weight of the outer graph, and
// hands each result out.
func loopOf(trips int64, certain bool) onnx.Graph {
	body := onnx.Graph{
		In: []onnx.Value{onnx.Val("i", onnxload.Int64), onnx.Val("go", onnxload.Bool), onnx.Float("h", 2, 4)},
		Nodes: []onnx.Node{onnx.Op("Identity", "go", "on"), onnx.Op("MatMul", "h cell.weight", "m"),
			onnx.Op("Tanh", "m", "next"), onnx.Op("Identity", "next", "step")},
		Out: []onnx.Value{onnx.Val("on", onnxload.Bool), onnx.Float("next", 2, 4), onnx.Float("step", 2, 4)},
	}
	count := onnx.Int64s("trips", trips).Scalar()
	g := onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 4)},
		Inits: []onnx.Tensor{recovertest.Weights("cell.weight", 4, 4), count,
			{Name: "yes", DType: onnxload.Bool, Raw: []byte{1}}},
		Nodes: []onnx.Node{onnx.Op("Loop", "trips yes x", "last all", onnx.A("body", body)),
			onnx.Op("ReduceSum", "last", "y", onnx.A("keepdims", 0))},
		Out: []onnx.Value{{Name: "y"}, {Name: "all"}},
	}
	if !certain {
		g.Inits = g.Inits[:1]
		g.Inits = append(g.Inits, onnx.Tensor{Name: "yes", DType: onnxload.Bool, Raw: []byte{1}})
		g.In = append(g.In, onnx.Val("trips", onnxload.Int64))
		g.Out = g.Out[:1]
	}
	return g
}

// A loop runs its body as often as it says, with one set of parameters.
func TestLoopIsUnrolled(t *testing.T) {
	p := mustRecover(t, loopOf(3, true))
	wantCalls(t, p, "matmul(x, cell.weight)", "tanh(m)", "matmul(next, cell.weight)", "tanh(m)",
		"matmul(next, cell.weight)", "tanh(m)", "stack(next, next, next)", "sum(next)")
	run, err := torch.Simulate(p, torch.Options{Train: true})
	if err != nil {
		t.Fatal(err)
	}
	once := mustRecover(t, loopOf(1, true))
	one, err := torch.Simulate(once, torch.Options{Train: true})
	if err != nil {
		t.Fatal(err)
	}
	// Of each trip: what goes into the product (a result of the trip before, but for the first) and what tanh gives.
	if run.Saved <= one.Saved || len(p.State) != len(once.State) {
		t.Errorf("three trips save %d bytes, one %d; %d and %d parameters", run.Saved, one.Saved, len(p.State),
			len(once.State))
	}
	g := loopOf(100_000, true)
	g.Out = g.Out[:1] // how long the other is, is not followed so far
	long := mustRecover(t, g)
	if len(long.Calls) > 10 || !strings.Contains(strings.Join(long.Notes, "\n"), "runs 100000 times") {
		t.Errorf("%d calls, notes %q", len(long.Calls), long.Notes)
	}
	open := mustRecover(t, loopOf(0, false))
	if !strings.Contains(strings.Join(open.Notes, "\n"), "depends on data") {
		t.Errorf("notes %q\n%s", open.Notes, recovertest.CallsOf(open))
	}
}

// A Scan takes its inputs apart and puts its outputs together.
func TestScanIsUnrolled(t *testing.T) {
	body := onnx.Graph{
		In:    []onnx.Value{onnx.Float("h", 2, 4), onnx.Float("xt", 2, 4)},
		Nodes: []onnx.Node{onnx.Op("Add", "h xt", "s"), onnx.Op("Tanh", "s", "next"), onnx.Op("Identity", "next", "out")},
		Out:   []onnx.Value{onnx.Float("next", 2, 4), onnx.Float("out", 2, 4)},
	}
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 3, 4)}, Inits: []onnx.Tensor{recovertest.Weights("rnn.start", 2,
			4)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{onnx.Op("Scan", "rnn.start x", "last y", onnx.A("body", body), onnx.A("num_scan_inputs", 1),
			onnx.A("scan_input_axes", []int64{1}), onnx.A("scan_output_axes", []int64{1}))},
	})
	wantCalls(t, p, "select(x)", "add(rnn.start, _)", "tanh(s)", "select(x)", "add(next, _)", "tanh(s)", "select(x)",
		"add(next, _)", "tanh(s)", "stack(next, next, next)")
}
