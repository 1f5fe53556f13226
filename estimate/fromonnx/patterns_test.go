package fromonnx_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/fromonnx/fromonnxtest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A patternCase is nodes on x of [2, 4, 8] unless shape says otherwise, towards y, and the calls that they stand for.
type patternCase struct {
	name  string
	shape []any
	inits []onnx.Tensor
	nodes []onnx.Node
	want  []string
}

func (c patternCase) graph() onnx.Graph {
	shape := c.shape
	if shape == nil {
		shape = []any{2, 4, 8}
	}
	return onnx.Graph{In: []onnx.Value{onnx.Float("x", shape...)}, Inits: c.inits, Nodes: c.nodes,
		Out: []onnx.Value{{Name: "y"}}}
}

func runPatterns(t *testing.T, cases []patternCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { wantCalls(t, mustRecover(t, c.graph()), c.want...) })
	}
}

var geluConstants = []onnx.Tensor{fromonnxtest.F32s("root", math.Sqrt2), fromonnxtest.F32s("one", 1),
	fromonnxtest.F32s("half", 0.5), fromonnxtest.F32s("two", 2)}

// The activations that exporters write out.
func TestActivationChains(t *testing.T) {
	erf := func(rest ...onnx.Node) []onnx.Node {
		return append([]onnx.Node{onnx.Op("Div", "x root", "d"), onnx.Op("Erf", "d", "e"), onnx.Op("Add", "e one", "a")},
			rest...)
	}
	unmatched := []string{"div(x, number)", "erf(d)", "add(e, number)"}
	tanh := func(cube float32) patternCase {
		return patternCase{inits: []onnx.Tensor{fromonnxtest.F32s("k", cube),
			fromonnxtest.F32s("s", float32(math.Sqrt(2/math.Pi))), fromonnxtest.F32s("one", 1),
			fromonnxtest.F32s("half", 0.5)}, nodes: []onnx.Node{
			onnx.Op("Mul", "x x", "x2"), onnx.Op("Mul", "x x2", "x3"), onnx.Op("Mul", "k x3", "kx"), onnx.Op("Add", "x kx",
				"sum"), onnx.Op("Mul", "s sum", "in"),
			onnx.Op("Tanh", "in", "t"), onnx.Op("Add", "one t", "t1"), onnx.Op("Mul", "x t1", "xt"), onnx.Op("Mul", "half xt",
				"y")}}
	}
	good, near := tanh(0.044715), tanh(0.05)
	good.name, good.want = "tanh gelu", []string{"gelu(x)"}
	near.name, near.want = "tanh with another factor", []string{"mul(x, x)", "mul(x, x2)", "mul(number, x3)",
		"add(x, kx)", "mul(number, sum)", "tanh(in)", "add(number, t)", "mul(x, t1)", "mul(number, xt)"}
	megatron := func(k float32) patternCase {
		return patternCase{inits: []onnx.Tensor{fromonnxtest.F32s("k", k), fromonnxtest.F32s("s", 0.79788456),
			fromonnxtest.F32s("one", 1), fromonnxtest.F32s("half", 0.5)}, nodes: []onnx.Node{
			onnx.Op("Mul", "x half", "h"), onnx.Op("Mul", "x s", "sx"), onnx.Op("Mul", "x k", "kx"), onnx.Op("Mul", "kx x",
				"kx2"), onnx.Op("Add", "kx2 one", "p"),
			onnx.Op("Mul", "sx p", "in"), onnx.Op("Tanh", "in", "t"), onnx.Op("Add", "t one", "t1"), onnx.Op("Mul", "h t1",
				"y")}}
	}
	function, other := megatron(0.044715), megatron(0.05)
	function.name, function.want = "gelu of Megatron-LM", []string{"gelu_function(x)"}
	other.name, other.want = "gelu of Megatron-LM with another factor", []string{"mul(x, number)", "mul(x, number)",
		"mul(x, number)", "mul(kx, x)", "add(kx2, number)", "mul(sx, p)", "tanh(in)", "add(t, number)", "mul(h, t1)"}
	swish := []onnx.Tensor{fromonnxtest.F32s("three", 3), fromonnxtest.F32s("zero", 0), fromonnxtest.F32s("six", 6)}
	runPatterns(t, []patternCase{
		{name: "gelu, half last", inits: geluConstants, nodes: erf(onnx.Op("Mul", "x a", "m"),
			onnx.Op("Mul", "m half", "y")), want: []string{"gelu(x)"}},
		{name: "gelu, half first", inits: geluConstants, nodes: erf(onnx.Op("Mul", "x half", "h"),
			onnx.Op("Mul", "h a", "y")), want: []string{"gelu(x)"}},
		{name: "gelu, half inside", inits: geluConstants, nodes: erf(onnx.Op("Mul", "a half", "m"),
			onnx.Op("Mul", "x m", "y")), want: []string{"gelu(x)"}},
		{name: "no gelu: times two", inits: geluConstants, nodes: erf(onnx.Op("Mul", "x a", "m"),
			onnx.Op("Mul", "m two", "y")), want: append(slices.Clone(unmatched), "mul(x, a)", "mul(m, number)")},
		{name: "no gelu: the sum is used twice", inits: geluConstants,
			nodes: erf(onnx.Op("Mul", "x a", "m"), onnx.Op("Mul", "m half", "h"), onnx.Op("Add", "h a", "y")),
			want:  append(slices.Clone(unmatched), "mul(x, a)", "mul(m, number)", "add(h, a)")},
		good, near, function, other,
		{name: "silu", nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "s"), onnx.Op("Mul", "x s", "y")},
			want: []string{"silu(x)"}},
		{name: "no silu: another factor", nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "s"), onnx.Op("Neg", "x", "n"),
			onnx.Op("Mul", "n s", "y")}, want: []string{"sigmoid(x)", "neg(x)", "mul(n, s)"}},
		{name: "elu of torch.export", inits: geluConstants, nodes: []onnx.Node{onnx.Op("Mul", "x one", "m"),
			onnx.Op("Elu", "m", "e"), onnx.Op("Mul", "e one", "y")}, want: []string{"elu(x)"}},
		{name: "elu of a product", inits: geluConstants, nodes: []onnx.Node{onnx.Op("Mul", "x two", "m"),
			onnx.Op("Elu", "m", "e"), onnx.Op("Mul", "e one", "y")}, want: []string{"mul(x, number)", "elu(m)",
			"mul(e, number)"}},
		{name: "glu", nodes: []onnx.Node{onnx.Op("Split", "x", "a b", onnx.A("axis", 1)), onnx.Op("Sigmoid", "b", "s"),
			onnx.Op("Mul", "a s", "y")}, want: []string{"glu(x)"}},
		{name: "glu of torch.export", nodes: []onnx.Node{onnx.Op("Split", "x", "a b", onnx.A("axis", 1),
			onnx.A("num_outputs", 2)), onnx.Op("Sigmoid", "b", "s"), onnx.Op("Mul", "a s", "glu_1"), onnx.Op("Neg", "glu_1",
			"y")}, want: []string{"glu(x)", "neg(glu_1)"}},
		{name: "no glu: named sizes", inits: []onnx.Tensor{onnx.Int64s("sizes", 2, 2)},
			nodes: []onnx.Node{onnx.Op("Split", "x sizes", "a b", onnx.A("axis", 1)), onnx.Op("Sigmoid", "b", "s"),
				onnx.Op("Mul", "a s", "y")}, want: []string{"split(x)", "sigmoid(b)", "mul(a, s)"}},
		{name: "no glu: the first half is gated", nodes: []onnx.Node{onnx.Op("Split", "x", "a b", onnx.A("axis", 1)),
			onnx.Op("Sigmoid", "a", "s"), onnx.Op("Mul", "b s", "y")}, want: []string{"split(x)", "sigmoid(a)", "mul(b, s)"}},
		{name: "mish", nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"), onnx.Op("Tanh", "p", "t"),
			onnx.Op("Mul", "x t", "y")}, want: []string{"mish(x)"}},
		{name: "no mish: sigmoid", nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"), onnx.Op("Sigmoid", "p", "t"),
			onnx.Op("Mul", "x t", "y")}, want: []string{"softplus(x)", "sigmoid(p)", "mul(x, t)"}},
		{name: "hardswish", inits: swish, nodes: []onnx.Node{onnx.Op("Add", "x three", "a"),
			onnx.Op("Clip", "a zero six", "c"), onnx.Op("Div", "c six", "d"),
			onnx.Op("Mul", "x d", "y")}, want: []string{"hardswish(x)"}},
		{name: "hardswish, divided last", inits: swish, nodes: []onnx.Node{onnx.Op("Add", "x three", "a"),
			onnx.Op("Clip", "a zero six", "c"), onnx.Op("Mul", "x c", "m"),
			onnx.Op("Div", "m six", "y")}, want: []string{"hardswish(x)"}},
		{name: "hardsigmoid", inits: swish, nodes: []onnx.Node{onnx.Op("Add", "x three", "a"),
			onnx.Op("Clip", "a zero six", "c"), onnx.Op("Div", "c six", "y")}, want: []string{"hardsigmoid(x)"}},
		{name: "relu6 of a sum", inits: swish, nodes: []onnx.Node{onnx.Op("Add", "x six", "a"),
			onnx.Op("Clip", "a zero six", "c"), onnx.Op("Div", "c six", "y")}, want: []string{"add(x, number)", "hardtanh(a)",
			"div(c, number)"}},
		{name: "rsqrt", inits: geluConstants, nodes: []onnx.Node{onnx.Op("Sqrt", "x", "s"), onnx.Op("Div", "one s", "y")},
			want: []string{"rsqrt(x)"}},
		{name: "rsqrt by reciprocal", nodes: []onnx.Node{onnx.Op("Sqrt", "x", "s"), onnx.Op("Reciprocal", "s", "y")},
			want: []string{"rsqrt(x)"}},
		{name: "no rsqrt: two over", inits: geluConstants, nodes: []onnx.Node{onnx.Op("Sqrt", "x", "s"),
			onnx.Op("Div", "two s", "y")}, want: []string{"sqrt(x)", "div(number, s)"}},
	})
}

