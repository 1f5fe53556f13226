package recover

import (
	"math"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// findNarrow finds what stands in float64 in the file and was float32 in PyTorch. The TorchScript exporter writes
// torch.linspace as a product and a sum of doubles whatever its dtype (linspace in torch/onnx/symbolic_opset9.py),
// which become one constant, and what torch.normal and Tensor.normal_ draw about a number as doubles too (normal in
// symbolic_opset11.py); it casts what is computed with that to double. Python's numbers, which are doubles as well,
// decide nothing.
func (b *recovery) findNarrow() {
	if !b.byPyTorch() {
		return
	}
	b.narrow = map[onnxload.ValueID]bool{}
	mark := func(id onnxload.ValueID) { b.narrow[b.id(id)] = true }
	for _, n := range b.nodes {
		if len(n.Out) == 1 && b.isLinspace(n) {
			mark(n.Output(0))
		}
		if spread := b.drawnAbout(n); spread != onnxload.NoValue && b.elem(spread) == program.Float64 {
			mark(spread)
		}
		if len(b.narrow) > 0 && b.allNarrow(n) {
			for j := range n.In {
				if v := b.in(n, j); v != onnxload.NoValue && b.widens(v) {
					mark(v)
				}
			}
			for _, v := range n.Out {
				if v != onnxload.NoValue && b.elem(v) == program.Float64 {
					mark(v)
				}
			}
		}
	}
}

// drawnAbout is the tensor that a node draws normal numbers like, where that is one number for all.
func (b *recovery) drawnAbout(n *onnxload.Node) onnxload.ValueID {
	if n.Op != "RandomNormalLike" {
		return onnxload.NoValue
	}
	if spread, _ := b.producer(b.in(n, 0)); spread != nil && spread.Op == "Expand" {
		if _, number := b.number(b.in(spread, 0)); number {
			return b.in(n, 0)
		}
	}
	return onnxload.NoValue
}

// matchNormal finds torch.normal(mean, std, size) of two numbers, and Tensor.normal_, which the TorchScript exporter
// writes as std * r + mean. PyTorch draws into one tensor (normal_fill and normal_kernel in
// aten/src/ATen/native/cuda/DistributionTemplates.h). That normal_ has a tensor already, a file does not say.
func matchNormal(b *recovery, i int) {
	n := b.nodes[i]
	spread := b.drawnAbout(n)
	if spread == onnxload.NoValue {
		return
	}
	mul, mi := b.user(n.Output(0), "Mul")
	if mul == nil || len(mul.Out) == 0 {
		return
	}
	add, ai := b.user(mul.Output(0), "Add")
	if _, number := b.number(b.other(mul, n.Output(0))); !number || add == nil || b.other(add, mul.Output(0)) != spread {
		return
	}
	members := []int{i, mi, ai}
	if len(b.usesOf(spread)) == 2 && !b.out[spread] {
		_, si := b.producer(spread)
		members = append(members, si)
	}
	b.claim(func() { b.fill(add, nil) }, members...)
}

// isLinspace reports whether a node is a constant of evenly spaced doubles, as far as its values are known.
func (b *recovery) isLinspace(n *onnxload.Node) bool {
	out := n.Output(0)
	if n.Op != "Constant" || b.elem(out) != program.Float64 || b.ofModule(b.id(out)) || len(b.dims(out)) != 1 {
		return false
	}
	c := b.types.Value(out)
	if c == nil || len(c.Floats) < 2 {
		return c == nil && b.dims(out)[0] > 1
	}
	v := c.Floats
	step, last := v[1]-v[0], len(v)-1
	for i := range v {
		if math.Abs(v[i]-v[0]-float64(i)*step) > 1e-6*math.Abs(v[last]-v[0]) {
			return false
		}
	}
	return step != 0
}

// allNarrow reports whether what a node reads in double is narrow, casts to double that are made for it, and numbers.
func (b *recovery) allNarrow(n *onnxload.Node) (found bool) {
	for j := range n.In {
		v := b.in(n, j)
		switch {
		case b.narrow[v]:
			found = true
		case v == onnxload.NoValue || b.elem(v) != program.Float64:
		case !b.widens(v) && len(b.dims(v)) > 0:
			return false
		}
	}
	return found
}

// widens reports whether a value is a cast of other floats to double that one node alone reads.
func (b *recovery) widens(v onnxload.ValueID) bool {
	n, _ := b.producer(v)
	return n != nil && n.Op == "Cast" && b.elem(v) == program.Float64 && b.single(v) && b.elem(b.in(n, 0)).IsFloat()
}

// elem is the type of a value's elements in PyTorch.
func (b *recovery) elem(id onnxload.ValueID) program.DType {
	if b.narrow[b.id(id)] {
		return program.Float32
	}
	return dtypeOf(b.types.Type(id).Elem)
}
