package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// noiseSteps is how many nodes may lie between a random tensor and what it is multiplied with.
const noiseSteps = 8

// matchNoise finds what a training export wrote of stochastic depth and of dropout by hand: x times a random tensor
// of zeros and ones, 1 where a uniform one is below the rate that survives, perhaps divided by that rate. The random
// tensor is one of x's type, whatever that is under autocast, that is filled and divided in place:
// torchvision.ops.stochastic_depth has torch.empty(size, dtype=input.dtype).bernoulli_(survival_rate), timm's
// drop_path x.new_empty(shape).bernoulli_(keep_prob). Outside of training such modules return x itself, so nothing is
// computed.
func matchNoise(b *recovery, i int) {
	n := b.nodes[i]
	nodes, binary := []int{i}, n.Op == "Bernoulli"
	for _, v := range n.In { // the tensor whose shape it takes
		if p, at := b.producer(v); p != nil && b.single(v) && !b.done[at] {
			nodes = append(nodes, at)
		}
	}
	v := n.Output(0)
	for range noiseSteps {
		if !b.single(v) {
			return
		}
		at := int(b.usesOf(b.id(v))[0])
		u := b.nodes[at]
		if b.done[at] || len(u.Out) == 0 {
			return
		}
		nodes = append(nodes, at)
		_, number := b.number(b.other(u, v))
		switch {
		case (u.Op == "Less" || u.Op == "LessOrEqual" || u.Op == "Greater" || u.Op == "GreaterOrEqual") &&
			number, u.Op == "Floor":
			binary = true
		case u.Op == "Cast", u.Op == "CastLike" && b.in(u, 0) == b.id(v):
		case (u.Op == "Add" || u.Op == "Mul") && number, u.Op == "Div" && number && b.in(u, 0) == b.id(v):
		case u.Op == "Mul" && binary && b.isTensor(b.other(u, v)):
			x, noise := b.other(u, v), v
			b.claim(func() {
				if b.src.Train {
					// whatever the rate is
					b.call("feature_dropout", program.Args{Train: true, P: 0.5, Shape: b.dims(noise)}, []program.ValueID{b.value(x)}, u.Output(0))
					return
				}
				b.call("dropout", program.Args{}, []program.ValueID{b.value(x)}, u.Output(0))
			}, nodes...)
			return
		default:
			return
		}
		v = u.Output(0)
	}
}

// unnoised returns what a value is without stochastic depth: the x of x times a random tensor, else the value itself.
func (b *recovery) unnoised(v onnxload.ValueID) onnxload.ValueID {
	if mul, _ := b.producer(v); mul != nil && mul.Op == "Mul" && b.single(v) {
		for j := range 2 {
			if noise := b.in(mul, j); noise != onnxload.NoValue && b.fixed[noise] && b.made[noise] >= 0 {
				return b.in(mul, 1-j)
			}
		}
	}
	return v
}
