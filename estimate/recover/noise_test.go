package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

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
