package recover_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// An export has one name for a weight that an embedding and a layer share. Module._apply moves it, and
// Module.parameters lists it, where it meets it first.
func TestStateOrder(t *testing.T) {
	table := func(name string) onnx.Tensor { return onnx.Bare(name, onnxload.Float32, 16, 8) }
	square := func(name string) onnx.Tensor { return onnx.Bare(name, onnxload.Float32, 8, 8) }
	in := func(module string, n onnx.Node) onnx.Node {
		n.Name = module + ":" + n.Op
		return n
	}
	matmul := func(x, w, y string) onnx.Node { return onnx.Op("MatMul", x+" "+w, y) }
	head := func(x string) []onnx.Node {
		return []onnx.Node{in("head", onnx.Op("Transpose", "head.weight", "turned", onnx.A("perm", []int64{1, 0}))),
			in("head", matmul(x, "turned", "y"))}
	}
	for _, c := range []struct {
		name  string
		inits []onnx.Tensor
		nodes []onnx.Node
		want  []string
	}{
		{"tied", []onnx.Tensor{square("body.0.own.w"), square("body.0.norm.w"), table("head.weight")},
			append([]onnx.Node{in("body.tokens", onnx.Op("Gather", "head.weight ids", "a")),
				in("body.0.norm", matmul("a", "body.0.norm.w", "b")), in("body.0.own", matmul("b", "body.0.own.w", "c"))},
				head("c")...),
			[]string{"head.weight", "body.0.own.w", "body.0.norm.w"}},
		{"its own", []onnx.Tensor{square("body.w"), table("tokens.weight")},
			[]onnx.Node{in("tokens", onnx.Op("Gather", "tokens.weight ids", "a")), in("body", matmul("a", "body.w", "y"))},
			[]string{"body.w", "tokens.weight"}},
		{"read as a matrix first", []onnx.Tensor{square("body.w"), table("head.weight")},
			append([]onnx.Node{in("body", onnx.Op("Gather", "head.weight ids", "a")),
				in("body", matmul("a", "body.w", "b"))}, head("b")...),
			[]string{"body.w", "head.weight"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := recovertest.Recovered(onnx.Graph{Inits: c.inits, Nodes: c.nodes,
				In: []onnx.Value{onnx.Val("ids", onnxload.Int64, 2, 4)}, Out: []onnx.Value{{Name: "y"}}})
			must.OK(t, err)
			names := func(ids []program.ValueID) (list []string) {
				for _, v := range ids {
					list = append(list, p.Values[v].Name)
				}
				return list
			}
			if got := names(p.State); !slices.Equal(got, c.want) {
				t.Errorf("moved %v, want %v", got, c.want)
			}
			if got := names(p.Params); !slices.Equal(got, c.want) {
				t.Errorf("parameters %v, want %v", got, c.want)
			}
		})
	}
}

// A row names the inputs that ONNX gives its operator, in any of its versions. testdata/onnx-inputs.txt has them, as
// scripts/onnx_inputs.py wrote them with ONNX 1.23.2: ! for an input that every node has, ? for one that may be left
// out, + and * for any number of them from there on.
func TestRowsNameONNXInputs(t *testing.T) {
	data := must.Read(t, "testdata/onnx-inputs.txt")
	seen := 0
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		f := recover.Facts("", words[0])
		if f == nil {
			continue
		}
		seen++
		least, most, required := 0, len(words)-1, uint32(0)
		for slot, sign := range words[1:] {
			if sign == "!" || sign == "+" {
				least, required = slot+1, required|1<<slot
			}
			if sign == "+" || sign == "*" {
				most = math.MaxInt
			}
		}
		if f.Least != least || f.Most != most || f.Required != required {
			t.Errorf("%s: %d to %d inputs of which %b are required; ONNX has %d to %d, and requires %b", words[0], f.Least,
				f.Most, f.Required, least, most, required)
		}
	}
	if seen < 150 {
		t.Errorf("only %d operators of ONNX have a row", seen)
	}
}

// mustRecover is recovered for graphs that have to be understood, and it simulates a step of them.
func mustRecover(t *testing.T, g onnx.Graph) *program.Program {
	t.Helper()
	p, err := recovertest.Recovered(g)
	must.OK(t, err)
	for _, o := range []torch.Options{{}, {Settings: torch.Settings{Precision: torch.AMPBF16}},
		{Settings: torch.Settings{Precision: torch.FP16, ChannelsLast: true}}} {
		if _, err := torch.Simulate(p, o); err != nil {
			t.Fatalf("%v\n%s", err, recovertest.CallsOf(p))
		}
	}
	return p
}

func wantCalls(t *testing.T, p *program.Program, want ...string) {
	t.Helper()
	if got := recovertest.CallsOf(p); got != strings.Join(want, "\n") {
		t.Errorf("calls are\n%s\nwanted\n%s", got, strings.Join(want, "\n"))
	}
}