// Factories, and those that take their shape and type from a tensor.
func TestFactories(t *testing.T) {
	inits := []onnx.Tensor{fromonnxtest.F32s("zero", 0), onnx.Int64s("last", 8), onnx.Int64s("first", 2)}
	use := onnx.Op("Add", "x z", "y")
	named := func(name string) []onnx.Node {
		return []onnx.Node{onnx.Op("Shape", "x", "s"), onnx.Op("Expand", "zero s", name), onnx.Op("Neg", name, "n"),
			onnx.Op("Add", "x n", "y")}
	}
	runPatterns(t, []patternCase{
		{name: "zeros_like", inits: inits, nodes: []onnx.Node{onnx.Op("Shape", "x", "s"),
			onnx.Op("ConstantOfShape", "s", "z"), use}, want: []string{"fill(x)", "add(x, z)"}},
		{name: "zeros", inits: inits, nodes: []onnx.Node{onnx.Op("Shape", "x", "s", onnx.A("start", 2)),
			onnx.Op("ConstantOfShape", "s", "z"), use}, want: []string{"fill()", "add(x, z)"}},
		{name: "zeros_like of torch.export", inits: inits, nodes: named("zeros_like_1"),
			want: []string{"fill(x)", "neg(zeros_like_1)", "add(x, n)"}},
		{name: "expand", inits: inits, nodes: named("expand_1"),
			want: []string{"fill()", "expand(_)", "neg(expand_1)", "add(x, n)"}},
	})
}

// Linear in the forms of the exporters.
func TestLinearForms(t *testing.T) {
	w, wt, bias := fromonnxtest.Weights("fc.weight", 4, 8), fromonnxtest.Weights("fc.weight", 8,
		4), fromonnxtest.Weights("fc.bias", 4)
	runPatterns(t, []patternCase{
		{name: "Gemm", shape: []any{2, 8}, inits: []onnx.Tensor{w, bias},
			nodes: []onnx.Node{onnx.Op("Gemm", "x fc.weight fc.bias", "y", onnx.A("transB", 1))},
			want:  []string{"linear(x, fc.weight, fc.bias)"}},
		{name: "Gemm without bias", shape: []any{2, 8}, inits: []onnx.Tensor{w},
			nodes: []onnx.Node{onnx.Op("Gemm", "x fc.weight", "y", onnx.A("transB", 1))},
			want:  []string{"linear(x, fc.weight, -)"}},
		{name: "Gemm of a weight as it lies", shape: []any{2, 8}, inits: []onnx.Tensor{wt, bias},
			nodes: []onnx.Node{onnx.Op("Gemm", "x fc.weight fc.bias", "y")}, want: []string{"addmm(fc.bias, x, fc.weight)"}},
		{name: "MatMul of a transposed parameter", inits: []onnx.Tensor{w, bias},
			nodes: []onnx.Node{onnx.Op("Transpose", "fc.weight", "t", onnx.A("perm", []int64{1, 0})),
				onnx.Op("MatMul", "x t", "m"), onnx.Op("Add", "fc.bias m", "y")}, want: []string{"linear(x, fc.weight, fc.bias)"}},
		{name: "MatMul of a folded transpose", inits: []onnx.Tensor{wt, bias},
			nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "m"), onnx.Op("Add", "m fc.bias", "y")},
			want:  []string{"linear(x, fc.weight, fc.bias)"}},
		{name: "a bias that is no parameter", inits: []onnx.Tensor{wt, fromonnxtest.Weights("b", 4)},
			nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "m"), onnx.Op("Add", "m b", "y")},
			want:  []string{"linear(x, fc.weight, b)"}},
		{name: "a sum that is no bias", inits: []onnx.Tensor{wt, fromonnxtest.Weights("pos.table", 4, 4)},
			nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "m"), onnx.Op("Add", "m pos.table", "y")},
			want:  []string{"linear(x, fc.weight, -)", "add(m, pos.table)"}},
		{name: "a product of two activations", nodes: []onnx.Node{onnx.Op("Transpose", "x", "t",
			onnx.A("perm", []int64{0, 2, 1})), onnx.Op("MatMul", "x t", "y")}, want: []string{"permute(x)", "matmul(x, t)"}},
	})
	p := mustRecover(t, patternCase{inits: []onnx.Tensor{wt},
		nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "y")}}.graph())
	if s := p.Values[p.Calls[0].In[1]].Shape; !slices.Equal(s, []int64{4, 8}) {
		t.Errorf("the weight has shape %v, wanted [4 8]: rows are outputs", s)
	}
}

