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
	"github.com/memestimate/memestimate/test/must"
)

// The activations that torch.export's exporter writes as several operators, whole and as optimizers leave them.
func TestWrittenOutActivations(t *testing.T) {
	inits := append([]onnx.Tensor{recovertest.F32s("large", 20), recovertest.F32s("zero", 0)}, geluConstants...)
	runPatterns(t, []patternCase{
		{name: "softplus and a program's own where", inits: inits, nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"),
			onnx.Op("Greater", "x large", "g"), onnx.Op("Where", "g x p", "y")}, want: []string{"softplus(x)",
			"compare(x, number)", "where(g, x, p)"}},
		{name: "softplus of a program's own", inits: inits, nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"),
			onnx.Op("Greater", "x large", "g"), onnx.Op("Where", "g p x", "y")}, want: []string{"softplus(x)",
			"compare(x, number)", "where(g, p, x)"}},
		{name: "selu, optimised", inits: inits, nodes: []onnx.Node{onnx.Op("Elu", "x", "val_3"),
			onnx.Op("Mul", "val_3 two", "y")}, want: []string{"elu(x)"}},
		{name: "an elu that is multiplied", inits: inits, nodes: []onnx.Node{onnx.Op("Elu", "x", "elu"),
			onnx.Op("Mul", "elu two", "y")}, want: []string{"elu(x)", "mul(elu, number)"}},
	})
}

// x[mask] = number of a mask with the leading dimensions alone writes over x, one that is spread makes a new tensor.
func TestMaskOfLeadingDimensions(t *testing.T) {
	inits := []onnx.Tensor{recovertest.F32s("low", -1), recovertest.F32s("zero", 0), onnx.Int64s("last", -1)}
	choose := onnx.Op("Where", "mask low e", "y")
	compared := []onnx.Node{onnx.Op("Exp", "x", "e"), onnx.Op("Greater", "x zero", "mask"), choose}
	reduced := []onnx.Node{onnx.Op("Exp", "x", "e"), onnx.Op("ReduceSum", "x last", "s", onnx.A("keepdims", int64(0))),
		onnx.Op("Greater", "s zero", "mask"), choose}
	runPatterns(t, []patternCase{
		{name: "spread", inits: inits, nodes: compared, want: []string{"exp(x)", "compare(x, number)",
			"masked_fill(e, mask)"}},
		{name: "leading", inits: inits, nodes: reduced, want: []string{"exp(x)", "sum(x)", "compare(s, number)",
			"reshape(mask)", "masked_fill(e, _) in place"}},
	})
	for name, nodes := range map[string][]onnx.Node{"spread": compared, "leading": reduced} {
		p := mustRecover(t, patternCase{inits: inits, nodes: nodes}.graph())
		fill := p.Calls[len(p.Calls)-1]
		if len(p.Values[p.Outputs[0]].Shape) != 3 {
			t.Errorf("%s: %v", name, p.Values[p.Outputs[0]].Shape)
		}
		if mask := p.Values[fill.In[1]]; mask.DType != program.Bool {
			t.Errorf("%s: a mask of %v", name, mask.DType)
		}
	}
}

// The mean square is of the dimension that the file names, which need not be the last: of channels before time.
func TestNormOfChannels(t *testing.T) {
	p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-5), onnx.Int64s("axes", -2),
			onnx.Bare("m.weight", onnxload.Float32, 4, 1)},
		Nodes: []onnx.Node{onnx.Op("Pow", "x two", "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"), onnx.Op("Reciprocal", "r", "i"),
			onnx.Op("Mul", "x i", "n"), onnx.Op("Mul", "m.weight n", "y")}})
	wantCalls(t, p, "float(x)", "square(_)", "mean(_)", "add(_, number)", "rsqrt(_)", "mul(_, _)", "type_as(_, x)",
		"mul(m.weight, _)")
	if dims := p.Calls[2].Args.Dims; len(dims) != 1 || dims[0] != 1 {
		t.Errorf("the mean is over dimensions %v, want 1 alone", dims)
	}
}

