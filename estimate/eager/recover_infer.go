package eager

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// inferenceOnly says by what a graph shows that it was made for inference; "" when nothing does. Its
// training step is not that of the model it came from.
func (b *recovery) inferenceOnly() string {
	var why []string
	say := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(why, s) {
			why = append(why, s)
		}
	}
	for _, n := range b.nodes {
		switch {
		case isQuantized(n.Op):
			say("quantized arithmetic (%s)", n.Op)
		case n.Domain == contribDomain:
			say("operators that ONNX Runtime fused (%s)", n.Op)
		}
		if n.Op == "Concat" && n.Domain == "" && b.isCache(n) {
			say("keys and values of earlier tokens among its inputs")
		}
		if len(why) == 3 {
			break
		}
	}
	return strings.Join(why, ", ")
}

func isQuantized(op string) bool {
	switch op {
	case "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "MatMulNBits", "QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul":
		return true
	}
	return strings.HasPrefix(op, "QLinear")
}

// isCache reports whether a Concat puts something behind an input of the graph, and the whole is a
// result of the graph: so a decoder carries its keys and values from call to call.
func (b *recovery) isCache(n *onnxload.Node) bool {
	first := b.in(n, 0)
	return len(n.In) == 2 && b.isTensor(first) && b.out[b.id(n.Out[0])] && b.elem(first).IsFloat() && len(b.dims(first)) >= 3 && slices.Contains(b.m.Graph.Inputs, first)
}
