package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// composedOps are functions that PyTorch puts together of other operators, in Python or below autograd.
var composedOps = []op{
	{"bilinear", castPromote, runBilinear},         // aten/src/ATen/native/Linear.cpp
	{"cdist", castFloat, runCdist},                 // aten/src/ATen/native/Distance.cpp
	{"gumbel_softmax", castNone, runGumbelSoftmax}, // torch/nn/functional.py
}

// without returns a tensor as operators below autograd see it, which record nothing.
func without(t *tensor) *tensor {
	c := *t
	c.requiresGrad, c.fn, c.leaf = false, nil, nil
	return &c
}

// runBilinear is bilinear(x1, weight, x2) of a result of Args.Shape: _trilinear of the inputs as matrices.
func runBilinear(r *run, c *program.Call, in []*tensor) []*tensor {
	flat := func(t *tensor) *tensor {
		k := len(t.shape) - 1
		return r.reshape(t, []int64{program.Numel(t.shape[:k]), t.shape[k]})
	}
	parts := []*tensor{flat(in[0]), in[1], flat(in[2])}
	expand, sum := [3][]int{{1, 3}, {0}, {1, 2}}, []int{2, 3}
	out := r.trilinear([3]*tensor{without(parts[0]), without(in[1]), without(parts[2])}, expand, sum)
	if r.needsGrad(parts...) {
		var saved []*tensor // each that another's gradient is made of
		for i, t := range parts {
			if parts[(i+1)%3].requiresGrad || parts[(i+2)%3].requiresGrad {
				saved = append(saved, t)
			}
		}
		ops := [3]operand{parts[0].operand(), parts[1].operand(), parts[2].operand()}
		r.record("Trilinear", one(out), parts, saved, func(r *run, n *node, g []*tensor) []*tensor {
			outs := r.outs(3)
			for i := range outs {
				if !n.wants(i) {
					continue
				}
				var factors [3]*tensor
				dims := expand
				for k, o := range ops {
					r.nowhere.refs++
					factors[k] = &tensor{layout: o.layout, st: &r.nowhere, dtype: o.dtype, refs: 1}
				}
				factors[i], dims[i] = g[0], sum
				outs[i] = r.trilinear(factors, dims, expand[i])
			}
			return outs
		})
	}
	y := r.reshape(out, c.Args.Shape)
	r.release(parts[0])
	r.release(parts[2])
	r.release(out)
	return one(y)
}

// trilinear is at::_trilinear: the sum over some dimensions of the product of three tensors, each of which has new
// dimensions where expand says so. It takes one index of the second dimension after another, all alike: two are run.
func (r *run) trilinear(in [3]*tensor, expand [3][]int, sum []int) *tensor {
	const unrolled = 1
	var wide [3]*tensor
	for i, t := range in {
		wide[i] = r.alias(t, t.shape, t.stride)
		for _, d := range expand[i] {
			u := r.unsqueeze(wide[i], d)
			r.release(wide[i])
			wide[i] = u
		}
	}
	shape := make([]int64, len(wide[0].shape))
	var first, second []int // what the first product sums over, and what the second does
	turns := int64(0)
	for d := range shape {
		for i := range wide {
			if !slices.Contains(expand[i], d) {
				shape[d] = wide[i].shape[d]
			}
		}
		if d == unrolled {
			turns = min(shape[d], 2)
		}
		if slices.Contains(sum, d) {
			shape[d] = 1
			switch {
			case d == unrolled:
			case slices.Contains(expand[2], d):
				first = append(first, d)
			default:
				second = append(second, d)
			}
		}
	}
	out := r.empty(promote(in[:]...), shape...)
	for range turns {
		var part [3]*tensor
		for i, t := range wide {
			part[i] = r.slice(t, unrolled, 1, 1)
		}
		pair := r.sumPair(part[0], part[1], first)
		term := r.sumPair(pair, part[2], second)
		r.release(pair)
		r.release(term)
		r.releaseAll(part[:])
	}
	for d := len(shape) - 1; d >= 0; d-- {
		if slices.Contains(sum, d) {
			s := r.squeeze(out, d)
			r.release(out)
			out = s
		}
	}
	r.releaseAll(wide[:])
	return out
}

// sumPair is sumproduct_pair with its dimensions kept: a plain product where nothing is summed over, and what one of
// the two alone has is summed over before.
func (r *run) sumPair(a, b *tensor, sum []int) *tensor {
	if len(sum) == 0 {
		return r.pointwise(promote(a, b), a, b)
	}
	var ofA, ofB []int
	for _, d := range sum {
		switch inA, inB := a.shape[d] != 1, b.shape[d] != 1; {
		case inA && !inB:
			ofA = append(ofA, d)
		case inB && !inA:
			ofB = append(ofB, d)
		}
	}
	a, b = r.sumOver(a.retain(), ofA), r.sumOver(b.retain(), ofB)
	out := r.sumProduct(a, b, sum)
	r.release(a)
	r.release(b)
	return out
}

