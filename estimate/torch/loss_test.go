package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// The criterion that a language model's graph calls for, with logits that are capped and without.
func TestLossOfLanguageModels(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		want  string
	}{
		{"logits", []onnx.Node{onnx.Op("MatMul", "h head.weight", "y")}, "cross-entropy"},
		{"capped logits", []onnx.Node{onnx.Op("MatMul", "h head.weight", "l"), onnx.Op("Div", "l cap", "d"),
			onnx.Op("Tanh", "d", "t"), onnx.Op("Mul", "t cap", "y")}, "cross-entropy"},
		{"logits of a convolution", []onnx.Node{onnx.Op("Transpose", "h", "t", onnx.A("perm", []int64{0, 2, 1})),
			onnx.Op("Conv", "t conv.weight", "c"),
			onnx.Op("Transpose", "c", "y", onnx.A("perm", []int64{0, 2, 1}))}, "cross-entropy"},
		{"logits one by one", []onnx.Node{onnx.Op("Split", "h", "a b", onnx.A("axis", 1)),
			onnx.Op("MatMul", "a head.weight", "c"), onnx.Op("MatMul", "b head.weight", "d"),
			onnx.Op("Concat", "c d", "y", onnx.A("axis", 1))}, "cross-entropy"},
		{"features", []onnx.Node{onnx.Op("MatMul", "h head.weight", "l"), onnx.Op("Softmax", "l", "y")}, "mean"},
	} {
		p, err := recovertest.Recovered(onnx.Graph{
			In: []onnx.Value{onnx.Val("ids", onnxload.Int64, 2, 6)}, Inits: []onnx.Tensor{recovertest.Weights("e.weight", 50,
				8), recovertest.Weights("head.weight", 8, 50), recovertest.Weights("conv.weight", 50, 8,
				1), recovertest.F32s("cap", 30)},
			Nodes: append([]onnx.Node{onnx.Op("Gather", "e.weight ids", "h")}, c.nodes...), Out: []onnx.Value{{Name: "y"}},
		})
		must.OK(t, err)
		if got := autoLoss(p, p.Outputs[0], []int64{2, 6, 50}); got != c.want {
			t.Errorf("%s: loss %q, wanted %q", c.name, got, c.want)
		}
	}
}

// A detector's predictions for the anchors of several maps are classified, one map's are not told from a picture's
// features.
func TestLossOfDetectors(t *testing.T) {
	head := func(from, to string) []onnx.Node {
		return []onnx.Node{onnx.Op("Conv", from+" head.weight", to+"c"), onnx.Op("Reshape", to+"c flat", to+"f"),
			onnx.Op("Transpose", to+"f", to, onnx.A("perm", []int64{0, 2, 1}))}
	}
	small := onnx.Op("MaxPool", "x", "s", onnx.A("kernel_shape", []int64{2, 2}), onnx.A("strides", []int64{2, 2}))
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		shape []int64
		want  string
	}{
		{"two maps", slices.Concat([]onnx.Node{onnx.Op("Concat", "a b", "y", onnx.A("axis", 1)), small}, head("x", "a"),
			head("s", "b")), []int64{2, 80, 6}, "cross-entropy"},
		{"one map", append([]onnx.Node{onnx.Op("Relu", "a", "y")}, head("x", "a")...), []int64{2, 64, 6}, "mean"},
	} {
		p, err := recovertest.Recovered(onnx.Graph{
			In: []onnx.Value{onnx.Float("x", 2, 3, 8, 8)}, Inits: []onnx.Tensor{recovertest.Weights("head.weight", 6, 3, 1, 1),
				onnx.Int64s("flat", 2, 6, -1)},
			Nodes: append(c.nodes[1:], c.nodes[0]), Out: []onnx.Value{{Name: "y"}},
		})
		must.OK(t, err)
		if got := autoLoss(p, p.Outputs[0], c.shape); got != c.want {
			t.Errorf("%s: loss %q, wanted %q", c.name, got, c.want)
		}
	}
}

