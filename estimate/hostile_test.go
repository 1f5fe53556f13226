package estimate

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

// hostileRuns are the settings under which anything that can be read is run.
var hostileRuns = []torch.Options{
	{}, {Settings: torch.Settings{ChannelsLast: true,
		Precision: torch.AMPBF16}}, {Settings: torch.Settings{Precision: torch.FP16}},
	{Train: true}, {Train: true, Settings: torch.Settings{Precision: torch.AMPBF16, Loss: "mse", Accumulate: 2}},
	{Train: true, Settings: torch.Settings{Precision: torch.AMPFP16, Scaler: true, ClipNorm: true, Loss: "l1",
		Optimizer: "sgdm"}},
	{Train: true, Settings: torch.Settings{Precision: torch.BF16, ChannelsLast: true, Loss: "cross-entropy",
		ZeroGrads: true}},
	{Train: true, Settings: torch.Settings{Precision: torch.FP16, Loss: "bce-logits", ForLoop: true}}, {Train: true,
		Settings: torch.Settings{Loss: "nll"}},
}

// bindAll binds a model with every size that is asked for taken for two.
func bindAll(m *onnxload.Model) (*Model, error) {
	opt := Options{Dims: map[string]int64{}, Inputs: map[string][]int64{}}
	for range 3 {
		b, err := Bind(m, opt)
		var open *UnboundError
		if !errors.As(err, &open) {
			return b, err
		}
		for _, d := range open.Dims {
			if d.Name != "" {
				opt.Dims[d.Name] = 2
			}
		}
	}
	return Bind(m, opt)
}

// simulateAll runs a model under every setting, once as it is and once with its inputs for parameters. A
// model may be refused; what it may not do is panic, take more time or memory than its size justifies, or
// free what it does not hold. It returns the number of runs that came to an end.
func simulateAll(t *testing.T, name string, raw []byte) (runs int) {
	t.Helper()
	m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)),
		onnxload.Options{Path: name, Limits: onnxload.Limits{Nodes: 10_000}})
	if err != nil {
		return 0
	}
	b, err := bindAll(m)
	if err != nil {
		return 0
	}
	for _, opts := range hostileRuns {
		for _, inputs := range []bool{false, true} {
			p, err := b.Program(opts.Train)
			if err != nil {
				oneLine(t, name, err)
				break
			}
			if inputs {
				q := *p
				q.Values, q.State = append([]program.Value(nil), p.Values...), append([]program.ValueID(nil), p.State...)
				p = &q
				trainInputs(p)
			}
			start, before := time.Now(), heapTaken()
			run, err := torch.Simulate(p, opts)
			if n := heapTaken() - before; n > 64<<20+64<<10*uint64(len(raw)) {
				t.Errorf("%s under %+v: %d bytes allocated for an input of %d", name, opts, n, len(raw))
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("%s under %+v: took %v", name, opts, d)
			}
			if err != nil {
				oneLine(t, name, err)
				continue
			}
			runs++
			checkBlocks(t, name, run.Log)
			if _, err := caching.NewReplayer(caching.Config{Total: gpu.Default().Memory}).Finish(run.Log); err != nil {
				t.Errorf("%s under %+v: %v", name, opts, err)
			}
		}
	}
	return runs
}

// heapTaken returns the bytes that this process has allocated so far, but for small objects of the last moments. It
// stops nothing, as runtime.ReadMemStats does.
func heapTaken() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func oneLine(t *testing.T, name string, err error) {
	t.Helper()
	if s := err.Error(); s == "" || strings.ContainsAny(s, "\n\r") {
		t.Errorf("%s: the error is not one line: %q", name, s)
	}
}

// Whatever ONNX's operator tests hold can be run, or is refused in one line.
func TestEveryNodeRunsSomehow(t *testing.T) {
	models, runs := 0, 0
	err := on.Archives("shape/testdata/onnx-nodes*.tar.gz", func(name string, raw []byte) {
		if models++; inTurn(models) {
			runs += simulateAll(t, name, raw)
		}
	})
	must.OK(t, err)
	t.Logf("%d models, %d runs", models, runs)
	if runs < models {
		t.Errorf("%d models gave only %d runs", models, runs)
	}
}

