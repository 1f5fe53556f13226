package recover_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A bias of relative positions that folding looked up is looked up again, in a table that is trained.
func TestFoldedBiasOfHeads(t *testing.T) {
	sum := func(bias string, more ...onnx.Node) []onnx.Node {
		return append(append([]onnx.Node{onnx.Op("Add", "x "+bias, "s")}, more...),
			onnx.Op("Softmax", "s", "y", onnx.A("axis", -1)))
	}
	bias := func(name string, dims ...int64) patternCase {
		return patternCase{name: name, shape: []any{2, 3, 4, 4},
			inits: []onnx.Tensor{onnx.Bare(name, onnxload.Float32, dims...)}, nodes: sum(name)}
	}
	looked := []string{"index(.restored_table, .restored_index)", "reshape(_)", "permute(_)", "contiguous(_)",
		"reshape(_)", "add(x, _)", "softmax(s)"}
	folded, registered, mask, tall := bias("folded", 1, 3, 4, 4), bias("attn.bias", 1, 3, 4, 4), bias("mask", 1, 1, 4,
		4), bias("tall", 1, 3, 4, 1)
	folded.want, registered.want, mask.want, tall.want = looked, []string{"add(x, attn.bias)",
		"softmax(s)"}, []string{"add(x, mask)", "softmax(s)"}, []string{"add(x, tall)", "softmax(s)"}
	runPatterns(t, []patternCase{folded, registered, mask, tall})
	alone := patternCase{shape: []any{2, 3, 4, 4}, inits: []onnx.Tensor{onnx.Bare("index_2", onnxload.Float32, 16, 3),
		onnx.Int64s("to", 4, 4, 3)},
		nodes: append([]onnx.Node{onnx.Op("Reshape", "index_2 to", "r"),
			onnx.Op("Transpose", "r", "t", onnx.A("perm", []int64{2, 0, 1}))}, sum("t")...)}
	wantCalls(t, mustRecover(t, alone.graph()), "index(.restored_table, .restored_index)", "reshape(_)", "permute(r)",
		"contiguous(_)", "add(x, t)", "softmax(s)")
	p := mustRecover(t, folded.graph())
	if table := p.Values[p.Calls[0].In[0]]; table.Kind != program.Parameter || !slices.Equal(table.Shape, []int64{9, 3}) {
		t.Errorf("the table is %+v, wanted a parameter of [9 3]", table)
	}
}

// Where a softmax is computed in float32 whatever the model's type, and cast back.
func TestSoftmaxInFloat32(t *testing.T) {
	up := func(in, out string) onnx.Node { return onnx.Op("Cast", in, out, onnx.A("to", 1)) }
	times := func(in string) onnx.Node { return onnx.Op("MatMul", in+" v", "y") }
	soft := func(in, out string) onnx.Node { return onnx.Op("Softmax", in, out, onnx.A("axis", -1)) }
	turn := onnx.Op("Transpose", "x", "v", onnx.A("perm", []int64{0, 2, 1}))
	exported := soft("x", "p")
	exported.Meta = append(exported.Meta, onnxload.Entry{Key: "namespace", Value: ": m.M/softmax: aten.softmax.int"})
	back := []string{"permute(x)", "softmax_float(x)", "type_as(_, x)"}
	runPatterns(t, []patternCase{
		{name: "dtype and to", nodes: []onnx.Node{turn, soft("x", "p"), up("p", "q"), up("q", "r"), times("r")},
			want: append(slices.Clone(back), "matmul(r, v)")},
		{name: "dtype in torch.export", nodes: []onnx.Node{turn, soft("x", "p"), up("p", "softmax"), times("softmax")},
			want: append(slices.Clone(back), "matmul(softmax, v)")},
		{name: "float and type_as", nodes: []onnx.Node{turn, up("x", "f"), soft("f", "p"), times("p")},
			want: append(slices.Clone(back), "matmul(p, v)")},
		{name: "type_as in torch.export", nodes: []onnx.Node{turn, soft("x", "type_as_2"), times("type_as_2")},
			want: append(slices.Clone(back), "matmul(type_as_2, v)")},
		{name: "probabilities that nothing multiplies", nodes: []onnx.Node{soft("x", "p"), up("p", "softmax"),
			onnx.Op("Neg", "softmax", "y")}, want: []string{"softmax_float(x)", "neg(softmax)"}},
		{name: "a cast behind, which may be dtype=x.dtype", nodes: []onnx.Node{turn, soft("x", "p"), up("p", "q"),
			times("q")}, want: []string{"permute(x)", "softmax_typed(x)", "matmul(q, v)"}},
		{name: "a cast behind in torch.export", nodes: []onnx.Node{turn, exported, up("p", "q"), times("q")},
			want: []string{"permute(x)", "softmax(x)", "to(p)", "matmul(q, v)"}},
	})
}

