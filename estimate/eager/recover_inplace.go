package eager

import (
	"slices"
	"strings"

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
	for i := range line.statements {
		st := &line.statements[i]
		switch method := st.kind == bare && st.inplace && !line.open; {
		case st.kind == augment && st.op == sign || method:
			x, y := b.in(n, 0), n.Out[0]
			last := !slices.ContainsFunc(b.usesOf(y), func(u int32) bool {
				return b.nodes[u].Stack == n.Stack && b.nodes[u].Op == n.Op && b.in(b.nodes[u], 0) != b.id(y)
			})
			return last && b.made[x] >= 0 && slices.Equal(b.dims(x), b.dims(y)) && b.elem(x) == b.elem(y), true
		case len(line.statements) == 1 && !line.open && st.ops > 0 && len(st.sites) == 0 && (st.kind == binding || st.kind == returns):
			return false, true
		}
	}
	return false, false
}

// lineOf returns the innermost line that made a node, nil when that is unknown.
func (b *recovery) lineOf(n *onnxload.Node) *sourceLine {
	s := b.prog.sources
	if s.modules(n.Stack) == 0 || s.rep[n.Stack-1] != n.Stack {
		return nil
	}
	return s.lines[n.Stack-1]
}

// activatesInPlace reports whether the source says that a function of activation writes over its argument: F.relu(x, inplace=True) and
// x.relu_() do, F.relu(x) does not. known is false where the line says it by a variable, as modules do: F.relu(input, inplace=self.inplace).
func (b *recovery) activatesInPlace(n *onnxload.Node) (yes, known bool) {
	line := b.lineOf(n)
	if line == nil || len(line.statements) != 1 || line.open {
		return false, false
	}
	st, text := &line.statements[0], b.prog.sources.frames[n.Stack-1].Source
	switch {
	case st.flag:
		return false, false
	case st.inplace:
		return true, true
	}
	return false, !strings.Contains(text, "inplace") && strings.Contains(text, activationNames[n.Op]) && activationNames[n.Op] != ""
}

// activationNames are the functions that are exported as these operators.
var activationNames = map[string]string{"Relu": "relu(", "HardSwish": "hardswish(", "LeakyRelu": "leaky_relu(", "Elu": "elu(", "Clip": "relu6("}
