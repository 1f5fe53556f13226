package recover

import (
	"math"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchTanhGelu finds gelu(x, approximate="tanh") as exporters before opset 20 write it:
//
//	0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x*x*x)))
//
// with the cube as two products. Where a model computes the same by hand, the cube is a power, and
// every step of it is an operator of its own.
func matchTanhGelu(b *recovery, i int) {
	tanh := b.nodes[i]
	scaled, si := b.producedBy(b.in(tanh, 0), "Mul")
	if scaled == nil {
		return
	}
	sum, k := b.otherThanNumber(scaled)
	if math.Abs(k-math.Sqrt(2/math.Pi)) > 1e-3 {
		return
	}
	add, ai := b.producedBy(sum, "Add")
	if add == nil {
		return
	}
	for j := range 2 {
		x := b.in(add, j)
		cubic, ci := b.producedBy(b.in(add, 1-j), "Mul")
		if cubic == nil {
			continue
		}
		cube, k := b.otherThanNumber(cubic)
		if math.Abs(k-0.044715) > 1e-4 {
			continue
		}
		outer, oi := b.producedBy(cube, "Mul")
		if outer == nil || b.in(outer, 0) != x && b.in(outer, 1) != x {
			continue
		}
		square, qi := b.producedBy(b.other(outer, x), "Mul")
		if square == nil || b.in(square, 0) != x || b.in(square, 1) != x {
			continue
		}
		one, ni := b.user(tanh.Output(0), "Add")
		if one == nil || !b.isNumber(b.other(one, tanh.Output(0)), 1) {
			return
		}
		mul, mi := b.user(one.Output(0), "Mul")
		if mul == nil || b.id(b.other(mul, one.Output(0))) != x {
			return
		}
		half, hi := b.user(mul.Output(0), "Mul")
		if half == nil || !b.isNumber(b.other(half, mul.Output(0)), 0.5) {
			return
		}
		b.claim(func() { b.call("gelu", program.Args{}, []program.ValueID{b.value(x)}, half.Output(0)) }, i, si, ai, ci, oi, qi, ni,
			mi, hi)
		return
	}
}

// otherThanNumber returns the input of a node of two that is not a number, and the number; NoValue when neither is.
func (b *recovery) otherThanNumber(n *onnxload.Node) (onnxload.ValueID, float64) {
	for j := range 2 {
		if k, ok := b.number(b.in(n, j)); ok {
			return b.in(n, 1-j), k
		}
	}
	return onnxload.NoValue, 0
}

// matchGlu finds glu(x, dim), the first half of a dimension times the sigmoid of the second. Both exporters split the
// argument without naming sizes for it (torch.onnx symbolic_opset9 glu, torchlib aten_glu), where chunk and split
// name them; in torch.export's graph the product has the operator's name too.
func matchGlu(b *recovery, i int) {
	s := b.nodes[i]
	split, si := b.producedBy(b.in(s, 0), "Split")
	mul, mi := b.user(s.Output(0), "Mul")
	if split == nil || mul == nil || len(split.In) != 1 || len(split.Out) != 2 || split.Domain != "" {
		return
	}
	first, second := split.Output(0), split.Output(1)
	if first == onnxload.NoValue || b.id(second) != b.in(s, 0) || b.in(mul, 0) != b.id(first) ||
		b.in(mul, 1) != b.id(s.Output(0)) || !b.single(first) || !b.single(second) {
		return
	}
	if attrInt(split, "num_outputs", 0) != 0 && !strings.HasPrefix(b.m.NameOf(mul.Output(0)), "glu") {
		return
	}
	x := b.in(split, 0)
	dim := b.axis(split, 0, len(b.dims(x)))
	if b.dims(first)[dim] != b.dims(second)[dim] {
		return
	}
	b.claim(func() { b.call("glu", program.Args{Dim: dim}, []program.ValueID{b.value(x)}, mul.Output(0)) }, si, i, mi)
}

// matchMish finds x * tanh(softplus(x)).
func matchMish(b *recovery, i int) {
	soft := b.nodes[i]
	x := b.in(soft, 0)
	tanh, ti := b.user(soft.Output(0), "Tanh")
	if tanh == nil {
		return
	}
	mul, mi := b.user(tanh.Output(0), "Mul")
	if mul == nil || b.id(b.other(mul, tanh.Output(0))) != x || !b.selfGated(mul, x, tanh.Output(0)) {
		return
	}
	b.claim(func() {
		b.call("mish", program.Args{Inplace: b.inPlaceAfter(x, 2)}, []program.ValueID{b.value(x)}, mul.Output(0))
	}, i, ti, mi)
}