// An output may be an input, a constant, or given twice.
func TestOutputsThatNothingComputes(t *testing.T) {
	g := onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 3)}, Inits: []onnx.Tensor{onnx.Bare("fc.weight", onnxload.Float32, 3, 3),
			onnx.Bare("c", onnxload.Float32, 4)},
		Nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "y"), onnx.Op("Identity", "y", "z")},
		Out: []onnx.Value{onnx.Float("y", 2, 3), onnx.Float("x", 2, 3), onnx.Float("c", 4), onnx.Float("z", 2, 3),
			onnx.Float("fc.weight", 3, 3)},
	}
	for range g.Out {
		g.Out = append(g.Out[1:], g.Out[0])
		p, err := recovertest.Recovered(g)
		must.OK(t, err)
		if len(p.Outputs) != 5 {
			t.Errorf("%d outputs, wanted 5", len(p.Outputs))
		}
		if _, err := torch.Simulate(p, torch.Options{}); err != nil {
			t.Error(err)
		}
		// The loss is of an output that has a gradient, wherever it stands.
		if _, err = torch.Simulate(p, torch.Options{Train: true}); err != nil {
			t.Errorf("training with %s first: %v", g.Out[0].Name, err)
		}
	}
	g.Out = []onnx.Value{onnx.Float("x", 2, 3), onnx.Float("c", 4)}
	p, err := recovertest.Recovered(g)
	must.OK(t, err)
	_, err = torch.Simulate(p, torch.Options{Train: true})
	if err == nil || !strings.Contains(err.Error(), "depends on no parameter") {
		t.Errorf("training towards x: error %v", err)
	}
}

// An integer output has no gradient, whatever the loss.
func TestIntegerOutputHasNoGradient(t *testing.T) {
	p, err := recovertest.Recovered(onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 3)}, Inits: []onnx.Tensor{onnx.Bare("fc.weight", onnxload.Float32, 3, 3)},
		Nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "h"),
			onnx.Op("ArgMax", "h", "y", onnx.A("axis", 1), onnx.A("keepdims", 0))},
		Out: []onnx.Value{onnx.Val("y", onnxload.Int64, 2)},
	})
	must.OK(t, err)
	for _, loss := range torch.Losses {
		_, err := torch.Simulate(p, torch.Options{Train: true, Settings: torch.Settings{Loss: loss}})
		if loss == "none" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "loss") {
			t.Errorf("loss %s: error %v", loss, err)
		}
	}
}

// Sizes that no computer has are an error that names the value.
func TestSizesBeyondReason(t *testing.T) {
	for _, dims := range [][]any{{1 << 31, 1 << 31}, {int64(1 << 62), 8}, {0, int64(1 << 62), int64(1 << 62)}, {1 << 49}} {
		_, err := recovertest.Recovered(onnx.Graph{In: []onnx.Value{onnx.Float("x", dims...)},
			Nodes: []onnx.Node{onnx.Op("Relu", "x", "y")}, Out: []onnx.Value{{Name: "y"}}})
		if err == nil || !strings.Contains(err.Error(), `value "x"`) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: error %v", dims, err)
		}
	}
	// The product of these is fine, what attention needs for them is not.
	p, err := recovertest.Recovered(onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 1, 1<<24, 1, 4), onnx.Float("k", 1, 1, 1<<24, 4)},
		Nodes: []onnx.Node{onnx.Op("Expand", "k s", "ke"), onnx.Op("MatMul", "x kt", "y"),
			onnx.Op("Transpose", "ke", "kt", onnx.A("perm", []int64{0, 1, 3, 2}))},
		Inits: []onnx.Tensor{onnx.Int64s("s", 1, 1<<24, 1<<24, 4)}, Out: []onnx.Value{{Name: "y"}},
	})
	if err == nil {
		_, err = torch.Simulate(p, torch.Options{})
	}
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}

// Modules may nest as deep as a file says; only so many levels of them are kept.
func TestDeepModules(t *testing.T) {
	g := onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 3)}, Out: []onnx.Value{{Name: "y"}}}
	deep := strings.Repeat("a.", 200_000)
	g.Nodes = []onnx.Node{onnx.Op("MatMul", "x "+deep+"weight", "h").Named(deep + "fc:MatMul"),
		onnx.Op("Relu", "h", "y").Named(deep + "act:Relu")}
	g.Inits = []onnx.Tensor{onnx.Bare(deep+"weight", onnxload.Float32, 3, 3)}
	p := mustRecover(t, g)
	if len(p.Scopes) > 64+1 {
		t.Errorf("%d scopes", len(p.Scopes))
	}
	wantCalls(t, p, "linear(x, "+deep+"weight, -)", "relu(h)")
}

