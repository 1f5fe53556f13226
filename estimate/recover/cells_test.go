package recover_test

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The steps of nn.LSTMCell and nn.GRUCell, as exporters write them, are one kernel on a GPU. What has other names, or
// whose gates somebody reads, is a program's own.
func TestCells(t *testing.T) {
	weights := func(ih, hh string, gates int64) []onnx.Tensor {
		return []onnx.Tensor{recovertest.Weights(ih, gates*3, 8), recovertest.Weights(hh, gates*3, 3),
			recovertest.Weights("c.bias_ih", gates*3), recovertest.Weights("c.bias_hh", gates*3),
			onnx.Int64s("thirds", 3, 3, 3), onnx.Int64s("fourths", 3, 3, 3, 3), onnx.Int64s("from", 0),
			onnx.Int64s("to", 3), onnx.Int64s("axis", 1)}
	}
	state := onnx.Op("Slice", "x from to axis", "h")
	op := func(op, in, out string, attrs ...onnx.Attr) onnx.Node {
		return onnx.Op(op, in, out, attrs...).Named("c:" + op)
	}
	split := func(in, sizes, out string) onnx.Node { return op("Split", in+" "+sizes, out, onnx.A("axis", 1)) }
	lstm := func(ih, hh, last string) []onnx.Node {
		return []onnx.Node{state, op("Gemm", "h "+hh+" c.bias_hh", "b", onnx.A("transB", 1)),
			op("Gemm", "x "+ih+" c.bias_ih", "a", onnx.A("transB", 1)), op("Add", "b a", "s"),
			split("s", "fourths", "i f g o"), op("Sigmoid", "i", "si"), op("Sigmoid", "f", "sf"), op("Tanh", "g", "tg"),
			op("Sigmoid", "o", "so"), op("Mul", "sf h", "m"), op("Mul", "si tg", "n"), op("Add", "m n", "cy"),
			op("Tanh", "cy", "tc"), op("Mul", "so tc", "hy"), onnx.Op("Add", "hy "+last, "y")}
	}
	gru := []onnx.Node{state, op("Gemm", "x c.weight_ih c.bias_ih", "a", onnx.A("transB", 1)),
		split("a", "thirds", "ar az an"), op("Gemm", "h c.weight_hh c.bias_hh", "b", onnx.A("transB", 1)),
		split("b", "thirds", "br bz bn"), op("Add", "br ar", "r"), op("Sigmoid", "r", "sr"), op("Add", "bz az", "z"),
		op("Sigmoid", "z", "sz"), op("Mul", "bn sr", "m"), op("Add", "an m", "s"), op("Tanh", "s", "n"),
		op("Sub", "h n", "d"), op("Mul", "d sz", "p"), op("Add", "p n", "hy"), onnx.Op("Neg", "hy", "y")}
	shape := []any{2, 8}
	steps := func(ih, hh, last string) []string {
		return []string{"slice(x)", "linear(h, " + hh + ", c.bias_hh)", "linear(x, " + ih + ", c.bias_ih)", "add(b, a)",
			"split(s)", "sigmoid(i)", "sigmoid(f)", "tanh(g)", "sigmoid(o)", "mul(sf, h)", "mul(si, tg)", "add(m, n)",
			"tanh(cy)", "mul(so, tc)", "add(hy, " + last + ")"}
	}
	fused := []string{"slice(x)", "linear(x, c.weight_ih)", "linear(h, c.weight_hh)"}
	runPatterns(t, []patternCase{
		{name: "LSTM", shape: shape, inits: weights("c.weight_ih", "c.weight_hh", 4),
			nodes: lstm("c.weight_ih", "c.weight_hh", "cy"),
			want:  append(slices.Clip(fused), "lstm_cell(_, _, h, c.bias_ih, c.bias_hh)", "add(hy, cy)")},
		{name: "GRU", shape: shape, inits: weights("c.weight_ih", "c.weight_hh", 3), nodes: gru,
			want: append(slices.Clip(fused), "gru_cell(_, _, h, c.bias_ih, c.bias_hh)", "neg(hy)")},
		{name: "a cell of a program's own", shape: shape, inits: weights("c.W", "c.U", 4),
			nodes: lstm("c.W", "c.U", "cy"), want: steps("c.W", "c.U", "cy")},
		{name: "a gate that is read", shape: shape, inits: weights("c.weight_ih", "c.weight_hh", 4),
			nodes: lstm("c.weight_ih", "c.weight_hh", "sf"), want: steps("c.weight_ih", "c.weight_hh", "sf")},
	})
}
