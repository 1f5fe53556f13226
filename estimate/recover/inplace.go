package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// saysInPlace reports whether the source says that a node of two arguments writes over its first: x += y does, z = x
// + y does not. known is false where no line is known, or where it is but a part of what is computed.
func (b *recovery) saysInPlace(n *onnxload.Node, sign string) (yes, known bool) {
	s := b.lineOf(n)
	switch {
	case s == nil:
		return false, false
	case s.Kind == program.Augment && s.Sign == sign, s.Kind == program.Bare && s.Inplace && !s.Open:
		x, y := b.in(n, 0), n.Output(0)
		last := !slices.ContainsFunc(b.usesOf(y), func(u int32) bool {
			return b.nodes[u].Stack == n.Stack && b.nodes[u].Op == n.Op && b.in(b.nodes[u], 0) != b.id(y)
		})
		return last && b.made[x] >= 0 && slices.Equal(b.dims(x), b.dims(y)) && b.elem(x) == b.elem(y), true
	}
	return false, !s.Open && s.Ops > 0 && len(s.Calls) == 0 && (s.Kind == program.Binding || s.Kind == program.Returns)
}

// lineOf returns what the innermost line says that made a node, nil when that is unknown.
func (b *recovery) lineOf(n *onnxload.Node) *program.Statement {
	if b.prog.Lines.Modules(n.Stack) == 0 || b.prog.Lines[n.Stack-1].Forward != n.Stack {
		return nil
	}
	return b.prog.Lines[n.Stack-1].Says
}

// activatesInPlace reports whether the source says that a function of activation writes over its argument: F.relu(x,
// inplace=True) and x.relu_() do, F.relu(x) does not. Where the line says it by a variable, as modules do, F.relu(
// input, inplace=self.inplace), known is false.
func (b *recovery) activatesInPlace(n *onnxload.Node, call string) (yes, known bool) {
	s := b.lineOf(n)
	switch {
	case s == nil || s.Open:
		return false, false
	case s.Inplace:
		return true, true
	}
	text := b.prog.Lines[n.Stack-1].Source
	return false, !strings.Contains(text, "inplace") && strings.Contains(text, call)
}

// inPlace reports whether an activation is taken to write over its argument, as
// nn.ReLU(inplace=True) does. ONNX does not keep the flag. Vision models set it
// nearly everywhere after a convolution or a normalisation, whose outputs nothing
// else needs; models of linear layers do not.
func (b *recovery) inPlace(n *onnxload.Node, call string) bool {
	if yes, known := b.activatesInPlace(n, call); known {
		return yes
	}
	if p, _ := b.producer(b.in(n, 0)); p != nil && p.Op == "Add" {
		after := n.Op == "LeakyRelu" && b.lastIs("group_norm", b.value(b.in(n, 0)))
		return (after || n.Op == "Relu" && len(b.dims(n.Output(0))) > 3) && b.single(b.in(n, 0)) &&
			b.guess(activationInPlace)
	}
	return !b.ofFunction(b.in(n, 0)) && !b.ofSequential(n) && b.inPlaceAfter(b.in(n, 0), 1)
}

// ofSequential reports whether a LeakyReLU is a member of a Sequential and reads a batch norm: those keep
// nn.LeakyReLU's default, inplace=False. Blocks that have a name for it write over the norm's result, as with ReLU.
// Members have numbers, or, where add_module gave them names, the number of their Sequential at the end.
func (b *recovery) ofSequential(n *onnxload.Node) bool {
	norm, _ := b.producer(b.in(n, 0))
	if n.Op != "LeakyRelu" || norm == nil || norm.Op != "BatchNormalization" {
		return false
	}
	around, name := "", b.places[b.at].Module
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		around, name = name[:i], name[i+1:]
	}
	number := name[strings.LastIndexByte(name, '_')+1:]
	return number != "" && strings.Trim(number, "0123456789") == "" &&
		(number == name || number == around[strings.LastIndexByte(around, '.')+1:])
}

// inPlaceAfter reports whether a value that only these reads use comes from a convolution or a
// normalisation of one.
func (b *recovery) inPlaceAfter(x onnxload.ValueID, reads int) bool {
	if p, _ := b.producer(x); p != nil && len(b.usesOf(b.id(x))) == reads && !b.out[b.id(x)] && len(b.dims(x)) > 0 {
		switch p.Op {
		case "Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization":
			return b.guess(activationInPlace)
		}
	}
	return false
}

// lastIs reports whether an operator made a value in one of the last calls.
func (b *recovery) lastIs(op string, v program.ValueID) bool {
	calls := b.prog.Calls
	for i := len(calls) - 1; i >= max(0, len(calls)-8); i-- {
		if slices.Contains(calls[i].Out, v) {
			return calls[i].Op == op
		}
	}
	return false
}

// ofFunction reports whether what the current node reads is the result of a convolution's module that its own module
// called: F.relu(self.conv(x)), which is not in place by default, where modules of activations are most often made
// with inplace=True. After a batch norm both are common, F.relu(self.bn(x), inplace=True) in torchvision's Inception:
// those stay in place.
func (b *recovery) ofFunction(x onnxload.ValueID) bool {
	conv, i := b.producer(x)
	if conv == nil || conv.Op != "Conv" && conv.Op != "ConvTranspose" || b.isFolded(conv) || b.places[b.at].Cut {
		return false
	}
	inner, outer := b.places[i].Module, b.places[b.at].Module
	return inner != "" && (outer == "" || strings.HasPrefix(inner, outer+"."))
}