// x[:, index] as torch.export writes it, and what only looks like it.
func TestIndexByTensor(t *testing.T) {
	inits := []onnx.Tensor{onnx.Bare("places", onnxload.Int64, 3, 5), onnx.Int64s("to", 3, 5),
		onnx.Int64s("more", 2, 3, 5), onnx.Int64s("last", -1)}
	spread := func(to string) []onnx.Node {
		return []onnx.Node{onnx.Op("Expand", "places "+to, "e"), onnx.Op("Unsqueeze", "e last", "u"),
			onnx.Op("Concat", "u", "c", onnx.A("axis", -1))}
	}
	perm := func(p ...int64) onnx.Attr { return onnx.A("perm", p) }
	apart := []string{"permute(x)", "expand(places)", "reshape(e)", "cat(u)", "index(t, c)"}
	with := func(to string, rest ...onnx.Node) []onnx.Node {
		return append(append([]onnx.Node{onnx.Op("Transpose", "x", "t", perm(1, 0, 2))}, spread(to)...), rest...)
	}
	runPatterns(t, []patternCase{
		{name: "the first dimension", inits: inits, nodes: append(spread("to"), onnx.Op("GatherND", "x c", "y")),
			want: []string{"index(x, places)"}},
		{name: "the second", inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "g"),
			onnx.Op("Transpose", "g", "y", perm(2, 0, 1, 3))), want: []string{"index(x, places)"}},
		{name: "places that folding put in a column", inits: append(slices.Clone(inits),
			onnx.Bare("column", onnxload.Int64, 6, 1)), nodes: []onnx.Node{onnx.Op("GatherND", "x column", "y")},
			want: []string{"index(x, column)"}},
		{name: "a table that folding turned", inits: append(slices.Clone(inits), onnx.Bare("val_7", onnxload.Float32, 9, 4)),
			shape: []any{4, 3, 5},
			nodes: append(spread("to"), onnx.Op("GatherND", "val_7 c", "g"), onnx.Op("Transpose", "g", "b", perm(2, 0, 1)),
				onnx.Op("Add", "x b", "y")), want: []string{"index(val_7, places)", "add(x, b)"}},
		{name: "a table as it is", inits: append(slices.Clone(inits), fromonnxtest.Weights("attn.table", 9, 4)),
			shape: []any{4, 3, 5},
			nodes: append(spread("to"), onnx.Op("GatherND", "attn.table c", "g"), onnx.Op("Transpose", "g", "b", perm(2, 0, 1)),
				onnx.Op("Add", "x b", "y")), want: []string{"index(attn.table, places)", "permute(g)", "add(x, b)"}},
		{name: "turned another way", inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "g"),
			onnx.Op("Transpose", "g", "y", perm(2, 1, 0, 3))), want: append(slices.Clone(apart), "permute(g)")},
		{name: "not turned back", inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "y")), want: apart},
		{name: "places that spread", inits: inits, nodes: append(spread("more"), onnx.Op("GatherND", "x c", "y")),
			want: []string{"expand(places)", "reshape(e)", "cat(u)", "index(x, c)"}},
	})
	turned := mustRecover(t, patternCase{inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "g"),
		onnx.Op("Transpose", "g", "y", perm(2, 0, 1, 3)))}.graph())
	if c := turned.Calls[0]; c.Args.Dim != 1 || !slices.Equal(c.Args.Shape, []int64{2, 3, 5, 8}) {
		t.Errorf("dimension %d towards %v, wanted 1 towards [2 3 5 8]", c.Args.Dim, c.Args.Shape)
	}
}

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
	if table := p.Values[p.Calls[0].In[0]]; table.Kind != aten.Parameter || !slices.Equal(table.Shape, []int64{9, 3}) {
		t.Errorf("the table is %+v, wanted a parameter of [9 3]", table)
	}
}

// A Fourier transform of several dimensions is one call, of a tensor that is made complex.
func TestFourierTransform(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("one", 1).Scalar(), onnx.Int64s("two", 2).Scalar(), onnx.Int64s("last", -1),
		onnx.Int64s("to", 2, 4, 8, 1), fromonnxtest.F32s("zero", 0), fromonnxtest.F32s("half", 0.5)}
	nodes := func(fill string) []onnx.Node {
		return []onnx.Node{onnx.Op("Unsqueeze", "x last", "u"), onnx.Op("Expand", fill+" to", "z"),
			onnx.Op("Concat", "u z", "c", onnx.A("axis", -1)),
			onnx.Op("DFT", "c - two", "d"), onnx.Op("DFT", "d - one", "f"), onnx.Op("Neg", "f", "y")}
	}
	runPatterns(t, []patternCase{{name: "fft2", inits: inits, nodes: nodes("zero"),
		want: []string{"to_complex(x)", "fft(_)", "neg(f)"}}})
	p := mustRecover(t, patternCase{inits: inits, nodes: nodes("half")}.graph())
	if s := fromonnxtest.CallsOf(p); strings.Contains(s, "fft(") {
		t.Errorf("a tensor with an imaginary part of its own:\n%s", s)
	}
}

// A product of stacks of matrices that is scaled and added to is baddbmm.
func TestBaddbmm(t *testing.T) {
	inits := []onnx.Tensor{fromonnxtest.F32s("alpha", 0.125), fromonnxtest.F32s("beta", 1),
		onnx.Zeros("bias", onnxload.Float32, 2, 1, 4), onnx.Zeros("wide", onnxload.Float32, 4)}
	turn := onnx.Op("Transpose", "x", "t", onnx.A("perm", []int64{0, 2, 1}))
	scaled := []onnx.Node{turn, onnx.Op("MatMul", "x t", "m"), onnx.Op("Mul", "m alpha", "s")}
	with := func(rest ...onnx.Node) []onnx.Node { return append(slices.Clone(scaled), rest...) }
	apart := []string{"permute(x)", "matmul(x, t)", "mul(m, number)"}
	runPatterns(t, []patternCase{
		{name: "with beta", inits: inits, nodes: with(onnx.Op("Mul", "bias beta", "b"), onnx.Op("Add", "s b", "y")),
			want: []string{"permute(x)", "baddbmm(bias, x, t)"}},
		{name: "named by torch.export", inits: inits, nodes: with(onnx.Op("Add", "s bias", "baddbmm_1"),
			onnx.Op("Neg", "baddbmm_1", "y")), want: []string{"permute(x)", "baddbmm(bias, x, t)", "neg(baddbmm_1)"}},
		{name: "a bias behind a scale", inits: inits, nodes: with(onnx.Op("Add", "s bias", "y")),
			want: append(slices.Clone(apart), "add(s, bias)")},
		{name: "a row", inits: inits, nodes: with(onnx.Op("Mul", "wide beta", "b"), onnx.Op("Add", "s b", "y")),
			want: append(slices.Clone(apart), "mul(wide, number)", "add(s, b)")},
	})
}

