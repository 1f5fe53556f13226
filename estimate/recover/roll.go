package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchRoll finds torch.roll along one dimension, which exporters write as x[k:] before x[:k]; along several it rolls
// one after the other, as roll_common in aten/src/ATen/native/TensorTransformations.h does. Two halves are rather a
// rotation by hand, unless the file names the operator.
func matchRoll(b *recovery, i int) {
	n, known := b.nodes[i], b.places[i].Op
	if len(n.In) != 2 || known != "" && known != "roll" {
		return
	}
	var cut [2]*onnxload.Node
	var at [2]int
	for k := range cut {
		if cut[k], at[k] = b.producedBy(b.in(n, k), "Slice"); cut[k] == nil || !b.single(cut[k].Out[0]) {
			return
		}
	}
	x := b.in(cut[0], 0)
	if x != b.in(cut[1], 0) || !b.isTensor(x) {
		return
	}
	whole, tail, head := b.dims(x), b.dims(cut[0].Out[0]), b.dims(cut[1].Out[0])
	d := b.axis(n, 0, len(whole))
	if len(tail) != len(whole) || len(head) != len(whole) || d >= len(whole) || tail[d]+head[d] != whole[d] ||
		!slices.Equal(b.dims(n.Output(0)), whole) {
		return
	}
	from, ok := b.number(b.in(cut[0], 1))
	if from < 0 {
		from += float64(whole[d])
	}
	first, zero := b.number(b.in(cut[1], 1))
	if !ok || !zero || first != 0 || from != float64(head[d]) || known == "" && head[d] == tail[d] {
		return
	}
	b.claim(func() { b.call("roll", program.Args{}, []program.ValueID{b.value(x)}, n.Output(0)) }, at[0], at[1], i)
}
