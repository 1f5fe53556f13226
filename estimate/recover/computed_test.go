package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// What the exporter computed, the program computes where it first reads it: once, where views of the same are read
// again. A view of a buffer, and what no exporter says to have computed, are not computed.
func TestComputedConstants(t *testing.T) {
	folded := func(name, from string) onnx.Value {
		v := onnx.Float(name, 2, 4, 8)
		if from != "" {
			v.Meta = []onnxload.Entry{{Key: "pkg.onnxscript.optimizer.folded_from", Value: from}}
		}
		return v
	}
	twice := func(first, second string) []onnx.Node {
		return []onnx.Node{onnx.Op("Exp", "x", "e"), onnx.Op("Add", "e "+first, "a"), onnx.Op("Mul", "a "+second, "y")}
	}
	for _, c := range []struct {
		name          string
		first, second onnx.Value
		want          []string
	}{
		{"two", folded("embedding_1", "['m.types.weight', 'zeros']"), folded("embedding_2", "['m.types.weight', 'zeros']"),
			[]string{"exp(x)", "fill()", "add(e, _)", "fill()", "mul(a, _)"}},
		{"views of one", folded("unsqueeze_3", "['arange', 'cos']"), folded("unsqueeze_7", "['arange', 'cos']"),
			[]string{"exp(x)", "fill()", "add(e, _)", "mul(a, _)"}},
		{"views of two", folded("unsqueeze_3", "['arange', 'cos']"), folded("unsqueeze_7", "['arange', 'sin']"),
			[]string{"exp(x)", "fill()", "add(e, _)", "fill()", "mul(a, _)"}},
		{"views of a buffer", folded("unsqueeze_3", "['m.mask', 'slice_1', 'val_4']"), folded("slice_2", "['m.mask']"),
			[]string{"exp(x)", "add(e, unsqueeze_3)", "mul(a, slice_2)"}},
		{"a weight laid otherwise, and one of the file's own", folded("val_3", "['m.weight']"), folded("embedding_1", ""),
			[]string{"exp(x)", "add(e, val_3)", "mul(a, embedding_1)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantCalls(t, mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)},
				Out: []onnx.Value{{Name: "y"}}, Nodes: twice(c.first.Name, c.second.Name),
				Inits: []onnx.Tensor{onnx.Bare(c.first.Name, onnxload.Float32, 2, 4, 8),
					onnx.Bare(c.second.Name, onnxload.Float32, 2, 4, 8)},
				Infos: []onnx.Value{c.first, c.second}}), c.want...)
		})
	}
}

// Views of one that are of other sizes are others, be it in their first dimension alone.
func TestComputedConstantsOfOtherSizes(t *testing.T) {
	g := onnx.Graph{In: []onnx.Value{onnx.Float("x", 6, 2, 4, 8, 3)}, Out: []onnx.Value{{Name: "y"}}}
	for rows, name := range map[int64]string{2: "unsqueeze_3", 3: "unsqueeze_7"} {
		v := onnx.Float(name, rows, 2, 4, 8, 3)
		v.Meta = []onnxload.Entry{{Key: "pkg.onnxscript.optimizer.folded_from", Value: "['arange', 'cos']"}}
		g.Infos = append(g.Infos, v)
		g.Inits = append(g.Inits, onnx.Bare(name, onnxload.Float32, rows, 2, 4, 8, 3))
	}
	g.Nodes = []onnx.Node{onnx.Op("Concat", "x unsqueeze_3 unsqueeze_7", "y", onnx.A("axis", int64(0)))}
	wantCalls(t, mustRecover(t, g), "fill()", "fill()", "cat(x, _, _)")
}

// What is computed of a parameter has a gradient, though the file has the parameter's name alone.
func TestComputedOfParameters(t *testing.T) {
	grid := onnx.Float("expand_1", 2, 4, 8)
	grid.Meta = []onnxload.Entry{{Key: "pkg.onnxscript.optimizer.folded_from", Value: "['sin', 'cos', 'm.angle']"}}
	graph := onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{onnx.Bare("expand_1", onnxload.Float32, 2, 4, 8)}, Infos: []onnx.Value{grid},
		Nodes: []onnx.Node{from(onnx.Op("Sub", "x expand_1", "d"), "m.py:1 d = x - self.grid()"), onnx.Op("Exp", "d", "y")}}
	for kind, want := range map[string][]string{
		"PARAMETER": {"fill()", "add(_, m.angle) in place", "sub(x, _)", "exp(d)"},
		"BUFFER":    {"fill()", "sub(x, _)", "exp(d)"},
	} {
		graph.Meta = []onnxload.Entry{{Key: "pkg.torch.export.ExportedProgram.graph_signature",
			Value: "\n# inputs\np_m_angle: " + kind + " target='m.angle'\nx: USER_INPUT\n"}}
		p := mustRecover(t, graph)
		wantCalls(t, p, want...)
		for i := range p.Calls[:len(want)-2] {
			if p.Calls[i].Stack != 0 {
				t.Errorf("%s: %s has the line of what reads it", kind, p.Calls[i].Op)
			}
		}
	}
}

// The weight of Gemma's norm is a difference from one, also where the exporter computed the sum.
func TestComputedShift(t *testing.T) {
	sum := onnx.Float("add_1", 8)
	sum.Meta = []onnxload.Entry{{Key: "pkg.onnxscript.optimizer.folded_from", Value: "['m.norm.weight', 'val_3']"}}
	p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-5), onnx.Int64s("axes", -1),
			onnx.Bare("add_1", onnxload.Float32, 8)}, Infos: []onnx.Value{sum},
		Nodes: []onnx.Node{onnx.Op("Pow", "x two", "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"), onnx.Op("Reciprocal", "r", "i"),
			onnx.Op("Mul", "x i", "n"), onnx.Op("Mul", "n add_1", "y")}})
	wantCalls(t, p, "float(x)", "square(_)", "mean(_)", "add(_, number)", "rsqrt(_)", "mul(_, _)", "float(add_1)",
		"add(_, number)", "mul(_, _)", "type_as(_, x)")
}

// The mean square is of the dimension that the file names, which need not be the last: of channels before time.
func TestNormOfChannels(t *testing.T) {
	p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)}, Out: []onnx.Value{{Name: "type_as"}},
		Inits: []onnx.Tensor{recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-5), onnx.Int64s("axes", -2)},
		Nodes: []onnx.Node{onnx.Op("Pow", "x two", "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"), onnx.Op("Reciprocal", "r", "i"),
			onnx.Op("Mul", "x i", "type_as")}})
	wantCalls(t, p, "float(x)", "square(_)", "mean(_)", "add(_, number)", "rsqrt(_)", "mul(_, _)", "type_as(_, x)")
	if dims := p.Calls[2].Args.Dims; len(dims) != 1 || dims[0] != 1 {
		t.Errorf("the mean is over dimensions %v, want 1 alone", dims)
	}
}

// What is computed so is a value of a program like others, though no call is given anything that makes it.
func TestProductOfComputed(t *testing.T) {
	cos := onnx.Float("cos_1", 2, 8, 4)
	cos.Meta = []onnxload.Entry{{Key: "pkg.onnxscript.optimizer.folded_from", Value: "['arange']"}}
	wantEnds(t, mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{onnx.Bare("cos_1", onnxload.Float32, 2, 8, 4)}, Infos: []onnx.Value{cos},
		Nodes: []onnx.Node{onnx.Op("Exp", "x", "e"), onnx.Op("MatMul", "e cos_1", "p"), onnx.Op("Neg", "p", "y")}}),
		"p after neg(p)", "e after neg(p)")
}