// readSeeds returns the inputs of a fuzz corpus of byte slices.
func readSeeds(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no seeds in %s: %v", dir, err)
	}
	seeds := map[string][]byte{}
	for _, f := range files {
		text := must.Read(t, f)
		_, line, _ := strings.Cut(string(text), "\n")
		line, _, _ = strings.Cut(line, "\n")
		s, err := strconv.Unquote(strings.TrimSuffix(strings.TrimPrefix(line, "[]byte("), ")"))
		if err != nil {
			continue
		}
		seeds[filepath.Base(f)] = []byte(s)
	}
	return seeds
}

// What was found to be hard to read is not hard to run.
func TestFuzzCorpusRuns(t *testing.T) {
	for name, raw := range readSeeds(t, "../onnxload/testdata/fuzz/FuzzRead") {
		simulateAll(t, name, raw)
	}
}

// hostileLines is a model whose nodes say that they were made by lines which no program has.
func hostileLines() on.Model {
	g := on.Graph{In: []on.Value{on.Float("x0", 2, 3)}, Out: []on.Value{{Name: "x12"}}}
	for i := range 12 {
		n := on.Op([]string{"Exp", "Relu", "Neg"}[i%3], fmt.Sprint("x", i), fmt.Sprint("x", i+1))
		line := []string{"x, *(a, [b]) = *self.f(x", "x += x;x.add_(x);del x", "xs.append(xs); y = xs; xs[0] = y",
			"= ) ; ( return", "for x in x: x = x(x)(x)[x](x)", "\x1b[0m\x00"}[i%6]
		trace := fmt.Sprintf("File \"m.py\", line %d, in forward\n    %s\n  File \"<string>\", line 1, in forward\n    %s",
			7-i%5, line, line)
		if i%4 == 0 {
			trace = fmt.Sprintf("File \"m.py\", line %d, in forward\n    %s", i+1, line)
		}
		n.Meta = append(n.Meta, onnxload.Entry{Key: "namespace", Value: ": M/a: A/a.b: B"},
			onnxload.Entry{Key: "pkg.torch.onnx.stack_trace", Value: trace})
		g.Nodes = append(g.Nodes, n)
	}
	return on.Model{Opset: 18, Graph: g}
}

// A sum of thousands of inputs has no run, and a warning says why: a file of five bytes for each would take hundreds
// of bytes of memory for each byte.
func TestChainsAreBounded(t *testing.T) {
	for _, op := range []string{"Sum", "Mean", "Max", "Min"} {
		for _, c := range []struct {
			inputs int
			runs   bool
		}{{5002, true}, {5003, false}} {
			g := on.Graph{In: []on.Value{on.Float("x", 4)}, Out: []on.Value{{Name: "y"}},
				Nodes: []on.Node{on.Op(op, strings.TrimSpace(strings.Repeat("x ", c.inputs)), "y")}}
			raw := on.Model{Opset: 17, Graph: g}.Bytes()
			m := readModel(t, raw, op)
			b, err := Bind(m, Options{})
			must.OK(t, err)
			r, err := b.Report(Options{Step: &Step{}})
			must.OK(t, err)
			said := slices.ContainsFunc(r.Notes, func(n Note) bool {
				return n.Level == Warning && strings.Contains(n.Text, "more than 5000 calls beyond one each")
			})
			if (r.Peak != nil) != c.runs || said == c.runs {
				t.Errorf("%s of %d inputs: a peak %v, a warning %v", op, c.inputs, r.Peak != nil, said)
			}
		}
	}
}

// Whatever lines a file says that it came from, it runs.
func TestHostileLinesRun(t *testing.T) { simulateAll(t, "lines", hostileLines().Bytes()) }

