package recover_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
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
	other bool  // written by no exporter of PyTorch's
	opset int64 // 20 where it is 0
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
		t.Run(c.name, func(t *testing.T) {
			p := mustRecover(t, c.graph())
			if c.other || c.opset > 0 {
				producer := map[bool]string{true: "other", false: "pytorch"}[c.other]
				var err error
				if p, err = recovertest.RecoveredBy(producer, cmp.Or(c.opset, 20), c.graph(), true); err != nil {
					t.Fatal(err)
				}
			}
			wantCalls(t, p, c.want...)
		})
	}
}

var geluConstants = []onnx.Tensor{recovertest.F32s("root", math.Sqrt2), recovertest.F32s("one", 1),
	recovertest.F32s("half", 0.5), recovertest.F32s("two", 2)}

// The activations that exporters write out.
func TestActivationChains(t *testing.T) {
	erf := func(rest ...onnx.Node) []onnx.Node {
		return append([]onnx.Node{onnx.Op("Div", "x root", "d"), onnx.Op("Erf", "d", "e"), onnx.Op("Add", "e one", "a")},
			rest...)
	}
	unmatched := []string{"div(x, number)", "erf(d)", "add(e, number)"}
	tanh := func(cube float32) patternCase {
		return patternCase{inits: []onnx.Tensor{recovertest.F32s("k", cube),
			recovertest.F32s("s", float32(math.Sqrt(2/math.Pi))), recovertest.F32s("one", 1),
			recovertest.F32s("half", 0.5)}, nodes: []onnx.Node{
			onnx.Op("Mul", "x x", "x2"), onnx.Op("Mul", "x x2", "x3"), onnx.Op("Mul", "k x3", "kx"), onnx.Op("Add", "x kx",
				"sum"), onnx.Op("Mul", "s sum", "in"),
			onnx.Op("Tanh", "in", "t"), onnx.Op("Add", "one t", "t1"), onnx.Op("Mul", "x t1", "xt"), onnx.Op("Mul", "half xt",
				"y")}}
	}
	good, near := tanh(0.044715), tanh(0.05)
	good.name, good.want = "tanh gelu", []string{"gelu(x)"}
	near.name, near.want = "tanh with another factor", []string{"mul(x, x)", "mul(x, x2)", "mul(number, x3)",
		"add(x, kx)", "mul(number, sum)", "tanh(in)", "add(number, t)", "mul(x, t1)", "mul(number, xt)"}
	swish := []onnx.Tensor{recovertest.F32s("three", 3), recovertest.F32s("zero", 0), recovertest.F32s("six", 6)}
	runPatterns(t, []patternCase{
		{name: "gelu, half last", inits: geluConstants, nodes: erf(onnx.Op("Mul", "x a", "m"),
			onnx.Op("Mul", "m half", "y")), want: []string{"gelu(x)"}},
		{name: "gelu, half first", other: true, inits: geluConstants, nodes: erf(onnx.Op("Mul", "x half", "h"),
			onnx.Op("Mul", "h a", "y")), want: []string{"gelu(x)"}},
		{name: "gelu, half inside", other: true, inits: geluConstants, nodes: erf(onnx.Op("Mul", "a half", "m"),
			onnx.Op("Mul", "x m", "y")), want: []string{"gelu(x)"}},
		{name: "gelu of a program's own, half first", inits: geluConstants, nodes: erf(onnx.Op("Mul", "x half", "h"),
			onnx.Op("Mul", "h a", "y")), want: append(slices.Clone(unmatched), "mul(x, number)", "mul(h, a)")},
		{name: "no gelu: times two", inits: geluConstants, nodes: erf(onnx.Op("Mul", "x a", "m"),
			onnx.Op("Mul", "m two", "y")), want: append(slices.Clone(unmatched), "mul(x, a)", "mul(m, number)")},
		{name: "no gelu: the sum is used twice", inits: geluConstants,
			nodes: erf(onnx.Op("Mul", "x a", "m"), onnx.Op("Mul", "m half", "h"), onnx.Op("Add", "h a", "y")),
			want:  append(slices.Clone(unmatched), "mul(x, a)", "mul(m, number)", "add(h, a)")},
		good, near,
		{name: "silu", nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "s"), onnx.Op("Mul", "x s", "y")},
			want: []string{"silu(x)"}},
		{name: "silu of a program's own", nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "s"), onnx.Op("Mul", "s x", "y")},
			want: []string{"sigmoid(x)", "mul(s, x)"}},
		{name: "silu of a program's own in torch.export", nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "sigmoid_1"),
			onnx.Op("Mul", "x sigmoid_1", "y")}, want: []string{"sigmoid(x)", "mul(x, sigmoid_1)"}},
		{name: "silu, the gate first", other: true, nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "s"),
			onnx.Op("Mul", "s x", "y")}, want: []string{"silu(x)"}},
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
		{name: "hardswish by hand", opset: 14, inits: swish, nodes: []onnx.Node{onnx.Op("Add", "x three", "a"),
			onnx.Op("Clip", "a zero six", "c"), onnx.Op("Mul", "x c", "m"), onnx.Op("Div", "m six", "y")},
			want: []string{"add(x, number)", "hardtanh(a)", "mul(x, c)", "div(m, number)"}},
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
	inits := []onnx.Tensor{recovertest.F32s("zero", 0), onnx.Int64s("last", 8), onnx.Int64s("first", 2)}
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
	w, wt, bias := recovertest.Weights("fc.weight", 4, 8), recovertest.Weights("fc.weight", 8,
		4), recovertest.Weights("fc.bias", 4)
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
		{name: "a bias that is no parameter", inits: []onnx.Tensor{wt, recovertest.Weights("b", 4)},
			nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "m"), onnx.Op("Add", "m b", "y")},
			want:  []string{"linear(x, fc.weight, b)"}},
		{name: "a sum that is no bias", inits: []onnx.Tensor{wt, recovertest.Weights("pos.table", 4, 4)},
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
		{name: "a list stacked", inits: ints, nodes: []onnx.Node{onnx.Op("Relu", "x", "a"),
			onnx.Op("SequenceConstruct", "x a", "s"),
			onnx.Op("ConcatFromSequence", "s", "y", onnx.A("axis", 0), onnx.A("new_axis", 1))},
			want: []string{"relu(x)", "unsqueeze(x)", "unsqueeze(a)", "cat(_, _)"}},
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
	inits := []onnx.Tensor{recovertest.Weights("conv.weight", 4, 4, 1, 1), recovertest.Weights("bn.weight", 4),
		recovertest.Weights("bn.bias", 4), recovertest.Weights("bn.mean.buffer", 4),
		recovertest.Weights("bn.var.buffer", 4), recovertest.Weights("fc.weight", 8, 8)}
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
		{name: "LeakyReLU with a name", shape: picture, inits: inits,
			nodes: append(slices.Clone(block), onnx.Op("LeakyRelu", "n", "y").Named("body.act:LeakyRelu")),
			want:  append(slices.Clone(norm), "leaky_relu(n) in place")},
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
			recovertest.Weights("scale.weight", 4, 1, 1)), nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "s"),
			onnx.Op("Mul", "s scale.weight", "m"), onnx.Op("Add", "m x", "a"), onnx.Op("Neg", "a", "y")},
			want: []string{"sigmoid(x)", "mul(s, scale.weight)", "add(m, x) in place", "neg(a)"}},
		{name: "ReLU behind a Linear", inits: inits, nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "m"),
			onnx.Op("Relu", "m", "y")}, want: []string{"linear(x, fc.weight, -)", "relu(m)"}},
	})
}