// A product's weight that several products share stays one parameter of one shape.
func TestSharedWeight(t *testing.T) {
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 3)}, Inits: []onnx.Tensor{onnx.Bare("fc.weight", onnxload.Float32, 3, 3),
			onnx.Bare("head.weight", onnxload.Float32, 3, 5)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "a"), onnx.Op("MatMul", "a fc.weight", "b"),
			onnx.Op("MatMul", "b head.weight", "y")},
	})
	wantCalls(t, p, "linear(x, fc.weight, -)", "linear(a, fc.weight, -)", "linear(b, head.weight, -)")
	for _, v := range p.Values {
		if v.Name == "head.weight" && !slices.Equal(v.Shape, []int64{5, 3}) {
			t.Errorf("head.weight has shape %v", v.Shape)
		}
	}
	// One that something else reads too is no Linear's.
	p = mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 3)}, Inits: []onnx.Tensor{onnx.Bare("p.weight", onnxload.Float32, 3,
			5)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{onnx.Op("MatMul", "x p.weight", "a"),
			onnx.Op("ReduceSum", "p.weight", "s", onnx.A("keepdims", 0)), onnx.Op("Add", "a s", "y")},
	})
	wantCalls(t, p, "matmul(x, p.weight)", "sum(p.weight)", "add(a, s)")
}

// What no row fits is opaque: its results are there, gradients go through, and it is counted.
func TestOpaqueNode(t *testing.T) {
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 3)}, Inits: []onnx.Tensor{onnx.Bare("fc.weight", onnxload.Float32, 3,
			3)}, Out: []onnx.Value{onnx.Float("y", 2, 5)},
		Nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "a"), onnx.Op("Mystery", "a", "y").Of("example")},
	})
	wantCalls(t, p, "linear(x, fc.weight, -)", "opaque(a)")
	if p.Unknown["example::Mystery"] != 1 {
		t.Errorf("unknown operators: %v", p.Unknown)
	}
	if _, err := torch.Simulate(p, torch.Options{Train: true}); err != nil {
		t.Error(err)
	}
}

// Axes that come with the data are told by what they did to the shape, where the file declares the result's.
func TestAxesFromShapes(t *testing.T) {
	for _, tt := range []struct {
		in, out []any
		keep    int
		dims    []int
	}{
		{[]any{3, 2, 2}, []any{3, 2}, 0, []int{2}}, {[]any{3, 2, 5}, []any{3, 5}, 0, []int{1}}, {[]any{3, 2, 5}, []any{5}, 0,
			[]int{0, 1}},
		{[]any{3, 2, 5}, []any{3, 1, 5}, 1, []int{1}}, {[]any{3, 1, 5}, []any{3, 1, 5}, 1, []int{1}}, {[]any{3, 2},
			[]any{1, 1}, 1, []int{0, 1}},
	} {
		p := mustRecover(t, onnx.Graph{
			In:    []onnx.Value{onnx.Float("x", tt.in...), onnx.Typed("axes", onnx.TensorOf(onnxload.Int64, len(tt.dims)))},
			Out:   []onnx.Value{onnx.Float("y", tt.out...)},
			Nodes: []onnx.Node{onnx.Op("ReduceSum", "x axes", "y", onnx.A("keepdims", tt.keep))},
		})
		if got := p.Calls[0].Args.Dims; !slices.Equal(got, tt.dims) {
			t.Errorf("%v to %v: dimensions %v, want %v", tt.in, tt.out, got, tt.dims)
		}
	}
}

// F.relu of what a module of the function's own made is no ReLU(inplace=True) module.
func TestActivationsOfFunctions(t *testing.T) {
	for _, tt := range []struct{ conv, relu, want string }{
		{"block.conv:Conv", "block.act:Relu", "relu_(c)"}, {"block.conv:Conv", "block:Relu", "relu(c)"}, {"conv:Conv",
			":Relu", "relu(c)"}, {":Conv", ":Relu", "relu_(c)"},
	} {
		p := mustRecover(t, onnx.Graph{
			In: []onnx.Value{onnx.Float("x", 2, 3, 8, 8)}, Out: []onnx.Value{{Name: "y"}},
			Inits: []onnx.Tensor{onnx.Zeros("conv.weight", onnxload.Float32, 4, 3, 3, 3)},
			Nodes: []onnx.Node{onnx.Op("Conv", "x conv.weight", "c").Named(tt.conv), onnx.Op("Relu", "c", "r").Named(tt.relu),
				onnx.Op("Exp", "r", "y").Named("last:Exp")},
		})
		got := "relu(c)"
		if p.Calls[1].Args.Inplace {
			got = "relu_(c)"
		}
		if p.Calls[1].Op != "relu" || got != tt.want {
			t.Errorf("%s then %s: %s of %s, wanted %s", tt.conv, tt.relu, got, recovertest.CallsOf(p), tt.want)
		}
	}
}
