package recover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A norm over the channels of a picture is no layer norm, and subtracts the mean twice unless a name keeps the
// difference.
func TestChannelNorm(t *testing.T) {
	inits := []onnx.Tensor{recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-6), onnx.Int64s("axes", 1),
		recovertest.Weights("ln.weight", 8, 1, 1)}
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
		{name: "an eps that the exporter took for zero", shape: picture, inits: inits,
			nodes: slices.Replace(norm(onnx.Op("Pow", "d two", "sq")), 4, 6, onnx.Op("Sqrt", "v", "r")),
			want: []string{"mean(x)", "sub(x, m)", "pow(d, number)", "mean(sq)", "sqrt(v)", "sub(x, m)", "div(_, r)",
				"mul(ln.weight, n)"}},
		{name: "a name", shape: picture, inits: inits, nodes: norm(onnx.Op("Mul", "d d", "sq")),
			want: []string{"mean(x)", "sub(x, m)", "mul(d, d)", "mean(sq)", "add(v, number)", "sqrt(ve)", "div(d, r)",
				"mul(ln.weight, n)"}},
	})
}

// The normalisations of older opsets.
func TestNormChains(t *testing.T) {
	consts := []onnx.Tensor{recovertest.F32s("one", 1), recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-5),
		recovertest.F32s("three", 3), onnx.Int64s("axes", -1), recovertest.Weights("ln.weight", 8),
		recovertest.Weights("ln.bias", 8)}
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
			onnx.Int64s("out", 2, 8, 6, 6), recovertest.Weights("ones", to[1]), recovertest.Weights("zeros", to[1]),
			recovertest.Weights("gn.weight", 8, 1, 1), recovertest.Weights("gn.bias", 8, 1, 1)},
			nodes: []onnx.Node{onnx.Op("Reshape", "x in", "r"), onnx.Op("InstanceNormalization", "r ones zeros", "i"),
				onnx.Op("Reshape", "i out", "b"), onnx.Op("Mul", "b gn.weight", "w"), onnx.Op("Add", "w gn.bias", "y")}}
	}
	vg := []onnx.Tensor{recovertest.Weights("v.weight", 4, 3, 3), recovertest.Weights("g.weight", 4, 1, 1),
		recovertest.Weights("v.middle", 4, 3, 3), recovertest.Weights("g.middle", 1, 3, 1)}
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
	each.shape, each.inits = []any{2, 8, 6}, append(each.inits[:4:4], recovertest.Weights("gn.weight", 8, 1),
		recovertest.Weights("gn.bias", 8, 1))
	each.nodes = append([]onnx.Node{each.nodes[0], each.nodes[1]}, onnx.Op("Mul", "i gn.weight", "w"),
		onnx.Op("Add", "w gn.bias", "y"))
	each.name, each.want = "group norm of a group for each channel, without the way back",
		[]string{"group_norm(x, gn.weight, gn.bias)"}
	groups.name, groups.want = "group norm", []string{"group_norm(x, gn.weight, gn.bias)"}
	merged := group(2, 4, -1)
	merged.shape = []any{2, 2, 4, 6, 6}
	merged.name, merged.want = "group norm of a view that an optimizer merged with its own",
		[]string{"reshape(x)", "group_norm(_, gn.weight, gn.bias)"}
	four.name, four.want = "an instance norm between reshapes", []string{"reshape(x)", "instance_norm(r, -, -)",
		"reshape(i)", "mul(b, gn.weight)", "add(w, gn.bias)"}
	runPatterns(t, []patternCase{
		{name: "layer norm", other: true, inits: consts, nodes: append(layer("two"), affine...),
			want: []string{"layer_norm(x, ln.weight, ln.bias)"}},
		{name: "layer norm without affine", other: true, inits: consts,
			nodes: append(layer("two"), onnx.Op("Neg", "n", "y")), want: []string{"layer_norm(x, -, -)", "neg(n)"}},
		{name: "layer norm of a program's own", inits: consts, nodes: append(layer("two"), affine...),
			want: []string{"mean(x)", "sub(x, m)", "pow(d, number)", "mean(sq)", "add(v, number)", "sqrt(ve)", "sub(x, m)",
				"div(_, r)", "mul(n, ln.weight)", "add(nw, ln.bias)"}},
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
		{name: "RMS norm of Llama in one line", inits: consts, nodes: rms("two", "n", from(weighted("ln.weight n"),
			"model.py:5 return self.weight * (x * torch.rsqrt(v + self.eps)).to(x.dtype)")),
			want: append(slices.Clone(upcast), "type_as(_, x)", "mul(ln.weight, _)")},
		{name: "RMS norm by a power", inits: append(slices.Clone(consts), recovertest.F32s("less", -0.5)),
			nodes: []onnx.Node{onnx.Op("Pow", "x two", "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
				onnx.Op("Add", "v eps", "ve"), onnx.Op("Pow", "ve less", "i"), onnx.Op("Mul", "x i", "n"),
				weighted("ln.weight n")},
			want: append(slices.Clone(upcast), "type_as(_, x)", "mul(ln.weight, _)")},
		{name: "RMS norm by hand", inits: consts, nodes: rms("two", "n", weighted("n ln.weight")),
			want: append(slices.Clone(plain), "mul(n, ln.weight)")},
		{name: "no RMS norm: cubes", inits: consts, nodes: rms("three", "n", weighted("ln.weight n")),
			want: append(slices.Clone(plain), "mul(ln.weight, n)")},
		groups, each, merged, four, cast,
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

// Batch norms that an export in evaluation mode folded away come back.
func TestFoldedBatchNorm(t *testing.T) {
	conv := func(w, b, out string) onnx.Graph {
		return onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 6, 6)},
			Inits: []onnx.Tensor{recovertest.Weights(w, 4, 4, 1, 1), recovertest.Weights(b, 4)},
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
			Inits: []onnx.Tensor{recovertest.Weights("layer.weight", 4, 4, 1, 1), recovertest.Weights("layer.bias", 4)},
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

// The variance of a sample is one call; what the program reads of its steps besides is the program's own.
func TestVariance(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("axes", -1), recovertest.F32s("n", 8), recovertest.F32s("less", 7),
		recovertest.F32s("eps", 1e-5)}
	steps := func(rest ...onnx.Node) []onnx.Node {
		return append([]onnx.Node{onnx.Op("ReduceMean", "x axes", "m"), onnx.Op("Sub", "x m", "d"),
			onnx.Op("Mul", "d d", "q"), onnx.Op("ReduceMean", "q axes", "v"), onnx.Op("Mul", "v n", "vn")}, rest...)
	}
	runPatterns(t, []patternCase{
		{name: "var", inits: inits, nodes: steps(onnx.Op("Div", "vn less", "s"), onnx.Op("Exp", "s", "y")),
			want: []string{"var(x)", "exp(s)"}},
		{name: "std", inits: inits, nodes: steps(onnx.Op("Div", "vn less", "s"), onnx.Op("Sqrt", "s", "r"),
			onnx.Op("Exp", "r", "y")), want: []string{"std(x)", "exp(r)"}},
		{name: "a norm", inits: inits, nodes: steps(onnx.Op("Div", "vn less", "s"), onnx.Op("Add", "s eps", "e"),
			onnx.Op("Div", "d e", "y")), want: []string{"mean(x)", "sub(x, m)", "var(x)", "add(s, number)", "div(d, e)"}},
		{name: "another number", inits: inits, nodes: steps(onnx.Op("Div", "vn n", "s"), onnx.Op("Exp", "s", "y")),
			want: []string{"var(x)", "mul(v, number)", "div(vn, number)", "exp(s)"}}, // of a population
		{name: "a difference that is read again", inits: inits, nodes: steps(onnx.Op("Div", "vn n", "s"),
			onnx.Op("Div", "d s", "y")), want: []string{"mean(x)", "sub(x, m)", "mul(d, d)", "mean(q)", "mul(v, number)",
			"div(vn, number)", "div(d, s)"}},
		{name: "a mean of torch.export's name", inits: inits, nodes: []onnx.Node{onnx.Op("ReduceMean", "x axes", "mean"),
			onnx.Op("Sub", "x mean", "d"), onnx.Op("Mul", "d d", "q"), onnx.Op("ReduceMean", "q axes", "mean_1"),
			onnx.Op("Exp", "mean_1", "y")}, want: []string{"mean(x)", "sub(x, mean)", "mul(d, d)", "mean(q)", "exp(mean_1)"}},
	})
}

// An instance norm of groups whose result a program lays flat is no group norm.
func TestFlatGroups(t *testing.T) {
	runPatterns(t, []patternCase{{name: "flat", shape: []any{2, 8, 6, 6},
		inits: []onnx.Tensor{onnx.Int64s("in", 2, 2, 144), onnx.Int64s("out", 576), recovertest.Weights("ones", 2),
			recovertest.Weights("zeros", 2), recovertest.Weights("gn.weight", 576)},
		nodes: []onnx.Node{onnx.Op("Reshape", "x in", "r"), onnx.Op("InstanceNormalization", "r ones zeros", "i"),
			onnx.Op("Reshape", "i out", "f"), onnx.Op("Mul", "f gn.weight", "y")},
		want: []string{"reshape(x)", "instance_norm(r, -, -)", "reshape(i)", "mul(f, gn.weight)"}}})
}