// Where a softmax is computed in float32 whatever the model's type, and cast back.
func TestSoftmaxInFloat32(t *testing.T) {
	up := func(in, out string) onnx.Node { return onnx.Op("Cast", in, out, onnx.A("to", 1)) }
	times := func(in string) onnx.Node { return onnx.Op("MatMul", in+" v", "y") }
	soft := func(in, out string) onnx.Node { return onnx.Op("Softmax", in, out, onnx.A("axis", -1)) }
	turn := onnx.Op("Transpose", "x", "v", onnx.A("perm", []int64{0, 2, 1}))
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
		{name: "a cast behind", nodes: []onnx.Node{turn, soft("x", "p"), up("p", "q"), times("q")},
			want: []string{"permute(x)", "softmax(x)", "to(p)", "matmul(q, v)"}},
	})
}

// Attention as GPT-J writes it multiplies in float32, which an export in float32 does not show.
func TestAttentionInFloat32(t *testing.T) {
	inits := []onnx.Tensor{fromonnxtest.F32s("zero", 0), fromonnxtest.F32s("low", -3.4028234663852886e38),
		fromonnxtest.F32s("ten", -10), fromonnxtest.F32s("scale", 8), onnx.Int64s("last", -1)}
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
	before := []string{"amax(x)", "permute(top)", "compare(top, row)", "where(keep, number, number)", "relu(x)",
		"permute(x)"}
	as := func(rest ...string) []string { return append(slices.Clone(before), rest...) }
	padding := append([]string{"amax(x)", "compare(top, number)"}, before[3:]...)
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
	inits := []onnx.Tensor{onnx.Int64s("pads", 0, 0, 0, 0, 0, 1), fromonnxtest.F32s("one", 1),
		fromonnxtest.F32s("zero", 0), fromonnxtest.F32s("eps", 1e-5), onnx.Int64s("first", 0), onnx.Int64s("last", -1),
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
			inits: []onnx.Tensor{fromonnxtest.F32s("root", 0.6), fromonnxtest.F32s("zero", 0),
				fromonnxtest.F32s("low", float32(math.Inf(-1))), onnx.Int64s("window", window).Scalar(),
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

// Heads whose channels come before their pixels are transposed and made contiguous for attention; of k the exporter
// merges two transposes to none.
func TestAttentionOfTurnedHeads(t *testing.T) {
	turn := onnx.A("perm", []int64{0, 1, 3, 2})
	runPatterns(t, []patternCase{{name: "turned", shape: []any{2, 4, 8, 6},
		inits: []onnx.Tensor{fromonnxtest.F32s("root", 0.6)}, nodes: []onnx.Node{
			onnx.Op("Sin", "x", "k"), onnx.Op("Cos", "x", "v"), onnx.Op("Transpose", "x", "q", turn), onnx.Op("Transpose", "v",
				"vt", turn),
			onnx.Op("Mul", "q root", "qs"), onnx.Op("Mul", "k root", "ks"), onnx.Op("MatMul", "qs ks", "s"), onnx.Op("Softmax",
				"s", "p", onnx.A("axis", -1)), onnx.Op("MatMul", "p vt", "y")},
		want: []string{"sin(x)", "cos(x)", "permute(x)", "permute(v)", "permute(k)", "contiguous(q)", "contiguous(_)",
			"contiguous(vt)", "sdpa(_, _, _, -)"}}})
}

// The layer norm that Cohere writes by hand computes in float32; one that a program scales before it is another's.
func TestCenteredNorm(t *testing.T) {
	inits := []onnx.Tensor{fromonnxtest.F32s("two", 2), fromonnxtest.F32s("eps", 1e-5), onnx.Int64s("axes", -1),
		fromonnxtest.Weights("ln.weight", 8)}
	norm := func(scale string) []onnx.Node {
		return []onnx.Node{onnx.Op("ReduceMean", "x axes", "m"), onnx.Op("Sub", "x m", "a"), onnx.Op("Pow", "a two", "sq"),
			onnx.Op("ReduceMean", "sq axes", "v"), onnx.Op("Sub", "x m", "d"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "s"), onnx.Op("Reciprocal", "s", "r"), onnx.Op("Mul", "d r",
				"n"), onnx.Op("Mul", scale, "y")}
	}
	merged := func(nodes []onnx.Node) []onnx.Node { // by an optimizer
		nodes[8] = onnx.Op("Mul", "a r", "n")
		return slices.Delete(nodes, 4, 5)
	}
	runPatterns(t, []patternCase{
		{name: "weight first", inits: inits, nodes: norm("ln.weight n"),
			want: []string{"float(x)", "mean(_)", "sub(_, _)", "square(_)", "mean(_)", "sub(_, _)", "add(_, number)",
				"rsqrt(_)", "mul(_, _)", "float(ln.weight)", "mul(_, _)", "type_as(_, x)"}},
		{name: "one difference", inits: inits, nodes: merged(norm("ln.weight n")),
			want: []string{"float(x)", "mean(_)", "sub(_, _)", "square(_)", "mean(_)", "sub(_, _)", "add(_, number)",
				"rsqrt(_)", "mul(_, _)", "float(ln.weight)", "mul(_, _)", "type_as(_, x)"}},
		{name: "weight last", inits: inits, nodes: norm("n ln.weight"),
			want: []string{"mean(x)", "sub(x, m)", "pow(a, number)", "mean(sq)", "sub(x, m)", "add(v, number)", "rsqrt(ve)",
				"mul(d, r)", "mul(n, ln.weight)"}},
	})
}

// A norm over the channels of a picture is no layer norm, and subtracts the mean twice unless a name keeps the
// difference.
func TestChannelNorm(t *testing.T) {
	inits := []onnx.Tensor{fromonnxtest.F32s("two", 2), fromonnxtest.F32s("eps", 1e-6), onnx.Int64s("axes", 1),
		fromonnxtest.Weights("ln.weight", 8, 1, 1)}
	norm := func(square onnx.Node) []onnx.Node {
		return []onnx.Node{onnx.Op("ReduceMean", "x axes", "m"), onnx.Op("Sub", "x m", "d"), square,
			onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"), onnx.Op("Div", "d r", "n"), onnx.Op("Mul", "ln.weight n",
				"y")}
	}
	picture := []any{2, 8, 6, 6}
	runPatterns(t, []patternCase{
		{name: "two lines", shape: picture, inits: inits, nodes: norm(onnx.Op("Pow", "d two", "sq")),
			want: []string{"mean(x)", "sub(x, m)", "pow(d, number)", "mean(sq)", "add(v, number)", "sqrt(ve)", "sub(x, m)",
				"div(_, r)", "mul(ln.weight, n)"}},
		{name: "a name", shape: picture, inits: inits, nodes: norm(onnx.Op("Mul", "d d", "sq")),
			want: []string{"mean(x)", "sub(x, m)", "mul(d, d)", "mean(sq)", "add(v, number)", "sqrt(ve)", "div(d, r)",
				"mul(ln.weight, n)"}},
	})
}

// The normalisations of older opsets.
func TestNormChains(t *testing.T) {
	consts := []onnx.Tensor{fromonnxtest.F32s("one", 1), fromonnxtest.F32s("two", 2), fromonnxtest.F32s("eps", 1e-5),
		fromonnxtest.F32s("three", 3), onnx.Int64s("axes", -1), fromonnxtest.Weights("ln.weight", 8),
		fromonnxtest.Weights("ln.bias", 8)}
	layer := func(power string) []onnx.Node {
		return []onnx.Node{onnx.Op("ReduceMean", "x axes", "m"), onnx.Op("Sub", "x m", "d"),
			onnx.Op("Pow", "d "+power, "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"), onnx.Op("Div", "d r", "n")}
	}
	affine := []onnx.Node{onnx.Op("Mul", "n ln.weight", "nw"), onnx.Op("Add", "nw ln.bias", "y")}
	rms := func(power, norm string, scale ...onnx.Node) []onnx.Node {
		return append([]onnx.Node{onnx.Op("Pow", "x "+power, "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"),
			onnx.Op("Reciprocal", "r", "i"), onnx.Op("Mul", "x i", norm)}, scale...)
	}
	weighted := func(in string) onnx.Node { return onnx.Op("Mul", in, "y") }
	up := func(in, out string) onnx.Node { return onnx.Op("Cast", in, out, onnx.A("to", 1)) }
	of := func(x string, nodes []onnx.Node) []onnx.Node { // the same of another value
		for i := range nodes {
			for j, in := range nodes[i].In {
				if in == "x" {
					nodes[i].In[j] = x
				}
			}
		}
		return nodes
	}
	upcast := []string{"float(x)", "square(_)", "mean(_)", "add(_, number)", "rsqrt(_)", "mul(_, _)"}
	plain := []string{"pow(x, number)", "mean(sq)", "add(v, number)", "rsqrt(ve)", "mul(x, i)"}
	group := func(to ...int64) patternCase {
		return patternCase{shape: []any{2, 8, 6, 6}, inits: []onnx.Tensor{onnx.Int64s("in", to...),
			onnx.Int64s("out", 2, 8, 6, 6), fromonnxtest.Weights("ones", to[1]), fromonnxtest.Weights("zeros", to[1]),
			fromonnxtest.Weights("gn.weight", 8, 1, 1), fromonnxtest.Weights("gn.bias", 8, 1, 1)},
			nodes: []onnx.Node{onnx.Op("Reshape", "x in", "r"), onnx.Op("InstanceNormalization", "r ones zeros", "i"),
				onnx.Op("Reshape", "i out", "b"), onnx.Op("Mul", "b gn.weight", "w"), onnx.Op("Add", "w gn.bias", "y")}}
	}
	vg := []onnx.Tensor{fromonnxtest.Weights("v.weight", 4, 3, 3), fromonnxtest.Weights("g.weight", 4, 1, 1),
		fromonnxtest.Weights("v.middle", 4, 3, 3), fromonnxtest.Weights("g.middle", 1, 3, 1)}
	weight := func(v string) []onnx.Node {
		axes, g := []int64{1, 2}, "g.weight"
		if v == "v.middle" {
			axes, g = []int64{0, 2}, "g.middle"
		}
		return []onnx.Node{onnx.Op("ReduceL2", v, "n", onnx.A("axes", axes)), onnx.Op("Div", v+" n", "d"),
			onnx.Op("Mul", "d "+g, "w")}
	}
	groups, four, cast := group(2, 4, -1), group(2, 4, 12, 6), group(2, 4, -1)
	cast.nodes = append(slices.Clone(cast.nodes[:3]), onnx.Op("CastLike", "gn.weight b", "wl"),
		onnx.Op("Mul", "b wl", "w"), onnx.Op("CastLike", "gn.bias w", "bl"), onnx.Op("Add", "w bl", "y"))
	cast.name, cast.want = "group norm as torch.export writes it", []string{"group_norm(x, gn.weight, gn.bias)"}
	each := group(2, 8, -1)
	each.shape, each.inits = []any{2, 8, 6}, append(each.inits[:4:4], fromonnxtest.Weights("gn.weight", 8, 1),
		fromonnxtest.Weights("gn.bias", 8, 1))
	each.nodes = append([]onnx.Node{each.nodes[0], each.nodes[1]}, onnx.Op("Mul", "i gn.weight", "w"),
		onnx.Op("Add", "w gn.bias", "y"))
	each.name, each.want = "group norm of a group for each channel, without the way back",
		[]string{"group_norm(x, gn.weight, gn.bias)"}
	groups.name, groups.want = "group norm", []string{"group_norm(x, gn.weight, gn.bias)"}
	four.name, four.want = "an instance norm between reshapes", []string{"reshape(x)", "instance_norm(r, -, -)",
		"reshape(i)", "mul(b, gn.weight)", "add(w, gn.bias)"}
	runPatterns(t, []patternCase{
		{name: "layer norm", inits: consts, nodes: append(layer("two"), affine...),
			want: []string{"layer_norm(x, ln.weight, ln.bias)"}},
		{name: "layer norm without affine", inits: consts, nodes: append(layer("two"), onnx.Op("Neg", "n", "y")),
			want: []string{"layer_norm(x, -, -)", "neg(n)"}},
		{name: "no layer norm: cubes", inits: consts, nodes: append(layer("three"), affine...),
			want: []string{"mean(x)", "sub(x, m)", "pow(d, number)", "mean(sq)", "add(v, number)", "sqrt(ve)", "div(d, r)",
				"mul(n, ln.weight)", "add(nw, ln.bias)"}},
		{name: "RMS norm of Llama", inits: consts, nodes: rms("two", "n", weighted("ln.weight n")),
			want: append(slices.Clone(upcast), "type_as(_, x)", "mul(ln.weight, _)")},
		{name: "RMS norm of Gemma", inits: consts, nodes: rms("two", "n", onnx.Op("Add", "ln.weight one", "w1"),
			weighted("n w1")), want: append(slices.Clone(upcast), "float(ln.weight)", "add(_, number)", "mul(_, _)",
			"type_as(_, x)")},
		{name: "RMS norm that casts back", inits: consts, nodes: rms("two", "type_as_1", weighted("type_as_1 ln.weight")),
			want: append(slices.Clone(upcast), "type_as(_, x)", "mul(ln.weight, _)")},
		{name: "RMS norm of Llama in TorchScript", inits: consts,
			nodes: append([]onnx.Node{up("x", "x32")}, of("x32", rms("two", "n", up("n", "nb"), weighted("ln.weight nb")))...),
			want:  append(slices.Clone(upcast), "type_as(_, x)", "mul(ln.weight, _)")},
		{name: "RMS norm of T5 in TorchScript", inits: consts,
			nodes: append([]onnx.Node{up("x", "x32")}, of("x32", rms("two", "n", weighted("ln.weight n")))...),
			want:  append(slices.Clone(upcast[:5]), "mul(x, _)", "type_as(_, x)", "mul(ln.weight, _)")},
		{name: "RMS norm by hand", inits: consts, nodes: rms("two", "n", weighted("n ln.weight")),
			want: append(slices.Clone(plain), "mul(n, ln.weight)")},
		{name: "no RMS norm: cubes", inits: consts, nodes: rms("three", "n", weighted("ln.weight n")),
			want: append(slices.Clone(plain), "mul(ln.weight, n)")},
		groups, each, four, cast,
		{name: "weight norm", shape: []any{2, 3, 9}, inits: vg,
			nodes: append(weight("v.weight"), onnx.Op("Conv", "x w", "y")),
			want:  []string{"weight_norm(v.weight, g.weight)", "conv(x, w, -)"}},
		{name: "norms of the middle", shape: []any{2, 3, 9}, inits: vg,
			nodes: append(weight("v.middle"), onnx.Op("Conv", "x w", "y")),
			want:  []string{"norm(v.middle)", "div(v.middle, n)", "mul(d, g.middle)", "conv(x, w, -)"}},
	})
	p := mustRecover(t, groups.graph())
	if a := p.Calls[0].Args; a.Groups != 4 {
		t.Errorf("%d groups, wanted 4", a.Groups)
	}
}

// Parts of a tensor: split and chunk where nothing is left over, slices where Python slices.
func TestParts(t *testing.T) {
	end := int64(math.MaxInt64)
	ints := []onnx.Tensor{onnx.Int64s("0", 0), onnx.Int64s("4", 4), onnx.Int64s("8", 8), onnx.Int64s("5", 5),
		onnx.Int64s("end", end), onnx.Int64s("axis", 2), onnx.Int64s("size", 3).Scalar(),
		onnx.Int64s("i0", 0).Scalar(), onnx.Int64s("i1", 1).Scalar(), onnx.Int64s("i2", 2).Scalar(), onnx.Int64s("fives", 2,
			4, 5), onnx.Int64s("threes", 2, 4, 3)}
	yes := onnx.Tensor{Name: "yes", DType: onnxload.Bool, Raw: []byte{1}}
	parts := func(mid, end string) []onnx.Node {
		return []onnx.Node{onnx.Op("Slice", "x 0 4 axis", "a"), onnx.Op("Slice", "x "+mid+" "+end+" axis", "b"),
			onnx.Op("Concat", "b a", "y", onnx.A("axis", 2))}
	}
	runPatterns(t, []patternCase{
		{name: "chunk", inits: ints, nodes: parts("4", "8"), want: []string{"split(x)", "cat(b, a)"}},
		{name: "Python slices", inits: ints, nodes: parts("4", "end"), want: []string{"slice(x)", "slice(x)", "cat(b, a)"}},
		{name: "roll", inits: ints, nodes: []onnx.Node{onnx.Op("Slice", "x 5 end axis", "a"),
			onnx.Op("Slice", "x 0 5 axis", "b"), onnx.Op("Concat", "a b", "y", onnx.A("axis", 2))}, want: []string{"roll(x)"}},
		{name: "with a gap", inits: ints, nodes: parts("5", "8"), want: []string{"slice(x)", "slice(x)", "cat(b, a)"}},
		{name: "Split", nodes: []onnx.Node{onnx.Op("Split", "x", "a b", onnx.A("axis", 2), onnx.A("num_outputs", 2)),
			onnx.Op("Concat", "b a", "y", onnx.A("axis", 2))}, want: []string{"split(x)", "cat(b, a)"}},
		{name: "SplitToSequence", inits: ints, nodes: []onnx.Node{onnx.Op("SplitToSequence", "x size", "s",
			onnx.A("axis", 2)), onnx.Op("SequenceAt", "s i0", "a"), onnx.Op("SequenceAt", "s i1", "b"), onnx.Op("SequenceAt",
			"s i2", "c"),
			onnx.Op("Concat", "c b a", "y", onnx.A("axis", 2))}, want: []string{"split(x)", "cat(c, b, a)"}},
		{name: "tensor_split", inits: append(ints, yes), nodes: []onnx.Node{onnx.Op("SequenceEmpty", "", "e"),
			onnx.Op("Loop", "i1 yes e", "l", onnx.A("body", onnx.Graph{
				In:  []onnx.Value{onnx.Val("trip", onnxload.Int64), onnx.Val("go", onnxload.Bool), {Name: "had"}},
				Out: []onnx.Value{onnx.Val("on", onnxload.Bool), {Name: "has"}}, Nodes: []onnx.Node{onnx.Op("Identity", "go", "on"),
					onnx.Op("Slice", "x 0 5 axis", "first"), onnx.Op("SequenceInsert", "had first", "has")}})),
			onnx.Op("Slice", "x 5 8 axis", "last"), onnx.Op("SequenceInsert", "l last", "s"), onnx.Op("SequenceAt", "s i0",
				"a"), onnx.Op("SequenceAt", "s i1", "b"), onnx.Op("Reshape", "a fives", "af"), onnx.Op("Reshape", "b threes", "bt"),
			onnx.Op("Concat", "bt af", "y",
				onnx.A("axis", 2))}, want: []string{"slice(x)", "slice(x)", "reshape(a)", "reshape(b)", "cat(bt, af)"}},
		{name: "a list", inits: ints, nodes: []onnx.Node{onnx.Op("Relu", "x", "a"), onnx.Op("SequenceConstruct", "x a", "s"),
			onnx.Op("SequenceInsert", "s x i0", "l"), onnx.Op("ConcatFromSequence", "l", "y", onnx.A("axis", 1))},
			want: []string{"relu(x)", "cat(x, x, a)"}},
		{name: "a list stacked", inits: ints, nodes: []onnx.Node{onnx.Op("Relu", "x", "a"),
			onnx.Op("SequenceConstruct", "x a", "s"),
			onnx.Op("ConcatFromSequence", "s", "y", onnx.A("axis", 0), onnx.A("new_axis", 1))},
			want: []string{"relu(x)", "unsqueeze(x)", "unsqueeze(a)", "cat(_, _)"}},
		{name: "one of a list", inits: ints, nodes: []onnx.Node{onnx.Op("Relu", "x", "a"),
			onnx.Op("SequenceConstruct", "x a", "s"), onnx.Op("SequenceAt", "s i1", "b"),
			onnx.Op("Neg", "b", "y")}, want: []string{"relu(x)", "neg(a)"}},
	})
	p := mustRecover(t, patternCase{inits: ints, nodes: []onnx.Node{onnx.Op("SplitToSequence", "x size", "s",
		onnx.A("axis", 2)), onnx.Op("SequenceAt", "s i2", "c"), onnx.Op("SequenceAt", "s i0", "a"),
		onnx.Op("Concat", "c a", "y", onnx.A("axis", 2))}}.graph())
	if a := p.Calls[0].Args; a.Dim != 2 || !slices.Equal(a.Shape, []int64{3, 3, 2}) {
		t.Errorf("split at %d into %v", a.Dim, a.Shape)
	}
	p = mustRecover(t, patternCase{inits: append(ints, onnx.Int64s("sizes", 1, 4, 3)),
		nodes: []onnx.Node{onnx.Op("SplitToSequence", "x sizes", "s", onnx.A("axis", 2)), onnx.Op("SequenceAt", "s i2", "c"),
			onnx.Op("SequenceAt", "s i0", "a"),
			onnx.Op("Concat", "c a", "y", onnx.A("axis", 2))}}.graph())
	if a := p.Calls[0].Args; !slices.Equal(a.Shape, []int64{1, 4, 3}) {
		t.Errorf("split into %v where the node lists 1, 4 and 3", a.Shape)
	}
}

// The weight of the module that makes the call is an embedding's, wherever its places come from.
func TestEmbeddingOfABuffer(t *testing.T) {
	graph := func(weight string) onnx.Graph {
		return onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)},
			Inits: []onnx.Tensor{fromonnxtest.Weights(weight, 9, 8), onnx.Bare("i.buffer", onnxload.Int64, 4)},
			Out:   []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{onnx.Op("Gather", weight+" i.buffer", "g").Named("pos:Gather"), onnx.Op("Add", "x g", "y")}}
	}
	wantCalls(t, mustRecover(t, graph("pos.weight")), "embedding(pos.weight, i.buffer)", "add(x, g)")
	wantCalls(t, mustRecover(t, graph("pos.table.weight")), "index(pos.table.weight, i.buffer)", "add(x, g)")
}

