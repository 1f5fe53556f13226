package estimate

import (
	"errors"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// ask runs a small model that is written as a literal.
func ask(t *testing.T, m on.Model, opt Options) (*Report, error) {
	t.Helper()
	data := m.Bytes()
	model := readModel(t, data, "")
	return Run(model, opt)
}

func answer(t *testing.T, m on.Model, opt Options) *Report {
	t.Helper()
	r, err := ask(t, m, opt)
	must.OK(t, err)
	return r
}

// What an initializer is, by where it arrives and what it is called.
func TestRoles(t *testing.T) {
	x, y := on.Float("x", 8, 16), on.Value{Name: "y"}
	f32, i64, i8 := onnxload.Float32, onnxload.Int64, onnxload.Int8
	frozen := []on.Tensor{on.Bare("bn.weight", f32, 16), on.Bare("bn.bias", f32, 16), on.Bare("bn.running_mean", f32, 16),
		on.Bare("bn.running_var", f32, 16)}
	for _, tt := range []struct {
		name  string
		inits []on.Tensor
		nodes []on.Node
		want  [3]int64 // tensors that are parameters, buffers, constants
	}{
		{"a weight behind a transpose", []on.Tensor{on.Bare("fc.weight", f32, 4, 16)},
			[]on.Node{on.Op("Transpose", "fc.weight", "t", on.A("perm", []int64{1, 0})), on.Op("MatMul", "x t", "y")},
			[3]int64{1, 0, 0}},
		{"a weight that folding renamed", []on.Tensor{on.Bare("onnx::MatMul_3", f32, 16, 4)},
			[]on.Node{on.Op("MatMul", "x onnx::MatMul_3", "y")}, [3]int64{1, 0, 0}},
		{"a weight shared by two nodes", []on.Tensor{on.Bare("w", f32, 16, 16)},
			[]on.Node{on.Op("MatMul", "x w", "a"), on.Op("MatMul", "a w", "y")}, [3]int64{1, 0, 0}},
		{"a bias that folding renamed", []on.Tensor{on.Bare("val_3", f32, 16)}, []on.Node{on.Op("Add", "x val_3", "y")},
			[3]int64{1, 0, 0}},
		{"a number in the program", []on.Tensor{on.Bare("val_3", f32)}, []on.Node{on.Op("Mul", "x val_3", "y")},
			[3]int64{0, 0, 1}},
		{"a number that is trained", []on.Tensor{on.Bare("logit_scale", f32)}, []on.Node{on.Op("Mul", "x logit_scale", "y")},
			[3]int64{1, 0, 0}},
		{"a number that scales embeddings", []on.Tensor{on.Bare("embed_tokens.embed_scale", f32)},
			[]on.Node{on.Op("Mul", "x embed_tokens.embed_scale", "y")}, [3]int64{0, 1, 0}},
		{"a table of sinusoids that is gathered", []on.Tensor{on.Bare("attn.embed_positions", f32, 8, 16),
			on.Bare("i", i64, 8, 16)}, []on.Node{on.Op("GatherElements", "attn.embed_positions i", "g"),
			on.Op("Mul", "x g", "y")}, [3]int64{0, 2, 0}},
		{"frequencies of one kind of layers", []on.Tensor{on.Bare("rotary_emb.sliding_attention_inv_freq", f32, 16)},
			[]on.Node{on.Op("Mul", "x rotary_emb.sliding_attention_inv_freq", "y")}, [3]int64{0, 1, 0}},
		{"a mask of attention", []on.Tensor{on.Bare("causal", f32, 16, 16), on.Int64s("to", 4, 2, 16)},
			[]on.Node{on.Op("Reshape", "x to", "s"), on.Op("Transpose", "s", "t", on.A("perm", []int64{0, 2, 1})),
				on.Op("MatMul", "t s", "p"), on.Op("Add", "p causal", "a"), on.Op("Softmax", "a", "y")}, [3]int64{0, 1, 1}},
		{"a trained bias of attention", []on.Tensor{on.Bare("bias", f32, 4, 16, 16), on.Int64s("to", 4, 2, 16)},
			[]on.Node{on.Op("Reshape", "x to", "s"), on.Op("Transpose", "s", "t", on.A("perm", []int64{0, 2, 1})),
				on.Op("MatMul", "t s", "p"), on.Op("Add", "p bias", "a"), on.Op("Softmax", "a", "y")}, [3]int64{1, 0, 1}},
		{"a mask without a name", []on.Tensor{on.Bare("unsqueeze_2", f32, 8, 16)},
			[]on.Node{on.Op("Add", "x unsqueeze_2", "y")}, [3]int64{0, 1, 0}},
		{"a table of sinusoids", []on.Tensor{on.Bare("encoder.pe", f32, 8, 16)},
			[]on.Node{on.Op("Add", "x encoder.pe", "y")}, [3]int64{0, 1, 0}},
		{"learned positions", []on.Tensor{on.Bare("pos_embed", f32, 8, 16)}, []on.Node{on.Op("Add", "x pos_embed", "y")},
			[3]int64{1, 0, 0}},
		{"a shape", []on.Tensor{on.Int64s("val_1", 4, 32)}, []on.Node{on.Op("Reshape", "x val_1", "y")}, [3]int64{0, 0, 1}},
		{"an index of a module", []on.Tensor{on.Bare("attn.relative_position_index", i64, 49)},
			[]on.Node{on.Op("Gather", "x attn.relative_position_index", "y", on.A("axis", int64(1)))}, [3]int64{0, 1, 0}},
		{"running statistics", []on.Tensor{on.Bare("bn.weight", f32, 16), on.Bare("bn.bias", f32, 16),
			on.Bare("bn.running_mean", f32, 16), on.Bare("bn.running_var", f32, 16)},
			[]on.Node{on.Op("BatchNormalization", "x bn.weight bn.bias bn.running_mean bn.running_var", "y")}, [3]int64{2, 2,
				0}},
		{"a rotary table", []on.Tensor{on.Bare("pos.weight", f32, 32, 16), on.Int64s("val_1", 0, 1, 2, 3, 4, 5, 6, 7)},
			[]on.Node{on.Op("Gather", "pos.weight val_1", "g"), on.Op("Split", "g", "sin cos", on.A("axis", 1)),
				on.Op("Concat", "sin sin", "s", on.A("axis", 1)), on.Op("Concat", "cos cos", "c", on.A("axis", 1)),
				on.Op("Mul", "x s", "a"), on.Op("Mul", "x c", "b"), on.Op("Add", "a b", "y")}, [3]int64{0, 1, 1}},
		{"learned positions, looked up", []on.Tensor{on.Bare("pos.weight", f32, 32, 16),
			on.Int64s("val_1", 0, 1, 2, 3, 4, 5, 6, 7)}, []on.Node{on.Op("Gather", "pos.weight val_1", "g"),
			on.Op("Add", "x g", "y")}, [3]int64{1, 0, 1}},
		{"a learned scale and shift of places", []on.Tensor{on.Bare("pos.weight", f32, 32, 32),
			on.Int64s("val_1", 0, 1, 2, 3, 4, 5, 6, 7)}, []on.Node{on.Op("Gather", "pos.weight val_1", "g"),
			on.Op("Split", "g", "k b", on.A("axis", 1)), on.Op("Mul", "x k", "a"), on.Op("Add", "a b", "y")}, [3]int64{1, 0, 1}},
		{"a frozen batch norm", frozen, []on.Node{on.Op("Mul", "bn.weight bn.running_var", "scale"),
			on.Op("Mul", "bn.running_mean scale", "m"), on.Op("Sub", "bn.bias m", "shift"), on.Op("Mul", "x scale", "a"),
			on.Op("Add", "a shift", "y")}, [3]int64{0, 4, 0}},
		{"a frozen batch norm, folded", []on.Tensor{on.Bare("mul_2", f32, 1, 16, 1, 1), on.Bare("sub_1", f32, 1, 16, 1, 1),
			on.Int64s("val_1", 8, 16, 1, 1)}, []on.Node{on.Op("Reshape", "x val_1", "r"), on.Op("Relu", "r", "q"),
			on.Op("Mul", "q mul_2", "a"), on.Op("Add", "a sub_1", "y")}, [3]int64{0, 2, 1}},
		{"a scale and shift, folded", []on.Tensor{on.Bare("mul_2", f32, 1, 16, 1, 1), on.Bare("val_2", f32, 1, 16, 1, 1),
			on.Int64s("val_1", 8, 16, 1, 1)}, []on.Node{on.Op("Reshape", "x val_1", "r"), on.Op("Relu", "r", "q"),
			on.Op("Mul", "q mul_2", "a"), on.Op("Add", "a val_2", "y")}, [3]int64{2, 0, 1}},
		{"a batch norm by hand", frozen, []on.Node{on.Op("Sub", "x bn.running_mean", "a"),
			on.Op("Mul", "a bn.running_var", "b"), on.Op("Mul", "b bn.weight", "c"),
			on.Op("Add", "c bn.bias", "y")}, [3]int64{2, 2, 0}},
		{"statistics under other names", []on.Tensor{on.Bare("a", f32, 16), on.Bare("b", f32, 16), on.Bare("c", f32, 16),
			on.Bare("d", f32, 16)},
			[]on.Node{on.Op("BatchNormalization", "x a b c d", "y")}, [3]int64{2, 2, 0}},
		{"a bias merged with a mean", []on.Tensor{on.Bare("a", f32, 16), on.Bare("b", f32, 16), on.Bare("d", f32, 16)},
			[]on.Node{on.Op("BatchNormalization", "x a b b d", "y")}, [3]int64{2, 2, 0}},
		{"a weight in 8 bits", []on.Tensor{on.Bare("fc.weight", i8, 16, 4), on.Bare("fc.scale", f32), on.Bare("fc.zero", i8)},
			[]on.Node{on.Op("DequantizeLinear", "fc.weight fc.scale fc.zero", "w"), on.Op("MatMul", "x w", "y")}, [3]int64{1, 2,
				0}},
		{"a tensor that nothing reads", []on.Tensor{on.Bare("spare.weight", f32, 16)}, []on.Node{on.Op("Relu", "x", "y")},
			[3]int64{1, 0, 0}},
	} {
		r := answer(t, on.Model{Graph: on.Graph{In: []on.Value{x}, Out: []on.Value{y}, Inits: tt.inits, Nodes: tt.nodes}},
			Options{})
		if got := [3]int64{r.Parameters.Tensors, r.Buffers.Tensors, r.Constants.Tensors}; got != tt.want {
			t.Errorf("%s: parameters, buffers, constants: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What torch.export's signature calls a buffer is one, whatever its name and what reads it.
func TestSignatureRoles(t *testing.T) {
	said := func(name, kind string) on.Value {
		v := on.Float(name, 16, 16)
		v.Meta = []onnxload.Entry{{Key: "pkg.torch.export.graph_signature.InputSpec.kind", Value: kind},
			{Key: "pkg.torch.export.graph_signature.InputSpec.persistent", Value: "True"}}
		return v
	}
	for _, tt := range []struct {
		tensor, kind string
		nodes        []on.Node
		want         [2]int // tensors that are parameters, buffers
	}{
		{"spline.grid", "", []on.Node{on.Op("Sub", "x spline.grid", "y")}, [2]int{1, 0}},
		{"spline.grid", "BUFFER", []on.Node{on.Op("Sub", "x spline.grid", "y")}, [2]int{0, 1}},
		{"blur.kernel", "BUFFER", []on.Node{on.Op("MatMul", "x blur.kernel", "y")}, [2]int{0, 1}},
		{"spare", "BUFFER", []on.Node{on.Op("Relu", "x", "y")}, [2]int{0, 1}},
		{"vit.pe", "PARAMETER", []on.Node{on.Op("Add", "x vit.pe", "y")}, [2]int{0, 1}}, // it may be frozen
		// A tensor that is registered neither as a parameter nor as a buffer: self.grid = torch.linspace(...).
		{"bias", "CONSTANT_TENSOR", []on.Node{on.Op("Add", "x bias", "y")}, [2]int{0, 1}},
		// A buffer that equals a weight stands for both.
		{"a.eye", "BUFFER", []on.Node{on.Op("MatMul", "x a.eye", "h"), on.Op("Add", "h a.eye", "y")}, [2]int{1, 0}},
	} {
		r := answer(t, on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", 16, 16)}, Out: []on.Value{{Name: "y"}},
			Inits: []on.Tensor{on.Bare(tt.tensor, onnxload.Float32, 16, 16)}, Nodes: tt.nodes,
			Infos: []on.Value{said(tt.tensor, tt.kind)}}}, Options{})
		if got := [2]int{int(r.Parameters.Tensors), int(r.Buffers.Tensors)}; got != tt.want {
			t.Errorf("%s, said to be %q: parameters, buffers: %v, want %v", tt.tensor, tt.kind, got, tt.want)
		}
	}
}

// What the exporter says that it computed is no parameter, though its name has no number (embedding, where PyTorch's
// own are embedding.weight) or a product reads it.
func TestComputedRoles(t *testing.T) {
	for _, tt := range []struct {
		name, folded, op string
		want             int
	}{
		{"embedding", "['m.types.weight', 'zeros']", "Add", 0},
		{"embedding", "", "Add", 1},
		{"repeat", "['adj']", "MatMul", 0},
		{"repeat", "", "MatMul", 1},
	} {
		v := on.Float(tt.name, 16, 16)
		if tt.folded != "" {
			v.Meta = []onnxload.Entry{{Key: "pkg.onnxscript.optimizer.folded_from", Value: tt.folded}}
		}
		r := answer(t, on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", 16, 16)}, Out: []on.Value{{Name: "y"}},
			Inits: []on.Tensor{on.Bare(tt.name, onnxload.Float32, 16, 16)},
			Nodes: []on.Node{on.Op(tt.op, "x "+tt.name, "y")}, Infos: []on.Value{v}}}, Options{})
		if int(r.Parameters.Tensors) != tt.want {
			t.Errorf("%+v: %d parameters", tt, r.Parameters.Tensors)
		}
	}
}

// Activations are counted as modelsize_estimate does.
func TestActivations(t *testing.T) {
	f32 := onnxload.Float32
	relu := func(in, out string) on.Node { return on.Op("Relu", in, out) }
	for _, tt := range []struct {
		name  string
		inits []on.Tensor
		nodes []on.Node
		want  int64 // elements
	}{
		{"views", []on.Tensor{on.Int64s("s", 16, 8)}, []on.Node{on.Op("Reshape", "x s", "a"), on.Op("Transpose", "a", "b"),
			on.Op("Sigmoid", "b", "y")}, 128},
		{"a ReLU on the input is not in place", nil, []on.Node{relu("x", "y")}, 128},
		{"a ReLU in place", nil, []on.Node{on.Op("Sigmoid", "x", "a"), relu("a", "y")}, 128},
		{"a ReLU whose input is read again", nil, []on.Node{on.Op("Sigmoid", "x", "a"), relu("a", "b"),
			on.Op("Add", "a b", "y")}, 3 * 128},
		{"arithmetic on shapes", nil, []on.Node{on.Op("Shape", "x", "s"), on.Op("ConstantOfShape", "s", "z"),
			on.Op("Add", "x z", "y")}, 128},
		{"a parameter transposed", []on.Tensor{on.Bare("w.weight", f32, 4, 16)},
			[]on.Node{on.Op("Transpose", "w.weight", "t"), on.Op("MatMul", "x t", "y")}, 32},
		{"dropout in eval mode", nil, []on.Node{on.Op("Sigmoid", "x", "a"), on.Op("Dropout", "a", "y")}, 128},
		{"an output that nobody reads", []on.Tensor{on.Int64s("k", 2)},
			[]on.Node{on.Op("TopK", "x k", "y i", on.A("axis", int64(1)))}, 16},
	} {
		r := answer(t, on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", 8, 16)}, Out: []on.Value{{Name: "y"}},
			Inits: tt.inits, Nodes: tt.nodes}}, Options{})
		if got := r.Activations.Forward; got != 4*tt.want || r.Activations.WithBackward != 8*tt.want {
			t.Errorf("%s: %d bytes, %d with backward, want %d and %d: %+v", tt.name, got, r.Activations.WithBackward, 4*tt.want,
				8*tt.want, r.Layers)
		}
	}
}

