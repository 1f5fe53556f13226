package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchBaddbmm finds baddbmm(input, batch1, batch2, beta, alpha), which the exporters write as a product of stacks of
// matrices times alpha, and input times beta added to it; torch.export leaves a factor of one out.
func matchBaddbmm(b *recovery, i int) {
	mm := b.nodes[i]
	members := []int{i}
	scale, si := b.user(mm.Output(0), "Mul")
	if scale == nil || len(b.dims(b.in(mm, 0))) != 3 || len(b.dims(b.in(mm, 1))) != 3 {
		return
	}
	y, alpha := b.otherThanNumber(scale)
	if y == onnxload.NoValue || b.id(y) != b.id(mm.Output(0)) {
		return
	}
	add, ai := b.user(scale.Output(0), "Add")
	if add == nil || b.in(add, 0) != b.id(scale.Output(0)) {
		return // the exporters put the product first
	}
	input := b.in(add, 1)
	members = append(members, si, ai)
	if beta, bi := b.producedBy(input, "Mul"); beta != nil && b.single(input) {
		if y, _ := b.otherThanNumber(beta); y != onnxload.NoValue {
			input, members = y, append(members, bi)
		}
	} else if !strings.HasPrefix(b.m.NameOf(add.Output(0)), "baddbmm") {
		return
	}
	if b.host[b.id(input)] || len(b.dims(input)) != 3 || !program.Broadcasts(b.dims(input), b.dims(add.Output(0))) {
		return
	}
	b.claim(func() {
		b.call("baddbmm", program.Args{P: alpha}, []program.ValueID{b.value(input), b.value(b.in(mm, 0)), b.value(b.in(mm, 1))},
			add.Output(0))
	}, members...)
}
