package fromonnx

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/pysource"
	"github.com/memestimate/memestimate/onnxload"
)

// inPlaceSigns are the signs of the operators that Python has augmented assignments of.
var inPlaceSigns = map[string]string{"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}

// saysInPlace reports whether the source says that a node of two arguments writes over its first: x += y does, z = x + y does not. known is
// false where no line is known, or where it is but a part of what is computed.
func (b *recovery) saysInPlace(n *onnxload.Node) (yes, known bool) {
	line := b.lineOf(n)
	if line == nil {
		return false, false
	}
	sign := inPlaceSigns[n.Op]
	for i := range line.Statements {
		st := &line.Statements[i]
		switch method := st.Kind == pysource.Bare && st.Inplace && !line.Open; {
		case st.Kind == pysource.Augment && st.Op == sign || method:
			x, y := b.in(n, 0), n.Out[0]
			last := !slices.ContainsFunc(b.usesOf(y), func(u int32) bool {
				return b.nodes[u].Stack == n.Stack && b.nodes[u].Op == n.Op && b.in(b.nodes[u], 0) != b.id(y)
			})
			return last && b.made[x] >= 0 && slices.Equal(b.dims(x), b.dims(y)) && b.elem(x) == b.elem(y), true
		case len(line.Statements) == 1 && !line.Open && st.Ops > 0 && len(st.Sites) == 0 && (st.Kind == pysource.Binding || st.Kind == pysource.Returns):
			return false, true
		}
	}
	return false, false
}

// lineOf returns the innermost line that made a node, nil when that is unknown.
func (b *recovery) lineOf(n *onnxload.Node) *pysource.Line {
	s := b.prog.Sources
	if s.Modules(n.Stack) == 0 || s.Forward[n.Stack-1] != n.Stack {
		return nil
	}
	return s.Lines[n.Stack-1]
}

// activatesInPlace reports whether the source says that a function of activation writes over its argument: F.relu(x, inplace=True) and
// x.relu_() do, F.relu(x) does not. known is false where the line says it by a variable, as modules do: F.relu(input, inplace=self.inplace).
func (b *recovery) activatesInPlace(n *onnxload.Node) (yes, known bool) {
	line := b.lineOf(n)
	if line == nil || len(line.Statements) != 1 || line.Open {
		return false, false
	}
	st, text := &line.Statements[0], b.prog.Sources.Frames[n.Stack-1].Source
	switch {
	case st.Flag:
		return false, false
	case st.Inplace:
		return true, true
	}
	return false, !strings.Contains(text, "inplace") && strings.Contains(text, activationNames[n.Op]) && activationNames[n.Op] != ""
}

// activationNames are the functions that are exported as these operators.
var activationNames = map[string]string{"Relu": "relu(", "HardSwish": "hardswish(", "LeakyRelu": "leaky_relu(", "Elu": "elu(", "Clip": "relu6("}