// A leaf module is one layer; a module that is called with two tensors is not, and
// neither is one that has modules inside.
func TestGroups(t *testing.T) {
	named := func(op, in, out, name string) on.Node { return on.Op(op, in, out).Named(name) }
	r := answer(t, on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", 8, 16)}, Out: []on.Value{{Name: "y"}},
		Inits: []on.Tensor{on.Bare("norm.weight", onnxload.Float32, 16)}, Nodes: []on.Node{
			named("Sigmoid", "x", "a", "/block/act/Sigmoid"),
			named("Mul", "x a", "b", "/block/act/Mul"),
			named("Abs", "b", "c", "/block/norm/Abs"),
			named("Mul", "norm.weight c", "d", "/block/norm/Mul"),
			named("Add", "d b", "e", "/block/Add"),
			named("Mul", "d e", "f", "/mix/Mul"),
			named("Mul", "f e", "y", "/mix/Mul_1"),
		}}}, Options{})
	var got []string
	for _, l := range r.Layers {
		got = append(got, l.Module+":"+l.Op)
	}
	if want := "block.act:Sigmoid+Mul block.norm:Abs+Mul block:Add mix:Mul mix:Mul"; strings.Join(got, " ") != want {
		t.Errorf("layers %q, want %q", strings.Join(got, " "), want)
	}
	if want := int64(5 * 128 * 4); r.Activations.Forward != want {
		t.Errorf("%d bytes, want %d", r.Activations.Forward, want)
	}
}