// Attention as GPT-J writes it multiplies in float32, which an export in float32 does not show.
func TestAttentionInFloat32(t *testing.T) {
	inits := []onnx.Tensor{recovertest.F32s("zero", 0), recovertest.F32s("low", -3.4028234663852886e38),
		recovertest.F32s("ten", -10), recovertest.F32s("scale", 8), onnx.Int64s("last", -1)}
	turn := onnx.A("perm", []int64{0, 1, 3, 2})
	written := func(name, than, low string, scores []onnx.Node, want ...string) patternCase {
		nodes := []onnx.Node{
			onnx.Op("ReduceMax", "x last", "top"), onnx.Op("Transpose", "top", "row", turn), onnx.Op("Greater", "top "+than,
				"keep"), onnx.Op("Where", "keep zero "+low, "mask"), onnx.Op("Relu", "x", "v"),
			onnx.Op("Transpose", "x", "t", turn), onnx.Op("MatMul", "x t", "m")}
		nodes = append(nodes, scores...)
		return patternCase{name: name, shape: []any{2, 4, 6, 8}, inits: inits, want: want,
			nodes: append(nodes, onnx.Op("Softmax", "a", "p", onnx.A("axis", -1)), onnx.Op("MatMul", "p v", "y"))}
	}
	scaled := func(op string) []onnx.Node {
		return []onnx.Node{onnx.Op(op, "m scale", "s"), onnx.Op("Add", "s mask", "a")}
	}
	before := []string{"max_dim(x)", "permute(top)", "compare(top, row)", "where(keep, number, number)", "relu(x)",
		"permute(x)"}
	as := func(rest ...string) []string { return append(slices.Clone(before), rest...) }
	padding := append([]string{"max_dim(x)", "compare(top, number)"}, before[3:]...)
	runPatterns(t, []patternCase{
		written("divided", "row", "low", scaled("Div"), as("float(x)", "float(t)", "matmul(_, _)", "div(m, number)",
			"add(s, mask)", "softmax(a)", "type_as(_, v)", "matmul(p, v)")...),
		written("divided last", "row", "low", []onnx.Node{onnx.Op("Add", "m mask", "s"), onnx.Op("Div", "s scale", "a")},
			as("float(x)", "float(t)", "matmul(_, _)", "add(m, mask)", "div(s, number)", "softmax(a)", "type_as(_, v)",
				"matmul(p, v)")...),
		written("multiplied", "row", "low", scaled("Mul"), as("matmul(x, t)", "mul(m, number)", "add(s, mask)", "softmax(a)",
			"matmul(p, v)")...),
		written("another mask", "row", "ten", scaled("Div"), as("matmul(x, t)", "div(m, number)", "add(s, mask)",
			"softmax(a)", "matmul(p, v)")...),
		written("an encoder's mask", "zero", "low", scaled("Div"),
			append(slices.Clone(padding), "matmul(x, t)", "div(m, number)", "add(s, mask)", "softmax(a)", "matmul(p, v)")...),
	})
}

// Attention without a softmax that divides by sums in a column of its own is computed in float32, whichever exporter
// wrote it.
func TestLinearAttention(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("pads", 0, 0, 0, 0, 0, 1), recovertest.F32s("one", 1),
		recovertest.F32s("zero", 0), recovertest.F32s("eps", 1e-5), onnx.Int64s("first", 0), onnx.Int64s("last", -1),
		onnx.Int64s("end", math.MaxInt64), onnx.Int64s("axis", -1)}
	up := func(in, out string) onnx.Node { return onnx.Op("Cast", in, out, onnx.A("to", 1)) }
	attention := func(q, k, v, fill, out string, casts ...onnx.Node) []onnx.Node {
		nodes := append([]onnx.Node{onnx.Op("Sin", "x", "q"), onnx.Op("Relu", "x", "k"),
			onnx.Op("Pad", "x pads "+fill, "v")}, casts...)
		return append(nodes, onnx.Op("Transpose", k, "kt", onnx.A("perm", []int64{0, 2, 1})),
			onnx.Op("MatMul", "kt "+v, "kv"), onnx.Op("MatMul", q+" kv", "o"),
			onnx.Op("Slice", "o first last axis", "n"), onnx.Op("Slice", "o last end axis", "s"), onnx.Op("Add", "s eps",
				"d"), onnx.Op("Div", "n d", out))
	}
	before := []string{"sin(x)", "relu(x)", "constant_pad(x)"}
	float := append(slices.Clone(before), "float(q)", "float(k)", "float(v)", "permute(_)", "matmul_float(_, _)",
		"matmul_float(_, kv)", "slice(o)", "slice(o)", "add(s, number)", "div(n, d)", "type_as(_, v)")
	runPatterns(t, []patternCase{
		{name: "torch.export", inits: inits, nodes: attention("q", "k", "v", "one", "y"), want: float},
		{name: "TorchScript", inits: inits, nodes: append(attention("qf", "kf", "vf", "one", "out", up("q", "qf"),
			up("k", "kf"), up("v", "vf")), up("out", "y")), want: float},
		{name: "no column of ones", inits: inits, nodes: attention("q", "k", "v", "zero", "y"),
			want: append(slices.Clone(before), "permute(k)", "matmul(kt, v)", "matmul(q, kv)", "slice(o)", "slice(o)",
				"add(s, number)", "div(n, d)")},
	})
}