// What torch.export leaves of contiguous() is an Identity with the name of a clone; a dropout of nothing leaves one
// too.
func TestClonesOfTransposes(t *testing.T) {
	turn := onnx.Op("Transpose", "x", "t", onnx.A("perm", []int64{0, 2, 1}))
	runPatterns(t, []patternCase{
		{name: "contiguous", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone_1"), onnx.Op("Relu", "clone_1", "y")},
			want: []string{"permute(x)", "contiguous(_)", "relu(t)"}},
		{name: "behind an unsqueeze", inits: []onnx.Tensor{onnx.Int64s("axis", 0)},
			nodes: []onnx.Node{turn, onnx.Op("Unsqueeze", "t axis", "u"), onnx.Op("Identity", "u", "clone_1"),
				onnx.Op("Relu", "clone_1", "y")}, want: []string{"permute(x)", "reshape(t)", "contiguous(_)", "relu(u)"}},
		{name: "another name", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "alias"), onnx.Op("Relu", "alias", "y")},
			want: []string{"permute(x)", "relu(t)"}},
		{name: "read before it is copied", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone"),
			onnx.Op("Add", "clone t", "y")}, want: []string{"permute(x)", "add(t, t)"}},
		{name: "reshape", inits: []onnx.Tensor{onnx.Int64s("to", 2, 32)},
			nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone"), onnx.Op("Reshape", "clone to", "_unsafe_view"),
				onnx.Op("Relu", "_unsafe_view", "y")}, want: []string{"permute(x)", "reshape(t)", "relu(_unsafe_view)"}},
		{name: "dropout", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone").Named("block.drop1:Identity"),
			onnx.Op("Relu", "clone", "y")}, want: []string{"permute(x)", "relu(t)"}},
	})
}