// runCdist is cdist(x1, x2) of a result of Args.Shape, by a product: of points with their squared norms and ones beside
// them (_euclidean_dist), under one node, after their batches are expanded.
func runCdist(r *run, c *program.Call, in []*tensor) []*tensor {
	var points [2]*tensor
	for i, t := range in[:2] {
		k := len(t.shape) - 2
		batch := program.BroadcastShapes(in[0].shape[:len(in[0].shape)-2], in[1].shape[:len(in[1].shape)-2])
		wide := r.expand(t, append(slices.Clone(batch), t.shape[k:]...))
		row := r.contiguous(wide)
		points[i] = r.reshape(row, []int64{program.Numel(batch), t.shape[k], t.shape[k+1]})
		r.release(wide)
		r.release(row)
	}
	x, y := without(points[0]), without(points[1])
	beside := func(t *tensor) (norm, ones *tensor) {
		square := r.pointwise(t.dtype, t)
		norm = r.reduce(square, []int{2}, true, t.dtype)
		r.release(square)
		return norm, r.pointwise(t.dtype, norm)
	}
	joined := func(t, norm, ones *tensor) *tensor {
		out := r.empty(t.dtype, t.shape[0], t.shape[1], t.shape[2]+2)
		r.release(norm)
		r.release(ones)
		return out
	}
	xNorm, xOnes := beside(x)
	yNorm, yOnes := beside(y)
	twice := r.pointwise(x.dtype, x)
	left := joined(x, xNorm, xOnes)
	r.release(twice)
	right := joined(y, yNorm, yOnes)
	turned := r.transpose(right, 1, 2)
	out := r.bmm(left, turned)
	r.releaseAll([]*tensor{turned, left, right})
	if r.needsGrad(points[:]...) {
		ops := [2]operand{points[0].operand(), points[1].operand()}
		dist := out.operand()
		r.record("EuclideanDist", one(out), points[:], append(points[:], out), func(r *run, _ *node, g []*tensor) []*tensor {
			return r.distanceGrads(g[0], ops, dist)
		})
	}
	result := r.reshape(out, c.Args.Shape)
	r.release(out)
	r.releaseAll(points[:])
	return one(result)
}

// distanceGrads is _euclidean_dist_backward: x * ratio.sum() - ratio @ y for both, whichever is wanted.
func (r *run) distanceGrads(g *tensor, points [2]operand, dist operand) []*tensor {
	ratio := r.pointwise(dist.dtype, g)
	r.release(r.pointwise(program.Bool, r.looks(0, dist)))
	temps := []*tensor{ratio}
	outs := r.outs(2)
	for i := range outs {
		x, y := r.looks(0, points[i]), r.looks(1, points[1-i])
		by := ratio.retain()
		if i == 1 {
			r.release(by)
			by = r.transpose(ratio, 1, 2)
		}
		product := r.product(by, y, x.shape, false)
		sum := r.reduce(ratio, []int{2 - i}, true, ratio.dtype)
		times := r.pointwise(x.dtype, x)
		outs[i] = r.pointwise(x.dtype, x)
		temps = append(temps, by, product, sum, times)
	}
	r.releaseAll(temps)
	return outs
}

// runGumbelSoftmax is F.gumbel_softmax(logits, dim=Args.Dim), with Mode "hard" for one that returns the largest alone.
// Its variables are gumbels, y_soft, index and y_hard.
func runGumbelSoftmax(r *run, c *program.Call, in []*tensor) []*tensor {
	do := func(op string, args program.Args, in ...*tensor) *tensor {
		outs, err := r.apply(&program.Call{Op: op, Args: &args}, in)
		if err != nil {
			r.err = err
			return in[0].retain()
		}
		r.releaseAll(outs[1:])
		return outs[0]
	}
	logits := in[0]
	random := r.emptyLike(logits, logits.dtype)
	log := do("log", program.Args{}, random)
	r.release(random)
	gumbels := do("neg", program.Args{}, log)
	r.release(log)
	sum := do("add", program.Args{}, logits, gumbels)
	scores := do("div", program.Args{}, sum, scalar(sum.dtype))
	r.release(gumbels)
	r.release(sum)
	soft := do("softmax", program.Args{}, scores)
	defer r.release(scores)
	if c.Args.Mode != "hard" {
		return one(soft)
	}
	index := do("argmax", program.Args{Dims: []int{c.Args.Dim}, Keep: true}, without(soft))
	hard := r.emptyLike(logits, logits.dtype)
	less := do("sub", program.Args{}, hard, without(soft))
	out := do("add", program.Args{}, less, soft)
	r.releaseAll([]*tensor{less, hard, index, soft})
	return one(out)
}