// A mask that follows from lengths alone is left to the kernel, unless a window narrower than the sequence is in it.
func TestAttentionInWindows(t *testing.T) {
	written := func(name string, window int64, want ...string) patternCase {
		return patternCase{name: name, shape: []any{2, 4, 80, 8}, want: want,
			inits: []onnx.Tensor{recovertest.F32s("root", 0.6), recovertest.F32s("zero", 0),
				recovertest.F32s("low", float32(math.Inf(-1))), onnx.Int64s("window", window).Scalar(),
				onnx.Zeros("row", onnxload.Int64, 80, 1), onnx.Zeros("column", onnxload.Int64, 1, 80)},
			nodes: []onnx.Node{onnx.Op("Sub", "row column", "far"), onnx.Op("Abs", "far", "away"),
				onnx.Op("LessOrEqual", "away window", "near"), onnx.Op("Where", "near zero low", "mask"),
				onnx.Op("Sin", "x", "k"), onnx.Op("Transpose", "k", "t", onnx.A("perm", []int64{0, 1, 3, 2})), onnx.Op("Mul",
					"x root", "qs"), onnx.Op("Mul", "t root", "ks"),
				onnx.Op("MatMul", "qs ks", "s"), onnx.Op("Add", "s mask", "a"), onnx.Op("Softmax", "a", "p",
					onnx.A("axis", -1)), onnx.Op("MatMul", "p x", "y")}}
	}
	runPatterns(t, []patternCase{
		written("narrow", 16, "sub(row, column)", "abs(far)", "compare(away, number)", "sin(x)", "sdpa(x, k, x, near)"),
		written("wide", 128, "sin(x)", "sdpa(x, k, x, -)"),
	})
}

// A mask of positions and of each token of an input is left out where no token is padding. A mask of an input alone, or
// one of pairs, is the program's own.
func TestMaskOfPadding(t *testing.T) {
	inits := []onnx.Tensor{recovertest.F32s("root", 0.6), recovertest.F32s("zero", 0),
		recovertest.F32s("low", float32(math.Inf(-1))), onnx.Int64s("axes", 1, 2), onnx.Int64s("heads", 1),
		onnx.Int64s("batch", 0), onnx.Zeros("places", onnxload.Int64, 2, 1, 1, 80),
		onnx.Zeros("row", onnxload.Int64, 80, 1), onnx.Zeros("column", onnxload.Int64, 1, 80)}
	attend := []onnx.Node{onnx.Op("Where", "seen zero low", "mask"), onnx.Op("Sin", "x", "k"),
		onnx.Op("Transpose", "k", "t", onnx.A("perm", []int64{0, 1, 3, 2})), onnx.Op("Mul", "x root", "qs"),
		onnx.Op("Mul", "t root", "ks"), onnx.Op("MatMul", "qs ks", "s"), onnx.Op("Add", "s mask", "a"),
		onnx.Op("Softmax", "a", "p", onnx.A("axis", -1)), onnx.Op("MatMul", "p x", "y")}
	given := onnx.Op("Cast", "given", "kept", onnx.A("to", 9))
	causal := onnx.Op("LessOrEqual", "column row", "le")
	for _, c := range []struct {
		name, want string
		size       []any
		nodes      []onnx.Node
	}{
		{"tokens", "sdpa(x, k, x, -)", []any{2, 80}, []onnx.Node{given, causal, onnx.Op("Unsqueeze", "kept axes", "each"),
			onnx.Op("And", "le each", "seen")}},
		{"tokens by their places", "sdpa(x, k, x, -)", []any{2, 80}, []onnx.Node{causal,
			onnx.Op("Flatten", "given", "flat", onnx.A("axis", 0)), onnx.Op("Squeeze", "flat batch", "line"),
			onnx.Op("Gather", "line places", "one"), onnx.Op("Cast", "one", "kept", onnx.A("to", 9)),
			onnx.Op("And", "le kept", "seen")}},
		{"pairs", "sdpa(x, k, x, seen)", []any{2, 80, 80}, []onnx.Node{given, causal,
			onnx.Op("Unsqueeze", "kept heads", "each"), onnx.Op("And", "le each", "seen")}},
		{"tokens alone", "sdpa(x, k, x, seen)", []any{2, 80}, []onnx.Node{given, onnx.Op("Unsqueeze", "kept axes", "seen")}},
	} {
		p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 80, 8),
			onnx.Val("given", onnxload.Int64, c.size...)}, Inits: inits, Out: []onnx.Value{{Name: "y"}},
			Nodes: append(slices.Clone(c.nodes), attend...)})
		if calls := recovertest.CallsOf(p); !strings.Contains(calls, c.want) {
			t.Errorf("%s: want %s, calls are %s", c.name, c.want, calls)
		}
	}
}