// x[:, 1:] = y writes into x; the exporters scatter it at places that come from shapes alone.
func TestSliceAssignment(t *testing.T) {
	graph := func(op, places string) patternCase {
		return patternCase{shape: []any{4, 8}, inits: []onnx.Tensor{onnx.Int64s("rows", 1, 2, 3), onnx.Int64s("to", 3, 1),
			onnx.Int64s("two", 2)}, nodes: []onnx.Node{
			onnx.Op("Relu", "x", "base"), onnx.Op("Sigmoid", "x", "part"), onnx.Op("Slice", "part rowsfrom rowsto axis",
				"y1"), onnx.Op("Reshape", "rows to", "at"), onnx.Op("ArgMax", "y1", "found", onnx.A("axis", 1)), onnx.Op(op,
				"base "+places+" y1", "y")}}
	}
	fixed, data := graph("ScatterND", "at"), graph("ScatterND", "found")
	for _, c := range []*patternCase{&fixed, &data} {
		c.inits = append(c.inits, onnx.Int64s("rowsfrom", 0), onnx.Int64s("rowsto", 3), onnx.Int64s("axis", 0))
	}
	fixed.name, fixed.want = "at fixed places", []string{"relu(x)", "sigmoid(x)", "slice(part)", "assign(base, y1)"}
	data.name, data.want = "where data say", []string{"relu(x)", "sigmoid(x)", "slice(part)", "argmax(y1)",
		"scatter(base, found, y1)"}
	runPatterns(t, []patternCase{fixed, data})
}

