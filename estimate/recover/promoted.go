package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/dialect"
	"github.com/memestimate/memestimate/onnxload"
)

// operands are what arithmetic of two tensors reads. PyTorch multiplies floats by a mask, or by whole numbers, as these
// are (c10/core/ScalarType.cpp, promoteTypes): the result is of the floats' type, which is bfloat16 under autocast, and
// the mask is what is saved. ONNX has no such operator, so that exporters cast the mask first.
func (b *recovery) operands(n *onnxload.Node) []program.ValueID {
	in := b.values(n)
	if len(in) != 2 {
		return in
	}
	for k := range in {
		id := b.in(n, k)
		if c := b.promoted(id, b.in(n, 1-k)); c != nil && in[k] == b.value(id) && b.isPromotion(c, n) {
			in[k] = b.value(b.in(c, 0))
		}
	}
	return in
}

// promoted returns the cast of what are no floats to the type of the floats that they are computed with, nil for none.
func (b *recovery) promoted(id, floats onnxload.ValueID) *onnxload.Node {
	if id == onnxload.NoValue || floats == onnxload.NoValue || b.host[id] {
		return nil
	}
	c, _ := b.producedBy(id, "Cast")
	if c == nil || b.elem(b.in(c, 0)).IsFloat() || !b.elem(id).IsFloat() || b.elem(floats) != b.elem(id) ||
		len(b.dims(floats)) == 0 || b.host[b.in(c, 0)] {
		return nil
	}
	if other, _ := b.producedBy(floats, "Cast"); other != nil && !b.elem(b.in(other, 0)).IsFloat() {
		return nil
	}
	return c
}

// isPromotion reports whether a cast is the exporter's, and not the program's mask.float(). torch.export's translation
// says which operator it is of. TorchScript's exporter puts its own right before the node that it is for, one for each,
// when it has merged those of the program that are equal (_jit_pass_cse in its utils.py, and ScalarTypeAnalysisForONNX
// after it): of two casts of one mask one at most is the program's. A single one may be either.
func (b *recovery) isPromotion(c, n *onnxload.Node) bool {
	if from := c.MetaValue("namespace"); from != "" {
		return strings.HasSuffix(from, ": prims.convert_element_type.default")
	}
	if !b.byPyTorch() || b.at == 0 || b.nodes[b.at-1] != c || b.nodes[b.at] != n || !b.single(c.Output(0)) {
		return false
	}
	mask := b.in(c, 0)
	return b.castsTo(mask, b.elem(c.Output(0))) > 1 || b.elem(mask) == program.Bool && b.guess(dialect.PromotedMask)
}

// A castTo is a value and a type.
type castTo struct {
	value onnxload.ValueID
	dtype program.DType
}

// castsTo returns how many nodes cast a value to a type, which it counts once.
func (b *recovery) castsTo(id onnxload.ValueID, dtype program.DType) int {
	n, counted := b.casts[castTo{id, dtype}]
	if !counted {
		b.users(id, "Cast", func(u *onnxload.Node, _ int) {
			if b.elem(u.Output(0)) == dtype {
				n++
			}
		})
		b.casts[castTo{id, dtype}] = n
	}
	return n
}