// Of an If the larger branch counts, and no row is made of the other one.
func TestIf(t *testing.T) {
	branch := func(n int) on.Graph {
		g := on.Graph{Out: []on.Value{{Name: "o"}}}
		in := "x"
		for i := range n {
			out := "o"
			if i < n-1 {
				out = strings.Repeat("i", i+1)
			}
			g.Nodes = append(g.Nodes, on.Op("Sigmoid", in, out))
			in = out
		}
		return g
	}
	r := answer(t, on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", 8, 16), on.Val("c", onnxload.Bool)},
		Out:   []on.Value{{Name: "y"}},
		Nodes: []on.Node{on.Op("If", "c", "y", on.A("then_branch", branch(1)), on.A("else_branch", branch(3)))}}}, Options{})
	if want := int64(3 * 128 * 4); r.Activations.Forward != want {
		t.Errorf("%d bytes, want the three of the larger branch, %d: %+v", r.Activations.Forward, want, r.Layers)
	}
}

func TestErrors(t *testing.T) {
	chain := func(dims ...any) on.Model {
		return on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", dims...)}, Out: []on.Value{{Name: "y"}},
			Nodes: []on.Node{on.Op("Sigmoid", "x", "y")}}}
	}
	var unbound *UnboundError
	if _, err := ask(t, chain("batch", "seq", 4), Options{Batch: 2}); !errors.As(err, &unbound) ||
		err.Error() != `no size is given for "seq" of input "x"` {
		t.Errorf("unbound: %v", err)
	}
	if _, err := ask(t, chain(nil, 4), Options{}); err == nil ||
		err.Error() != `no size is given for dimension 0 of input "x"` {
		t.Errorf("unnamed: %v", err)
	}
	const big = 1 << 61
	if _, err := ask(t, chain(int64(big), int64(4)), Options{}); !errors.Is(err, module.ErrTooBig) ||
		!strings.Contains(err.Error(), `"y"`) {
		t.Errorf("too big: %v", err)
	}
	if r := answer(t, chain(0, int64(big), int64(4)), Options{}); r.Activations.Forward != 0 {
		t.Errorf("a tensor without elements has %d bytes", r.Activations.Forward)
	}
	// Each tensor fits, the sum does not.
	two := on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", int64(1)<<60)}, Out: []on.Value{{Name: "y"}},
		Nodes: []on.Node{on.Op("Sigmoid", "x", "a"), on.Op("Sigmoid", "a", "y")}}}
	if _, err := ask(t, two, Options{}); !errors.Is(err, module.ErrTooBig) {
		t.Errorf("sum: %v", err)
	}
	unknown := on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", 2)}, Out: []on.Value{{Name: "y"}},
		Nodes: []on.Node{on.Op("Sigmoid", "x", "a"), on.Op("NoSuchOp", "a", "y").Of("my.domain")}},
		Opsets: []on.Import{on.Domain("my.domain", 1)}}
	if _, err := ask(t, unknown, Options{Strict: true}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("strict: %v", err)
	}
	r := answer(t, unknown, Options{})
	if c := r.Coverage; c.Modelled != 1 || c.Nodes != 2 || len(c.Unmodelled) != 1 ||
		c.Unmodelled[0] != (Unmodeled{"NoSuchOp", "my.domain", 1}) {
		t.Errorf("coverage %+v", c)
	}
	if len(r.Notes) == 0 || r.Notes[0].Level != Warning || !strings.Contains(r.Notes[0].Text, "lower bound") {
		t.Errorf("notes %+v", r.Notes)
	}
}

