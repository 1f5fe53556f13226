package torch

import "github.com/memestimate/memestimate/estimate/program"

// runPow is pow with a number or a tensor as exponent (pow_backward).
func runPow(r *run, c *program.Call, in []*tensor) []*tensor {
	if in[1].host {
		return unary("Pow", keepsInput, 3)(r, c, in[:1])
	}
	x, y := in[0], in[1]
	out := r.pointwise(promote(x, y), x, y)
	if r.needsGrad(x, y) {
		r.record("Pow", one(out), in, []*tensor{x, y, out}, func(r *run, n *node, g []*tensor) []*tensor {
			return n.otherFirst(func(i int) *tensor { return r.chain(4-i, g[0]) })
		})
	}
	return one(out)
}

// each returns what f makes for every input that wants a gradient. The generated code takes
// the formulas of derivatives.yaml in the alphabetical order of the arguments' names.
func (n *node) each(f func(i int) *tensor) []*tensor {
	outs := make([]*tensor, len(n.next))
	for i := range n.next {
		if n.wants(i) {
			outs[i] = f(i)
		}
	}
	return outs
}

// otherFirst is each for the operators of self and other, or self and mat2, where the
// second comes first.
func (n *node) otherFirst(f func(i int) *tensor) []*tensor {
	outs := make([]*tensor, len(n.next))
	for i := len(n.next) - 1; i >= 0; i-- {
		if n.wants(i) {
			outs[i] = f(i)
		}
	}
	return outs
}

// binary returns the output of an element-wise operator of two arguments.
func (r *run) binary(c *program.Call, x, y *tensor) *tensor {
	switch {
	case c.Args.Inplace && !x.host:
		return x.retain()
	case x.host && y.host:
		return scalar(promote(x, y))
	}
	return r.pointwise(promote(x, y), x, y)
}

// runAdd is add, or add_ when in place: its backward hands the gradient on.
func runAdd(r *run, c *program.Call, in []*tensor) []*tensor {
	out := r.binary(c, in[0], in[1])
	if r.needsGrad(in...) {
		r.record("Add", one(out), in, nil, func(r *run, n *node, g []*tensor) []*tensor {
			return n.each(func(int) *tensor { return g[0].retain() })
		})
	}
	return one(out)
}

// runSub is sub: the second argument's gradient is negated.
func runSub(r *run, c *program.Call, in []*tensor) []*tensor {
	out := r.binary(c, in[0], in[1])
	if r.needsGrad(in...) {
		r.record("Sub", one(out), in, nil, func(r *run, n *node, g []*tensor) []*tensor {
			return n.otherFirst(func(i int) *tensor {
				if i == 0 {
					return g[0].retain()
				}
				return r.pointwise(g[0].dtype, g[0])
			})
		})
	}
	return one(out)
}

// runMul is mul. It saves an argument only when the other wants a gradient; each
// gradient has the result's shape until validate sums it.
func runMul(r *run, c *program.Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.binary(c, x, y)
	if !r.needsGrad(x, y) {
		return one(out)
	}
	var other, self *tensor // to save
	if x.requiresGrad {
		other = y
	}
	if y.requiresGrad {
		self = x
	}
	a, b := y.operand(), x.operand()
	n := r.record("Mul", one(out), in, []*tensor{other, self}, func(r *run, n *node, g []*tensor) []*tensor {
		return n.otherFirst(func(i int) *tensor {
			other := r.looks(0, n.like(i))
			return r.pointwise(promote(g[0], other), g[0], other)
		})
	})
	n.know(0, a)
	n.know(1, b)
	return one(out)
}

// runDiv is div (div_tensor_self_backward, div_tensor_other_backward).
func runDiv(r *run, c *program.Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.binary(c, x, y)
	if !out.host && !out.dtype.IsFloat() {
		r.release(out)
		out = r.pointwise(program.Float32, x, y)
	}
	if !r.needsGrad(x, y) {
		return one(out)
	}
	saved := []*tensor{y}
	if y.requiresGrad {
		saved = append(saved, x)
	}
	xc, yc := *x, *y
	r.record("Div", one(out), in, saved, func(r *run, n *node, g []*tensor) []*tensor {
		return n.otherFirst(func(i int) *tensor {
			if i == 0 {
				return r.pointwise(promote(g[0], &yc), g[0], &yc)
			}
			return r.chain(4, g[0], &xc) // -grad * ((self / other) / other)
		})
	})
	return one(out)
}

// runMaximum is maximum or minimum: for each argument the gradient is halved where the
// two are equal and masked where the other wins.
func runMaximum(r *run, c *program.Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.binary(c, x, y)
	if r.needsGrad(x, y) {
		r.record("Maximum", one(out), in, []*tensor{y, x}, func(r *run, n *node, g []*tensor) []*tensor {
			return n.otherFirst(func(int) *tensor {
				half := r.pointwise(g[0].dtype, g[0])
				equal := r.pointwise(program.Bool, g[0])
				picked := r.pointwise(g[0].dtype, g[0])
				lost := r.pointwise(program.Bool, g[0])
				r.release(lost)
				r.release(equal)
				r.release(half)
				return picked
			})
		})
	}
	return one(out)
}

// runWhere is where(condition, self, other): a zero for the branch not taken.
func runWhere(r *run, c *program.Call, in []*tensor) []*tensor {
	cond, x, y := in[0], in[1], in[2]
	dtype := promote(x, y)
	if x.host && y.host && dtype == program.Float32 {
		// A choice between two numbers is an attention mask: transformers makes those in the
		// parameters' type, which an export of a model in float32 does not show.
		dtype = r.floats()
	}
	out := r.pointwise(dtype, cond, x, y)
	if r.needsGrad(x, y) {
		r.record("Where", one(out), in, one(cond), func(r *run, n *node, g []*tensor) []*tensor {
			return n.otherFirst(func(int) *tensor {
				zero := r.empty(g[0].dtype)
				t := r.pointwise(g[0].dtype, g[0])
				r.release(zero)
				return t
			})
		})
	}
	return one(out)
}

// runMaskedFill is masked_fill(self, mask, value): a clone that is filled.
func runMaskedFill(r *run, c *program.Call, in []*tensor) []*tensor {
	x, mask := in[0], in[1]
	var out *tensor
	if c.Args.Inplace && !x.host {
		out = x.retain()
	} else {
		out = r.pointwise(x.dtype, x, mask)
	}
	if r.needsGrad(x) {
		r.record("MaskedFill", one(out), in[:1], one(mask), func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.pointwise(g[0].dtype, g[0]))
		})
	}
	return one(out)
}

// runClamp is clamp with one or both bounds (Args.Both); backward builds a mask for each,
// and a zero to fill in.
func runClamp(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.binary(c, x, scalar(x.dtype))
	if r.needsGrad(x) {
		both := c.Args.Both
		r.record("Clamp", one(out), in[:1], one(x), func(r *run, n *node, g []*tensor) []*tensor {
			zero := r.empty(g[0].dtype)
			low := r.pointwise(program.Bool, g[0])
			var high *tensor
			if both {
				high = r.pointwise(program.Bool, g[0])
			}
			t := r.pointwise(g[0].dtype, g[0])
			r.release(high)
			r.release(low)
			r.release(zero)
			return one(t)
		})
	}
	return one(out)
}

// runCompare is eq, lt, logical_and and the like: a mask.
func runCompare(r *run, c *program.Call, in []*tensor) []*tensor {
	return one(r.pointwise(program.Bool, in...))
}
