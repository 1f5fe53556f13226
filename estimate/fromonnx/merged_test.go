package fromonnx_test

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A product of parameters that every iteration of a loop makes is exported once, where the first makes it. One that
// stands before the loop is made once.
func TestMergedCalls(t *testing.T) {
	mm := func(x, w, y string) onnx.Node { return onnx.Op("MatMul", x+" "+w, y) }
	step := func(h, y string, keys ...onnx.Node) []onnx.Node {
		return append(append([]onnx.Node{mm(h, "q.w", "q"+y)}, keys...), onnx.Op("Add", "q"+y+" k", "s"+y),
			onnx.Op("Tanh", "s"+y, "t"+y), mm("t"+y, "o.w", y))
	}
	loop := func(keys ...onnx.Node) []onnx.Node {
		return append(append(step("x", "a", keys...), step("a", "b")...), step("b", "y")...)
	}
	inits := []onnx.Tensor{onnx.Bare("q.w", onnxload.Float32, 8, 8), onnx.Bare("k.w", onnxload.Float32, 8, 8),
		onnx.Bare("o.w", onnxload.Float32, 8, 8)}
	calls := func(first string, keys ...string) (list []string) {
		for i, name := range []string{"a", "b", "y"} {
			list = append(list, "linear("+[]string{"x", "a", "b"}[i]+", q.w, -)")
			if i == 0 && first != "" {
				list = append(list, first)
			} else if i < len(keys) {
				list = append(list, keys[i])
			}
			list = append(list, "add(q"+name+", k)", "tanh(s"+name+")", "linear(t"+name+", o.w, -)")
		}
		return list
	}
	key := "linear(x, k.w, -)"
	runPatterns(t, []patternCase{
		{name: "in the loop", inits: inits, nodes: loop(mm("x", "k.w", "k")), want: calls(key, key, key, key)},
		{name: "two in a row", inits: inits, nodes: loop(mm("x", "k.w", "n"), onnx.Op("Relu", "n", "k")),
			want: calls(key+"\nrelu(n)", "", key+"\nrelu(n)", key+"\nrelu(n)")},
		{name: "before the loop", inits: inits, nodes: append([]onnx.Node{mm("x", "k.w", "k")}, loop()...),
			want: append([]string{key}, calls("")...)},
		{name: "of what the iteration made", inits: inits, nodes: loop(mm("qa", "k.w", "k")),
			want: calls("linear(qa, k.w, -)")},
	})
}