// The fast path is nn.MultiheadAttention's, which takes queries, keys and values out of its projection by their index.
// A module that takes them as slices is a program's own.
func TestFastPathOfIndexesAlone(t *testing.T) {
	const n, l, e, heads = 4, 16, 64, 2 // heads of 32
	for _, own := range []bool{false, true} {
		g := onnx.Graph{In: []onnx.Value{onnx.Float("x", n, l, e)}, Out: []onnx.Value{{Name: "y"}},
			Inits: []onnx.Tensor{onnx.Bare("in.weight", onnxload.Float32, e, 3*e), onnx.Bare("in.bias", onnxload.Float32, 3*e),
				onnx.Bare("out.weight", onnxload.Float32, e, e), onnx.Bare("out.bias", onnxload.Float32, e),
				onnx.Int64s("heads", l, n, heads, e/heads), onnx.Int64s("flat", l, n, e), onnx.Int64s("last", 2),
				onnx.Int64s("apart", l, n, 3, e), onnx.Int64s("step", 1)}}
		add := func(nodes ...onnx.Node) { g.Nodes = append(g.Nodes, nodes...) }
		turned := func(from, to string, perm ...int64) { add(onnx.Op("Transpose", from, to, onnx.A("perm", perm))) }
		turned("x", "steps", 1, 0, 2)
		add(onnx.Op("MatMul", "steps in.weight", "product"), onnx.Op("Add", "in.bias product", "projected"),
			onnx.Op("Reshape", "projected apart", "parts"))
		turned("parts", "first", 2, 0, 1, 3)
		for i, name := range []string{"q", "k", "v"} {
			at, end := string('0'+rune(i)), int64(i+1)*e
			if end == 3*e {
				end = math.MaxInt64 // x[a:]
			}
			g.Inits = append(g.Inits, onnx.Tensor{Name: "at" + at, DType: onnxload.Int64, Typed: []int64{int64(i)}},
				onnx.Int64s("from"+at, int64(i)*e), onnx.Int64s("to"+at, end))
			if own {
				add(onnx.Op("Slice", "projected from"+at+" to"+at+" last step", name))
			} else {
				add(onnx.Op("Gather", "first at"+at, name, onnx.A("axis", int64(0))))
			}
			add(onnx.Op("Reshape", name+" heads", name+"h"))
			turned(name+"h", name+"t", 1, 2, 0, 3)
		}
		add(onnx.Op("Attention", "qt kt vt", "attended"))
		turned("attended", "joined", 2, 0, 1, 3)
		add(onnx.Op("Reshape", "joined flat", "f"), onnx.Op("MatMul", "f out.weight", "o"), onnx.Op("Add", "out.bias o", "s"))
		turned("s", "y", 1, 0, 2)
		p, err := recovertest.RecoveredAt(23, g, false)
		must.OK(t, err)
		calls := recovertest.CallsOf(p)
		if fast := strings.Contains(calls, "linear(x, in.weight"); fast == own {
			t.Errorf("a program's own: %v; runs on the fast path: %v\n%s", own, fast, calls)
		}
	}
}

// A Fourier transform of several dimensions is one call, of a tensor that is made complex, or from and to real numbers.
func TestFourierTransform(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("one", 1).Scalar(), onnx.Int64s("two", 2).Scalar(), onnx.Int64s("last", -1),
		onnx.Int64s("from", 0), onnx.Int64s("end", 1), onnx.Int64s("stop", 2), onnx.Int64s("n", 8).Scalar(),
		onnx.Int64s("to", 2, 4, 8, 1), recovertest.F32s("zero", 0), recovertest.F32s("half", 0.5)}
	nodes := func(fill, between string) []onnx.Node {
		return []onnx.Node{onnx.Op("Unsqueeze", "x last", "u"), onnx.Op("Expand", fill+" to", "z"),
			onnx.Op("Concat", "u z", "c", onnx.A("axis", -1)),
			onnx.Op("DFT", "c - two", between), onnx.Op("DFT", between+" - one", "f"), onnx.Op("Neg", "f", "y")}
	}
	one, back := onnx.A("onesided", 1), onnx.A("inverse", 1)
	parts := func(x, re, im string) []onnx.Node {
		return []onnx.Node{onnx.Op("Slice", x+" from end last", re), onnx.Op("Slice", x+" end stop last", im)}
	}
	spectrum := []onnx.Node{onnx.Op("Unsqueeze", "x last", "u"), onnx.Op("DFT", "u - two", "val_1", one),
		onnx.Op("Mul", "val_1 half", "val_2"), onnx.Op("DFT", "val_2 - one", "f")}
	signal := []onnx.Node{onnx.Op("DFT", "p - one", "val_8", back), onnx.Op("DFT", "val_8 n two", "val_9", one, back),
		onnx.Op("Slice", "val_9 from end last", "val_10"), onnx.Op("Squeeze", "val_10 last", "y")}
	times := slices.Concat(spectrum, []onnx.Node{onnx.Op("Sin", "f", "g")}, parts("f", "a", "b"), parts("g", "c", "d"),
		[]onnx.Node{onnx.Op("Mul", "a c", "ac"), onnx.Op("Mul", "b d", "bd"), onnx.Op("Mul", "a d", "ad"),
			onnx.Op("Mul", "b c", "bc"), onnx.Op("Sub", "ac bd", "val_6"), onnx.Op("Add", "ad bc", "val_7"),
			onnx.Op("Concat", "val_6 val_7", "p", onnx.A("axis", -1))}, signal)
	runPatterns(t, []patternCase{
		{name: "fft2", inits: inits, nodes: nodes("zero", "val_5"), want: []string{"to_complex(x)", "fft(_)", "neg(f)"}},
		{name: "two calls", inits: inits, nodes: nodes("zero", "d"),
			want: []string{"to_complex(x)", "fft(_)", "fft(d)", "neg(f)"}},
		{name: "rfft2 and irfft2", inits: inits, nodes: times,
			want: []string{"fft_r2c(x)", "sin(f)", "mul(f, g)", "fft_c2r(p)"}},
	})
	p := mustRecover(t, patternCase{inits: inits, nodes: nodes("half", "val_5")}.graph())
	if s := recovertest.CallsOf(p); strings.Contains(s, "to_complex(") {
		t.Errorf("a tensor with an imaginary part of its own:\n%s", s)
	}
}