// What only names things or asks for shapes costs nothing.
func TestWhatCostsNothing(t *testing.T) {
	one := onnx.Int64s("one", 1)
	branch := func(op string) onnx.Graph {
		return onnx.Graph{Nodes: []onnx.Node{onnx.Op(op, "x", "b"+op)}, Out: []onnx.Value{onnx.Float("b"+op, 2, 4, 8)}}
	}
	yes := onnx.Tensor{Name: "yes", DType: onnxload.Bool, Raw: []byte{1}}
	runPatterns(t, []patternCase{
		{name: "Identity chain", nodes: []onnx.Node{onnx.Op("Identity", "x", "a"), onnx.Op("Identity", "a", "b"),
			onnx.Op("Sigmoid", "b", "s"), onnx.Op("Identity", "s", "c"), onnx.Op("Mul", "a c", "y")}, want: []string{"silu(x)"}},
		{name: "arithmetic of shapes", inits: []onnx.Tensor{onnx.Int64s("zero", 0), one, onnx.Int64s("rest", -1)},
			nodes: []onnx.Node{onnx.Op("Shape", "x", "s"), onnx.Op("Gather", "s zero", "n"), onnx.Op("Mul", "n one", "m"),
				onnx.Op("Concat", "m rest", "to", onnx.A("axis", 0)), onnx.Op("Reshape", "x to", "r"), onnx.Op("Relu", "r",
					"y")}, want: []string{"reshape(x)", "relu(r)"}},
		{name: "the branch that is taken", inits: []onnx.Tensor{yes},
			nodes: []onnx.Node{onnx.Op("If", "yes", "i", onnx.A("then_branch", branch("Relu")),
				onnx.A("else_branch", branch("Exp"))), onnx.Op("Neg", "i", "y")}, want: []string{"relu(x)", "neg(bRelu)"}},
	})
}

// ReLU and add write over their argument behind convolutions, and nowhere else.
func TestInPlace(t *testing.T) {
	picture := []any{2, 4, 6, 6}
	inits := []onnx.Tensor{fromonnxtest.Weights("conv.weight", 4, 4, 1, 1), fromonnxtest.Weights("bn.weight", 4),
		fromonnxtest.Weights("bn.bias", 4), fromonnxtest.Weights("bn.mean.buffer", 4),
		fromonnxtest.Weights("bn.var.buffer", 4), fromonnxtest.Weights("fc.weight", 8, 8)}
	block := []onnx.Node{onnx.Op("Conv", "x conv.weight", "c"),
		onnx.Op("BatchNormalization", "c bn.weight bn.bias bn.mean.buffer bn.var.buffer", "n")}
	norm := []string{"conv(x, conv.weight, -)", "batch_norm(c, bn.weight, bn.bias)"}
	runPatterns(t, []patternCase{
		{name: "ReLU behind a norm", shape: picture, inits: inits,
			nodes: append(slices.Clone(block), onnx.Op("Relu", "n", "y")), want: append(slices.Clone(norm), "relu(n) in place")},
		{name: "of what something else needs", shape: picture, inits: inits,
			nodes: append(slices.Clone(block), onnx.Op("Relu", "n", "r"), onnx.Op("Mul", "r n", "y")),
			want:  append(slices.Clone(norm), "relu(n)", "mul(r, n)")},
		{name: "residual sum", shape: picture, inits: inits, nodes: append(slices.Clone(block), onnx.Op("Add", "x n", "a"),
			onnx.Op("Relu", "a", "y")), want: append(slices.Clone(norm), "add(n, x) in place", "relu(a) in place")},
		{name: "sum without ReLU", shape: picture, inits: inits,
			nodes: append(slices.Clone(block), onnx.Op("Add", "x n", "a"), onnx.Op("Sigmoid", "a", "y")),
			want:  append(slices.Clone(norm), "add(x, n)", "sigmoid(a)")},
		{name: "the block's result first", shape: picture, inits: inits,
			nodes: append(slices.Clone(block), onnx.Op("Add", "n x", "a"), onnx.Op("Sigmoid", "a", "y")),
			want:  append(slices.Clone(norm), "add(n, x) in place", "sigmoid(a)")},
		{name: "a result that something else needs", shape: picture, inits: inits,
			nodes: append(slices.Clone(block), onnx.Op("Add", "n x", "a"), onnx.Op("Mul", "a n", "y")),
			want:  append(slices.Clone(norm), "add(n, x)", "mul(a, n)")},
		{name: "a scaled result", shape: picture, inits: append(slices.Clone(inits),
			fromonnxtest.Weights("scale.weight", 4, 1, 1)), nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "s"),
			onnx.Op("Mul", "s scale.weight", "m"), onnx.Op("Add", "m x", "a"), onnx.Op("Neg", "a", "y")},
			want: []string{"sigmoid(x)", "mul(s, scale.weight)", "add(m, x) in place", "neg(a)"}},
		{name: "ReLU behind a Linear", inits: inits, nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "m"),
			onnx.Op("Relu", "m", "y")}, want: []string{"linear(x, fc.weight, -)", "relu(m)"}},
	})
}