// FuzzSimulate runs anything that can be read and typed: without panic, in time and memory bounded by the
// input's size, with every free of a live block.
func FuzzSimulate(f *testing.F) {
	k := 0
	err := on.Archives("shape/testdata/onnx-nodes*.tar.gz", func(name string, raw []byte) {
		if k++; k%5 == 0 && len(raw) < 2048 {
			f.Add(raw)
		}
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(hostileLines().Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) { simulateAll(t, "input", raw) })
}

// Work grows with a model as its nodes do: not with the length of a chain of other names, with the square of a
// node's depth, or along dimensions that depend on each other.
func TestWorkInProportion(t *testing.T) {
	chain := func(n int, op, name string) on.Graph {
		g := on.Graph{In: []on.Value{on.Float("x0", 64)}, Out: []on.Value{{Name: fmt.Sprint("x", n)}}}
		for i := range n {
			g.Nodes = append(g.Nodes, on.Op(op, fmt.Sprint("x", i), fmt.Sprint("x", i+1)).Named(name))
		}
		return g
	}
	// A list of 200 tensors that grows by one, again and again.
	lists := on.Graph{In: []on.Value{on.Float("x", 4)}, Out: []on.Value{{Name: "y"}},
		Nodes: []on.Node{on.Op("SequenceConstruct", strings.Repeat("x ", 200), "s0")}}
	for i := range 40_000 {
		lists.Nodes = append(lists.Nodes, on.Op("SequenceInsert", fmt.Sprintf("s%d x", i), fmt.Sprint("s", i+1)))
	}
	lists.Nodes = append(lists.Nodes, on.Op("ConcatFromSequence", "s40000", "y", on.A("axis", int64(0))))
	// Slices of one tensor that would be a chunk, were there one more.
	slices := on.Graph{In: []on.Value{on.Float("x", 10_001)}, Inits: []on.Tensor{on.Int64s("a", 0), on.Int64s("at0", 0)}}
	for i := range int64(10_000) {
		end, out := fmt.Sprint("at", i+1), fmt.Sprint("y", i)
		slices.Inits = append(slices.Inits, on.Int64s(end, i+1))
		slices.Nodes = append(slices.Nodes, on.Op("Slice", fmt.Sprintf("x at%d %s a", i, end), out))
		slices.Out = append(slices.Out, on.Value{Name: out})
	}
	// Products with one matrix.
	products := on.Graph{In: []on.Value{on.Float("x", 2, 2)},
		Inits: []on.Tensor{on.Bare("w.weight", onnxload.Float32, 2, 2)}}
	for i := range 20_000 {
		out := fmt.Sprint("y", i)
		products.Nodes = append(products.Nodes, on.Op("MatMul", "x w.weight", out))
		products.Out = append(products.Out, on.Value{Name: out})
	}
	// A tensor in very many parts, which are joined again; and a module that reads the part of a tensor again and again.
	var parts []string
	for i := range 10_000 {
		parts = append(parts, fmt.Sprint("p", i))
	}
	n := on.A("num_outputs", int64(len(parts)))
	joined := on.Graph{In: []on.Value{on.Float("x", 10_000)}, Out: []on.Value{{Name: "y"}}, Nodes: []on.Node{
		on.Op("Sigmoid", "x", "s"), on.Op("Split", "s", strings.Join(parts, " "), n, on.A("axis", int64(0))), on.Op("Concat",
			strings.Join(parts, " "), "y", on.A("axis", int64(0))),
	}}
	again := on.Graph{In: []on.Value{on.Float("x", 4)}, Out: []on.Value{{Name: "z"}}, Nodes: []on.Node{
		on.Op("Sigmoid", "x", "s").Named("/Sigmoid"), on.Op("Split", "s", "y0 b", on.A("num_outputs", int64(2)),
			on.A("axis", int64(0))).Named("/Split"),
	}}
	for i := range 20_000 {
		again.Nodes = append(again.Nodes, on.Op("Mul", fmt.Sprint("y0 y", i),
			fmt.Sprint("y", i+1)).Named(fmt.Sprint("/m/Mul_", i)))
	}
	again.Nodes = append(again.Nodes, on.Op("Mul", "y20000 b", "z").Named("/Mul"))
	// Weights that are joined one by one, and very many that are joined at once for very many readers.
	weights := func(n int) (g on.Graph, names []string) {
		g.In = []on.Value{on.Float("x", 1, 1)}
		for i := range n {
			name := fmt.Sprintf("w%d.weight", i)
			g.Inits, names = append(g.Inits, on.Bare(name, onnxload.Float32, 1, 1)), append(names, name)
		}
		return g, names
	}
	grown, names := weights(20_000)
	for i, w := range names[1:] {
		from := fmt.Sprint("c", i)
		if i == 0 {
			from = names[0]
		}
		grown.Nodes = append(grown.Nodes, on.Op("Concat", from+" "+w, fmt.Sprint("c", i+1), on.A("axis", int64(0))))
	}
	grown.Nodes = append(grown.Nodes, on.Op("Gemm", fmt.Sprintf("x c%d", len(names)-1), "y", on.A("transB", int64(1))))
	grown.Out = []on.Value{{Name: "y"}}
	read, names := weights(1000)
	read.Nodes = append(read.Nodes, on.Op("Concat", strings.Join(names, " "), "c", on.A("axis", int64(0))))
	for i := range 20_000 {
		out := fmt.Sprint("y", i)
		read.Nodes = append(read.Nodes, on.Op("Gemm", "x c", out, on.A("transB", int64(1))))
		read.Out = append(read.Out, on.Value{Name: out})
	}
	beside := chain(40_000, "Relu", "")
	for i := range beside.Nodes {
		beside.Nodes[i] = beside.Nodes[i].Named(fmt.Sprintf("/m%d/Relu", i))
	}
	for name, g := range map[string]on.Graph{
		"weights joined one by one": grown,
		"weights joined for many":   read,
		"parts joined":              joined,
		"a part read again":         again,
		"products":                  products,
		"slices":                    slices,
		"lists":                     lists,
		"other names":               chain(40_000, "Identity", ""),
		"sizes that data decides":   chain(20_000, "Unique", ""),
		"modules side by side":      beside,
		"modules within modules":    chain(40, "Sigmoid", "/"+strings.Repeat("a/", 100_000)+"Sigmoid"),
		"names up to the limit":     chain(4_000, "Sigmoid", "/"+strings.Repeat("abcd/", 100)+"Sigmoid"),
	} {
		inProportion(t, name, on.Model{Graph: g}, Step{Infer: true})
	}
}

// Each of very many numbers that a model returns may be its loss.
func TestLossesInProportion(t *testing.T) {
	g := on.Graph{In: []on.Value{on.Float("x", 2, 2)}}
	for i := range 15_000 {
		from, to := fmt.Sprint("x", i), fmt.Sprint("x", i+1)
		if i == 0 {
			from = "x"
		}
		g.Inits = append(g.Inits, on.Bare(to+".weight", onnxload.Float32, 2, 2))
		g.Nodes = append(g.Nodes, on.Op("MatMul", from+" "+to+".weight", to),
			on.Op("ReduceSum", to, "s"+to, on.A("keepdims", int64(0))))
		g.Out = append(g.Out, on.Value{Name: "s" + to})
	}
	g.Out = append(g.Out, on.Value{Name: "x15000"})
	inProportion(t, "losses", on.Model{Graph: g}, Step{})
}

// inProportion runs a model that is large in one way, which takes no more than others do.
func inProportion(t *testing.T, name string, m on.Model, s Step) {
	t.Helper()
	start := time.Now()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ask(t, m, Options{Step: &s, Weigh: true}); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 500<<20 {
		t.Errorf("%s: %d MB allocated", name, (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	if d := time.Since(start); d > 20*time.Second { // none takes one
		t.Errorf("%s: %v", name, d)
	}
}