// An export that lost what training needs is recognised.
func TestExportNotes(t *testing.T) {
	for name, want := range map[string]bool{"resnet50": false, "resnet50:dynamo-train": false, "resnet50:ts-eval": true,
		"resnet50:dynamo": true, "densenet121:ts-eval": true, "vgg16": false} {
		r := answerBuiltin(t, name)
		found := false
		for _, n := range r.Notes {
			found = found || strings.Contains(n.Text, "this export is for inference")
		}
		if found != want {
			t.Errorf("%s: notes %+v", name, r.Notes)
		}
	}
}

func answerBuiltin(t *testing.T, name string) *Report {
	t.Helper()
	r, err := Run(open(t, name), Options{Batch: 2})
	must.OK(t, err)
	return r
}

// A type that the file declares wrongly is named, with what follows from the nodes.
func TestContradictionNote(t *testing.T) {
	r := answer(t, on.Model{Graph: on.Graph{In: []on.Value{on.Float("x", 8, 16)}, Out: []on.Value{on.Float("y", 8, 17)},
		Nodes: []on.Node{on.Op("Sigmoid", "x", "y")}}}, Options{})
	const want = `value "y" is float32[8, 16], the file declares float32[8, 17]`
	if len(r.Notes) != 1 || r.Notes[0].Level != Warning || !strings.HasSuffix(r.Notes[0].Text, want) {
		t.Errorf("notes %v, want a warning that ends in %q", r.Notes, want)
	}
}

