package recover_test

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

// The numbers of torch.export's names say which calls an optimizer made one: relu_1 was another of x, which the product
// read.
func TestMissingNumbers(t *testing.T) {
	act := func(op, x, y string) onnx.Node { return onnx.Op(op, x, y) }
	product := func(last string, more ...onnx.Node) []onnx.Node {
		return append(more, act("Relu", "x", "relu"), act("Exp", "relu", "a"), onnx.Op("Mul", "a relu", "m"),
			act("Relu", "m", last), act("Neg", last, "y"))
	}
	runPatterns(t, []patternCase{
		{name: "one is missing", nodes: product("relu_2"),
			want: []string{"relu(x)", "exp(relu)", "relu(x)", "mul(a, relu)", "relu(m)", "neg(relu_2)"}},
		{name: "none is missing", nodes: product("relu_1"),
			want: []string{"relu(x)", "exp(relu)", "mul(a, relu)", "relu(m)", "neg(relu_1)"}},
		{name: "another name's numbers", nodes: product("exp_2"),
			want: []string{"relu(x)", "exp(relu)", "mul(a, relu)", "relu(m)", "neg(exp_2)"}},
		{name: "an export that was not optimized", nodes: product("relu_2", act("Identity", "x", "same")),
			want: []string{"relu(x)", "exp(relu)", "mul(a, relu)", "relu(m)", "neg(relu_2)"}},
		{name: "what only it needs", nodes: []onnx.Node{act("Sigmoid", "x", "sigmoid"), act("Tanh", "sigmoid", "tanh"),
			onnx.Op("Add", "tanh x", "s"), act("Exp", "s", "a"), onnx.Op("Mul", "a s", "m"), act("Sigmoid", "m", "sigmoid_2"),
			act("Tanh", "sigmoid_2", "tanh_2"), act("Neg", "tanh_2", "y")},
			want: []string{"sigmoid(x)", "tanh(sigmoid)", "add(tanh, x)", "exp(s)", "sigmoid(x)", "tanh(sigmoid)",
				"add(tanh, x)", "mul(a, s)", "sigmoid(m)", "tanh(sigmoid_2)", "neg(tanh_2)"}},
		{name: "what is made before it", nodes: []onnx.Node{act("Exp", "x", "e"), act("Sigmoid", "e", "sigmoid"),
			act("Sin", "sigmoid", "a"), onnx.Op("Mul", "a sigmoid", "m"), act("Sigmoid", "m", "sigmoid_2"),
			act("Neg", "sigmoid_2", "y")},
			want: []string{"exp(x)", "sigmoid(e)", "sin(sigmoid)", "sigmoid(e)", "mul(a, sigmoid)", "sigmoid(m)",
				"neg(sigmoid_2)"}},
	})
}