// Batch norms that an export in evaluation mode folded away come back.
func TestFoldedBatchNorm(t *testing.T) {
	conv := func(w, b, out string) onnx.Graph {
		return onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 6, 6)},
			Inits: []onnx.Tensor{fromonnxtest.Weights(w, 4, 4, 1, 1), fromonnxtest.Weights(b, 4)},
			Out:   []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{onnx.Op("Conv", "x "+w+" "+b, out).Named("features.0:Conv"),
				onnx.Op("Relu", out, "y").Named("features.1:Relu")}}
	}
	// The TorchScript exporter's names hold no dot: recovered takes them for parameters by theirs.
	for _, c := range []struct{ w, b, out, conv string }{
		{"features.weight", "features.weight_bias", "getitem_3", "conv(x, features.weight, -)"},
	} {
		p := mustRecover(t, conv(c.w, c.b, c.out))
		wantCalls(t, p, c.conv, "batch_norm(_, features.0.restored_bn.weight, features.0.restored_bn.bias)",
			"relu("+c.out+") in place")
		if p.Notes == nil {
			t.Error("nothing is said of the norm that is restored")
		}
	}
	wantCalls(t, mustRecover(t, conv("features.weight", "features.bias", "conv2d")),
		"conv(x, features.weight, features.bias)", "relu(conv2d) in place")
}

// Convolutions whose folded weights the exporter merged have one each; a module that is called twice has one.
func TestMergedFoldedWeights(t *testing.T) {
	const conv = "conv(%s, %s, -)"
	for second, want := range map[string]string{"layer.1": "layer.1.weight", "layer.0": "layer.weight"} {
		p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 6, 6)},
			Inits: []onnx.Tensor{fromonnxtest.Weights("layer.weight", 4, 4, 1, 1), fromonnxtest.Weights("layer.bias", 4)},
			Out:   []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{onnx.Op("Conv", "x layer.weight layer.bias", "getitem_3").Named("layer.0:Conv"),
				onnx.Op("Relu", "getitem_3", "r"),
				onnx.Op("Conv", "r layer.weight layer.bias", "getitem_6").Named(second + ":Conv"), onnx.Op("Sigmoid", "getitem_6",
					"y")}})
		wantCalls(t, p, fmt.Sprintf(conv, "x", "layer.weight"),
			"batch_norm(_, layer.0.restored_bn.weight, layer.0.restored_bn.bias)", "relu(getitem_3) in place",
			fmt.Sprintf(conv, "r", want), "batch_norm(_, "+second+".restored_bn.weight, "+second+".restored_bn.bias)",
			"sigmoid(getitem_6)")
		for _, n := range p.Notes {
			if strings.Contains(n, "several modules") {
				t.Error(n)
			}
		}
	}
}

// A table of relative positions is looked up, seen with the heads last, and copied with the heads first.
func TestRelativePositions(t *testing.T) {
	c := patternCase{shape: []any{2, 16, 16}, inits: []onnx.Tensor{fromonnxtest.Weights("attn.table", 9, 3),
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
	if n := len(p.State); n != 2 || p.Values[p.State[1]].Kind != aten.Buffer {
		t.Errorf("the state has %d tensors, wanted the table and its index", n)
	}
	c.nodes[2] = onnx.Op("Transpose", "r", "t", onnx.A("perm", []int64{2, 1, 0}))
	wantCalls(t, mustRecover(t, c.graph()), "index(attn.table, attn.buffer)", "reshape(g)", "permute(r)", "sum(t)",
		"add(x, s)")
}

// F.pad by nothing is a copy; before a pooling that counts it, it is the exporter's.
func TestPadByNothing(t *testing.T) {
	none := onnx.Int64s("none", 0, 0, 0, 0, 0, 0, 0, 0)
	picture := []any{2, 4, 8, 8}
	runPatterns(t, []patternCase{
		{name: "pad", shape: picture, inits: []onnx.Tensor{none},
			nodes: []onnx.Node{onnx.Op("Pad", "x none", "p"), onnx.Op("Relu", "p", "y")},
			want:  []string{"constant_pad(x)", "relu(p)"}},
		{name: "pooling", shape: picture, inits: []onnx.Tensor{none},
			nodes: []onnx.Node{onnx.Op("Pad", "x none", "p"),
				onnx.Op("AveragePool", "p", "y", onnx.A("kernel_shape", []int64{2, 2}))}, want: []string{"avg_pool(x)"}},
	})
}

// Tokens that become a picture for a convolution are made contiguous.
func TestMapOfTokens(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("picture", 2, 4, 4, 8), fromonnxtest.Weights("c.weight", 8, 8, 1, 1)}
	to := func(n onnx.Node) []onnx.Node {
		return []onnx.Node{onnx.Op("Reshape", "x picture", "r"),
			onnx.Op("Transpose", "r", "p", onnx.A("perm", []int64{0, 3, 1, 2})), n}
	}
	runPatterns(t, []patternCase{
		{name: "convolution", shape: []any{2, 16, 8}, inits: inits, nodes: to(onnx.Op("Conv", "p c.weight", "y")),
			want: []string{"reshape(x)", "permute(r)", "contiguous(_)", "conv(p, c.weight, -)"}},
		{name: "convolution, and flattened", shape: []any{2, 16, 8}, inits: append(inits, onnx.Int64s("flat", 2, 8, 16)),
			nodes: append(to(onnx.Op("Conv", "p c.weight", "c")), onnx.Op("Reshape", "p flat", "f"),
				onnx.Op("Reshape", "c flat", "g"), onnx.Op("Add", "f g", "y")),
			want: []string{"reshape(x)", "permute(r)", "contiguous(_)", "conv(p, c.weight, -)", "reshape(p)", "reshape(c)",
				"add(f, g)"}},
		{name: "else", shape: []any{2, 16, 8}, inits: inits, nodes: to(onnx.Op("Relu", "p", "y")),
			want: []string{"reshape(x)", "permute(r)", "relu(p)"}},
	})
}