// What reads a tensor tells what it is: a table of words is trained whatever its module calls it. Of a table of
// positions, looked up at fixed places, only the name tells, and a note says that it did.
func TestNamesOnlyBreakTies(t *testing.T) {
	for _, c := range []struct {
		name    string
		words   bool
		trained bool
	}{{"tok.pe", true, true}, {"mask", true, true}, {"tok.mask", true, true}, {"tok.embed_positions", true,
		true}, {"pos.pe", false, false}, {"pos.table", false, true}} {
		g := on.Graph{
			In: []on.Value{on.Val("ids", onnxload.Int64, 2, 3)}, Out: []on.Value{{Name: "y"}},
			Inits: []on.Tensor{on.Bare(c.name, onnxload.Float32, 100, 8), on.Int64s("places", 0, 1, 2),
				on.Bare("fc.weight", onnxload.Float32, 8, 8)},
			Nodes: []on.Node{on.Op("Gather", c.name+" ids", "h"), on.Op("MatMul", "h fc.weight", "y")},
		}
		if !c.words {
			g.In = []on.Value{on.Float("x", 2, 3, 8)}
			g.Nodes = []on.Node{on.Op("Gather", c.name+" places", "p"), on.Op("Add", "x p", "h"),
				on.Op("MatMul", "h fc.weight", "y")}
		}
		r, err := ask(t, on.Model{Producer: "pytorch", Graph: g}, Options{Step: &Step{}})
		must.OK(t, err)
		want, said := int64(64), false
		if c.trained {
			want += 800
		}
		for _, n := range r.Notes {
			said = said || strings.Contains(n.Text, "by the name alone")
		}
		if r.Parameters.Count != want || r.Gradients.Bytes != 4*want || r.Optimizer.Bytes < 8*want || said == c.trained {
			t.Errorf("%s: %d parameters, %d bytes of gradients, a note: %v; want %d parameters", c.name, r.Parameters.Count,
				r.Gradients.Bytes, said, want)
		}
	}
}