// twoHeads is a linear layer, whose rectified result is the first output, and a second one on that.
func twoHeads() *program.Program {
	p := &program.Program{Layers: []string{"m"}, Scopes: []program.Scope{{Parent: -1}}}
	add := func(k program.ValueKind, shape ...int64) program.ValueID {
		return p.Add(program.Value{Kind: k, DType: program.Float32, Shape: shape})
	}
	x, w, head := add(program.InputValue, 8, 16), add(program.Parameter, 16, 16), add(program.Parameter, 4, 16)
	h, y, by := add(program.Activation, 8, 16), add(program.Activation, 8, 16), add(program.Activation, 8, 4)
	p.Inputs, p.State, p.Params = []program.ValueID{x}, []program.ValueID{w, head}, []program.ValueID{w, head}
	p.Outputs = []program.ValueID{y, by}
	call := func(op string, out program.ValueID, in ...program.ValueID) {
		p.Calls = append(p.Calls, program.Call{Op: op, In: in, Out: []program.ValueID{out}, Args: program.Plain,
			Origin: int32(len(p.Calls))})
	}
	call("linear", h, x, w, program.NoValue)
	call("relu", y, h)
	call("linear", by, h, head, program.NoValue)
	p.Origins = len(p.Calls)
	return p
}

// An output that nothing reads is in the loss, a hidden state is not, and a loss that the model works out is all of it.
func TestHeads(t *testing.T) {
	p := twoHeads()
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{0, 1}) || len(h.guesses) != 1 || h.guesses[0].Row != EveryHead {
		t.Errorf("heads %v, guesses %v", h.at, h.guesses)
	}
	p.Without = map[string]bool{EveryHead: true}
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{0}) || h.guesses != nil {
		t.Errorf("the first alone: heads %v, guesses %v", h.at, h.guesses)
	}
	p.Without = nil
	p.Outputs = append(p.Outputs, p.Calls[0].Out[0])
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{0, 1}) {
		t.Errorf("beside a hidden state: heads %v", h.at)
	}
	loss := p.Add(program.Value{Kind: program.Activation, DType: program.Float32})
	p.Calls = append(p.Calls, program.Call{Op: "mean", In: []program.ValueID{p.Outputs[1]}, Out: []program.ValueID{loss},
		Args: program.Plain})
	p.Outputs[1] = loss
	if h := headsOf(p, "auto"); !slices.Equal(h.at, []int{1}) {
		t.Errorf("the model's own loss: heads %v", h.at)
	}
	if h := headsOf(p, "mse"); !slices.Equal(h.at, []int{0, 1}) {
		t.Errorf("a criterion that is named: heads %v", h.at)
	}
}

func TestEveryHeadTrains(t *testing.T) {
	saved := map[bool]int64{}
	for _, first := range []bool{false, true} {
		p := twoHeads()
		p.Without = map[string]bool{EveryHead: first}
		run, err := Simulate(p, Options{Train: true})
		must.OK(t, err)
		saved[first] = run.Saved
		if got := len(run.Guesses); (got == 1) == first {
			t.Errorf("the first output alone %v: %d guesses", first, got)
		}
		if run.Loss != "cross-entropy" {
			t.Errorf("the first output alone %v: loss %s", first, run.Loss)
		}
	}
	if saved[false] <= saved[true] {
		t.Errorf("both heads save %d bytes, the first alone %d", saved[false], saved[true])
	}
}

// The loss is of the output that can be trained, wherever it stands: here a chosen class comes first.
func TestLossOfWhatHasGradient(t *testing.T) {
	alone, err := Simulate(twoHeads(), Options{Train: true})
	must.OK(t, err)
	for _, without := range []bool{false, true} {
		p := twoHeads()
		p.Without = map[string]bool{EveryHead: without}
		class := p.Add(program.Value{Kind: program.Activation, DType: program.Int64, Shape: []int64{8}})
		p.Calls = append(p.Calls, program.Call{Op: "argmax", In: []program.ValueID{p.Outputs[1]}, Out: []program.ValueID{class},
			Args: &program.Args{Dims: []int{1}}, Origin: int32(len(p.Calls))})
		p.Origins = len(p.Calls)
		p.Outputs = append([]program.ValueID{class}, p.Outputs...)
		run, err := Simulate(p, Options{Train: true})
		must.OK(t, err)
		if run.Loss != alone.Loss || run.Saved == 0 {
			t.Errorf("every head left out %v: loss %s, %d bytes saved", without, run.Loss, run.Saved)
		}
	}
}