// ONNX's InstanceNormalization always has a scale and a bias: constants where the module has none.
func TestInstanceNormWithoutParameters(t *testing.T) {
	g := onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 4, 8, 4)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{onnx.Bare("norm.weight", onnxload.Float32, 4), onnx.Bare("norm.bias", onnxload.Float32, 4)},
		Nodes: []onnx.Node{
			onnx.Op("Constant", "", "ones", onnx.A("value", onnx.Float32s("", 1, 1, 1, 1))), onnx.Op("Constant", "", "zeros",
				onnx.A("value", onnx.Float32s("", 0, 0, 0, 0))),
			onnx.Op("InstanceNormalization", "x ones zeros", "plain"), onnx.Op("InstanceNormalization",
				"plain norm.weight norm.bias", "y"),
		},
	}
	wantCalls(t, mustRecover(t, g), "instance_norm(x, -, -)", "instance_norm(plain, norm.weight, norm.bias)")
}

// GroupNormalization of opset 18 to 20 has a scale and a bias for each group, which no module of PyTorch has.
func TestGroupNormOfGroups(t *testing.T) {
	for _, tt := range []struct {
		name  string
		count int64 // of scales and biases
		want  []string
	}{
		{"channels", 4, []string{"group_norm(x, n.weight, n.bias)"}},
		{"groups", 2, []string{"group_norm(x, -, -)", "reshape(_)", "reshape(n.weight)", "mul(_, _)",
			"reshape(n.bias)", "add(_, _)", "reshape(_)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := onnx.Graph{
				In: []onnx.Value{onnx.Float("x", 2, 4, 8, 4)}, Out: []onnx.Value{{Name: "y"}},
				Inits: []onnx.Tensor{onnx.Bare("n.weight", onnxload.Float32, tt.count),
					onnx.Bare("n.bias", onnxload.Float32, tt.count)},
				Nodes: []onnx.Node{onnx.Op("GroupNormalization", "x n.weight n.bias", "y", onnx.A("num_groups", 2))},
			}
			wantCalls(t, mustRecover(t, g), tt.want...)
		})
	}
}

// Stochastic depth is there in a training step only, as dropout is; other random numbers always are.
func TestStochasticDepth(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("row", 2, 1, 1), recovertest.F32s("rate", 0.9), recovertest.F32s("one", 1),
		recovertest.Weights("fc.weight", 8, 8)}
	draw := []onnx.Node{onnx.Op("MatMul", "x fc.weight", "m"), onnx.Op("ConstantOfShape", "row", "c"),
		onnx.Op("RandomUniformLike", "c", "r")}
	for _, c := range []struct {
		name         string
		nodes        []onnx.Node
		train, infer []string
	}{
		{"TorchScript", []onnx.Node{onnx.Op("Less", "r rate", "l"),
			onnx.Op("Cast", "l", "f", onnx.A("to", int64(onnxload.Float32))), onnx.Op("Div", "f rate", "d"),
			onnx.Op("Mul", "m d", "n"), onnx.Op("Add", "x n", "y")},
			[]string{"feature_dropout(m)", "add(x, n)"}, []string{"dropout(m)", "add(x, n)"}},
		{"rounded down", []onnx.Node{onnx.Op("Add", "r rate", "a"), onnx.Op("Floor", "a", "f"), onnx.Op("Mul", "f m", "y")},
			[]string{"feature_dropout(m)"}, []string{"dropout(m)"}},
		{"noise that is not zeros and ones", []onnx.Node{onnx.Op("Mul", "m r", "y")},
			[]string{"fill()", "mul(m, r)"}, []string{"fill()", "mul(m, r)"}},
		{"noise that is used twice", []onnx.Node{onnx.Op("Floor", "r", "f"), onnx.Op("Mul", "m f", "n"),
			onnx.Op("Add", "n f", "y")},
			[]string{"fill()", "floor(r)", "mul(m, f)", "add(n, f)"}, []string{"fill()", "floor(r)", "mul(m, f)", "add(n, f)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := patternCase{inits: inits, nodes: append(draw[:len(draw):len(draw)], c.nodes...)}.graph()
			for _, train := range []bool{true, false} {
				p, err := recovertest.RecoveredFor(g, train)
				must.OK(t, err)
				want := c.infer
				if train {
					want = c.train
				}
				wantCalls(t, p, append([]string{"linear(x, fc.weight, -)"}, want...)...)
			}
		})
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
		{name: "a cast behind in torch.export", nodes: []onnx.Node{turn, exported, up("p", "q"), times("q")},
			want: []string{"permute(x)", "softmax(x)", "to(p)", "matmul(q, v)"}},
	})
}