// The branch of an If that a constant chooses is the one that the layers and the run are of, be it the smaller one.
func TestChosenBranch(t *testing.T) {
	branch := func(width int64, name string) on.Graph {
		return on.Graph{Name: name, Inits: []on.Tensor{on.Bare("fc."+name, onnxload.Float32, 8, width)},
			Nodes: []on.Node{on.Op("MatMul", "x fc."+name, name)}, Out: []on.Value{on.Float(name, 4, width)}}
	}
	for _, c := range []struct {
		taken byte
		width int64
	}{{1, 512}, {0, 16}} {
		g := on.Graph{In: []on.Value{on.Float("x", 4, 8)}, Inits: []on.Tensor{{Name: "c", DType: onnxload.Bool,
			Raw: []byte{c.taken}}}, Out: []on.Value{{Name: "y"}},
			Nodes: []on.Node{on.Op("If", "c", "y", on.A("then_branch", branch(512, "large")),
				on.A("else_branch", branch(16, "small")))}}
		r, err := ask(t, on.Model{Producer: "pytorch", Graph: g}, Options{Step: &Step{Infer: true}})
		must.OK(t, err)
		if want := 4 * c.width * 4; r.Activations.Forward != want {
			t.Errorf("taken %v: the layers make %d bytes, want %d", c.taken, r.Activations.Forward, want)
		}
	}
}