// Heads whose channels come before their pixels are transposed and made contiguous for attention; of k the exporter
// merges two transposes to none.
func TestAttentionOfTurnedHeads(t *testing.T) {
	turn := onnx.A("perm", []int64{0, 1, 3, 2})
	runPatterns(t, []patternCase{{name: "turned", shape: []any{2, 4, 8, 6},
		inits: []onnx.Tensor{recovertest.F32s("root", 0.6)}, nodes: []onnx.Node{
			onnx.Op("Sin", "x", "k"), onnx.Op("Cos", "x", "v"), onnx.Op("Transpose", "x", "q", turn), onnx.Op("Transpose", "v",
				"vt", turn),
			onnx.Op("Mul", "q root", "qs"), onnx.Op("Mul", "k root", "ks"), onnx.Op("MatMul", "qs ks", "s"), onnx.Op("Softmax",
				"s", "p", onnx.A("axis", -1)), onnx.Op("MatMul", "p vt", "y")},
		want: []string{"sin(x)", "cos(x)", "permute(x)", "permute(v)", "permute(k)", "contiguous(q)", "contiguous(_)",
			"contiguous(vt)", "sdpa(_, _, _, -)"}}})
}

// A table of relative positions is looked up, seen with the heads last, and copied with the heads first.
func TestRelativePositions(t *testing.T) {
	c := patternCase{shape: []any{2, 16, 16}, inits: []onnx.Tensor{recovertest.Weights("attn.table", 9, 3),
		onnx.Bare("attn.buffer", onnxload.Int64, 256), onnx.Int64s("to", 16, 16, 3)}, nodes: []onnx.Node{
		onnx.Op("Gather", "attn.table attn.buffer", "g"), onnx.Op("Reshape", "g to", "r"), onnx.Op("Transpose", "r", "t",
			onnx.A("perm", []int64{2, 0, 1})), onnx.Op("ReduceSum", "t axes", "s", onnx.A("keepdims", 0)), onnx.Op("Add", "x s",
			"y")}}
	c.inits = append(c.inits, onnx.Int64s("axes", 0))
	p := mustRecover(t, c.graph())
	wantCalls(t, p, "index(attn.table, attn.buffer)", "reshape(g)", "permute(r)", "contiguous(_)", "sum(t)", "add(x, s)")
	folded := c
	folded.inits = []onnx.Tensor{c.inits[0], c.inits[2], c.inits[3]}
	folded.nodes = append([]onnx.Node{onnx.Op("Constant", "", "places",
		onnx.A("value", onnx.Zeros("", onnxload.Int64, 256))), onnx.Op("Gather", "attn.table places", "g")}, c.nodes[1:]...)
	p = mustRecover(t, folded.graph())
	wantCalls(t, p, "index(attn.table, attn.index)", "reshape(g)", "permute(r)", "contiguous(_)", "sum(t)", "add(x, s)")
	if n := len(p.State); n != 2 || p.Values[p.State[1]].Kind != program.Buffer {
		t.Errorf("the state has %d tensors, wanted the table and its index", n)
	}
	c.nodes[2] = onnx.Op("Transpose", "r", "t", onnx.A("perm", []int64{2, 1, 0}))
	wantCalls(t, mustRecover(t, c.graph()), "index(attn.table, attn.buffer)", "reshape(g)", "permute(r)", "sum(t)",
		"add(x, s)")
}
