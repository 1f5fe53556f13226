package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// What the TorchScript exporter writes of torch.linspace in doubles is float32, and what is computed with it; other
// doubles are the program's own.
func TestNarrow(t *testing.T) {
	cast := func(in, out string) onnx.Node { return onnx.Op("Cast", in, out, onnx.A("to", int64(onnxload.Float64))) }
	spaced := func(values ...float64) onnx.Node {
		return onnx.Op("Constant", "", "points", onnx.A("value", onnx.Float64s("", values...)))
	}
	even := spaced(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5)
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		want  program.DType
	}{
		{"linspace", []onnx.Node{even, cast("x", "d"), onnx.Op("Add", "d points", "s"), onnx.Op("Mul", "s half", "y")},
			program.Float32},
		{"uneven", []onnx.Node{spaced(0, 0.5, 1, 1.5, 2, 2.5, 3, 4), cast("x", "d"), onnx.Op("Add", "d points", "s"),
			onnx.Op("Mul", "s half", "y")}, program.Float64},
		{"doubles of the program besides", []onnx.Node{even, cast("x", "d"), onnx.Op("Exp", "d", "e"),
			onnx.Op("Add", "e points", "s"), onnx.Op("Mul", "s half", "y")}, program.Float64},
		{"no linspace", []onnx.Node{cast("x", "d"), onnx.Op("Mul", "d half", "y")}, program.Float64},
	} {
		p := mustRecover(t, patternCase{inits: []onnx.Tensor{onnx.Float64s("half", 0.5).Scalar()}, nodes: c.nodes}.graph())
		if got := p.Values[p.Outputs[0]].DType; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// torch.normal of two numbers draws into one tensor. What is drawn like a tensor and scaled by others is the program's.
func TestNormal(t *testing.T) {
	inits := []onnx.Tensor{onnx.Float64s("mean", 0).Scalar(), onnx.Float64s("deviation", 1).Scalar(),
		onnx.Int64s("size", 2, 4, 8), recovertest.F32s("two", 2)}
	drawn := func(rest ...onnx.Node) []onnx.Node {
		return append([]onnx.Node{onnx.Op("Expand", "mean size", "m"), onnx.Op("RandomNormalLike", "m", "r"),
			onnx.Op("Mul", "deviation r", "s"), onnx.Op("Add", "s m", "n")}, rest...)
	}
	runPatterns(t, []patternCase{
		{name: "normal", inits: inits, nodes: drawn(
			onnx.Op("Cast", "x", "d", onnx.A("to", int64(onnxload.Float64))), onnx.Op("Mul", "d n", "y")),
			want: []string{"fill()", "to(x)", "mul(d, n)"}},
		{name: "read before it is scaled", inits: inits, nodes: drawn(onnx.Op("Add", "n r", "y")),
			want: []string{"fill()", "expand(_)", "fill()", "mul(number, r)", "add(s, m)", "add(n, r)"}},
		{name: "like a tensor", inits: inits, nodes: []onnx.Node{onnx.Op("RandomNormalLike", "x", "r"),
			onnx.Op("Mul", "two r", "s"), onnx.Op("Add", "s x", "y")},
			want: []string{"fill()", "mul(number, r)", "add(s, x)"}},
	})
}