// A model with a layer of 3 x 3 elements of its own and two wrapped layers, of 5 x 3 and 3 x 5, on two ranks: their
// first dimensions are padded to 4, 6 and 4 rows. What is gathered and what is reduced come in the order of FSDP2, on
// their streams.
func TestShardsAreGatheredInOrder(t *testing.T) {
	const own, first, second = 12, 18, 20 // elements, those of padding included
	for _, c := range []struct {
		shards   Shards
		gathered []int64 // of the first step, in order
		whole    int64   // the weights that are there when the forward pass ends
	}{
		{Shards{World: 2}, []int64{4 * own, 4 * first, 4 * second, 4 * second, 4 * first}, 4 * own},
		{Shards{World: 2, Keep: true}, []int64{4 * own, 4 * first, 4 * second}, 4 * (own + first + second)},
		{Shards{World: 2, Meta: true}, []int64{4 * own, 4 * first, 4 * second, 4 * second, 4 * first}, 4 * own},
		{
			Shards{World: 2, Param: program.BFloat16, Reduce: program.Float32}, // with what is cast before
			[]int64{own, 2 * own, first, 2 * first, second, 2 * second, second, 2 * second, first, 2 * first}, 2 * own,
		},
	} {
		run, err := Simulate(threeLayers(), Options{
			Settings: Settings{Optimizer: "sgd"}, Train: true, Shards: c.shards, Steps: 2, EveryStep: true,
		})
		must.OK(t, err)
		var gathered, parts []int64
		scattered, whole, loaded := int64(0), int64(0), int64(0)
		gone := map[int32]bool{}
		for e := range run.Log.Events {
			switch {
			case e.Step > 1:
			case e.Kind == timeline.Free:
				if gone[e.Block] && e.Phase == timeline.Forward {
					whole -= e.Bytes
				}
			case e.Kind == timeline.Mark:
			case e.Stream == gatherStream:
				gathered = append(gathered, e.Bytes)
			case e.Stream == reduceStream:
				parts = append(parts, e.Bytes)
			case e.Category == timeline.Parameter && e.Phase == timeline.Load:
				loaded += e.Bytes
			case e.Category == timeline.Parameter && e.Phase == timeline.Forward:
				gone[e.Block] = true
				whole += e.Bytes
			case e.Category == timeline.Temporary && e.Phase == timeline.Backward:
				scattered += e.Bytes
			}
		}
		want := []int64{4 * second / 2, 4 * first / 2, 4 * own / 2}
		if !slices.Equal(gathered, c.gathered) || !slices.Equal(parts, want) || whole != c.whole {
			t.Errorf("%+v: gathered %v, parts %v, whole %d, want %v, %v, %d", c.shards, gathered, parts, whole, c.gathered,
				want, c.whole)
		}
		if want := int64(4 * (own + first + second)); scattered != want {
			t.Errorf("%+v: %d bytes are reduced, want %d", c.shards, scattered, want)
		}
		all := int64(4 * (own + first + second) / 2)
		if !c.shards.Meta {
			all += 4 * (9 + 15 + 15)
		}
		if loaded != all {
			t.Errorf("%+v: %d bytes of weights are loaded, want %d", c.shards, loaded, all)
		}
	}
}

func threeLayers() *program.Program {
	p := &program.Program{Scopes: []program.Scope{{Parent: -1}}, Layers: []string{"a"}, Origins: 1}
	at := p.Add(program.Value{Kind: program.InputValue, DType: program.Float32, Shape: []int64{2, 3}})
	p.Inputs = []program.ValueID{at}
	for i, shape := range [][]int64{{3, 3}, {5, 3}, {3, 5}} {
		w := p.Add(program.Value{Name: "w", Kind: program.Parameter, DType: program.Float32, Shape: shape})
		y := p.Add(program.Value{DType: program.Float32, Shape: []int64{2, shape[0]}})
		p.State, p.Params = append(p.State, w), append(p.Params, w)
		p.Calls = append(p.Calls, program.Call{Op: "linear", In: []program.ValueID{at, w}, Out: []program.ValueID{y},
			Args: program.Plain})
		if i > 0 {
			p.Groups = append(p.Groups, program.Group{Params: []program.ValueID{w},
				Spans: []program.Span{{First: int32(i), Last: int32(i)}}})
		}
		at = y
	}
	p.Groups = append(p.Groups, program.Group{Params: p.Params[:1]})
	p.Outputs = []program.ValueID{at}
	return p
}
