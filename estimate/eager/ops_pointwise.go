package eager

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// What an operator's backward needs (tools/autograd/derivatives.yaml).
type keeps uint8

const (
	keepsNothing keeps = iota
	keepsInput
	keepsResult
	keepsWritten // the result where it is written over the argument, the argument otherwise
)

// pointwiseOps are the element-wise operators. Their backward allocations are as measured
// on an H200 with PyTorch 2.11.
var pointwiseOps = []op{
	{"relu", castNone, unary("Relu", keepsResult, 1)},              // threshold_backward(grad, result, 0)
	{"leaky_relu", castNone, unary("LeakyRelu", keepsWritten, 1)},  // leaky_relu_backward(grad, self or result, ..., is_result)
	{"prelu", castLower, runPRelu},                                 // _prelu_kernel_backward
	{"elu", castNone, unary("Elu", keepsInput, 1)},                 // elu_backward(grad, ..., self); selu and celu are elu
	{"gelu", castNone, unary("Gelu", keepsInput, 1)},               // gelu_backward(grad, self)
	{"silu", castNone, unary("Silu", keepsInput, 1)},               // silu_backward(grad, self)
	{"mish", castNone, unary("Mish", keepsInput, 1)},               // mish_backward(grad, self)
	{"hardswish", castNone, unary("Hardswish", keepsInput, 1)},     // hardswish_backward(grad, self)
	{"hardsigmoid", castNone, unary("Hardsigmoid", keepsInput, 1)}, // hardsigmoid_backward(grad, self)
	{"hardtanh", castNone, unary("Hardtanh", keepsInput, 1)},       // hardtanh_backward(grad, self, ...); relu6
	{"softplus", castFloat, unary("Softplus", keepsInput, 1)},      // softplus_backward(grad, self, ...)
	{"softsign", castNone, runSoftsign},
	{"sigmoid", castNone, unary("Sigmoid", keepsResult, 1)},        // sigmoid_backward(grad, result)
	{"tanh", castNone, unary("Tanh", keepsResult, 1)},              // tanh_backward(grad, result)
	{"exp", castFloat, unary("Exp", keepsResult, 1)},               // grad * result
	{"log", castFloat, unary("Log", keepsInput, 1)},                // grad.div(self)
	{"sqrt", castNone, unary("Sqrt", keepsResult, 2)},              // grad / (2 * result)
	{"rsqrt", castFloat, unary("Rsqrt", keepsResult, 3)},           // -0.5 * grad * result.pow(3)
	{"reciprocal", castFloat, unary("Reciprocal", keepsResult, 3)}, // -grad * (result * result)
	{"erf", castNone, unary("Erf", keepsInput, 5)},                 // 2/sqrt(pi) * exp(-self.pow(2)) * grad
	{"sin", castNone, unary("Sin", keepsInput, 2)},                 // grad * self.cos()
	{"cos", castNone, unary("Cos", keepsInput, 3)},                 // grad * -self.sin()
	{"abs", castNone, unary("Abs", keepsInput, 2)},                 // grad * self.sgn()
	{"neg", castNone, unary("Neg", keepsNothing, 1)},
	{"square", castFloat, unary("Pow", keepsInput, 3)}, // pow_backward: grad * 2 * self
	{"pow", castFloat, runPow},
	{"floor", castNone, unary("Floor", keepsNothing, 1)}, // zeros_like(grad)
	{"add", castNone, runAdd},
	{"sub", castNone, runSub},
	{"mul", castNone, runMul},
	{"div", castNone, runDiv},
	{"maximum", castNone, runMaximum},
	{"minimum", castNone, runMaximum},
	{"where", castNone, runWhere},
	{"masked_fill", castNone, runMaskedFill},
	{"clamp", castNone, runClamp},
	{"compare", castNone, runCompare},
	{"dropout", castNone, runDropout},
	{"feature_dropout", castNone, runFeatureDropout},
	{"to", castNone, runTo},
	{"float", castNone, func(r *run, c *Call, in []*tensor) []*tensor { return one(r.to(in[0], onnxload.Float32)) }},
	{"type_as", castNone, func(r *run, c *Call, in []*tensor) []*tensor { return one(r.to(in[0], in[1].dtype)) }},
	{"clone", castNone, runClone},
	{"fill", castNone, runFill},
	{"glu", castNone, runGlu},
	{"softmax", castResult, runSoftmax("Softmax")},
	{"log_softmax", castResult, runSoftmax("LogSoftmax")},
}

// unary returns the rule of an element-wise operator of one argument whose backward makes
// temps tensors of the argument's size one after another and returns the last.
func unary(name string, k keeps, temps int) func(*run, *Call, []*tensor) []*tensor {
	return func(r *run, c *Call, in []*tensor) []*tensor {
		k, x := k, in[0]
		if x.host {
			return one(scalar(x.dtype))
		}
		if k == keepsWritten {
			k = keepsInput
			if c.Args.Inplace {
				k = keepsResult
			}
		}
		var out, original *tensor
		if c.Args.Inplace {
			// An in-place operator whose backward needs the argument as it was
			// saves a clone of it (original_self in the generated VariableType).
			if k == keepsInput && r.needsGrad(x) {
				original = r.emptyLike(x, x.dtype)
			}
			out = x.retain()
		} else {
			dtype := x.dtype
			if !dtype.IsFloat() && k != keepsNothing {
				dtype = onnxload.Float32 // integer arguments give the default type
			}
			out = r.pointwise(dtype, x)
		}
		if !r.needsGrad(x) {
			return one(out)
		}
		var saved []*tensor
		switch k {
		case keepsInput:
			saved = one(x)
			if original != nil {
				saved = one(original)
			}
		case keepsResult:
			saved = one(out)
		}
		like := *x
		defer r.release(original)
		slices := c.Args.Inplace && x.view
		r.record(name, one(out), one(x), saved, func(r *run, n *node, g []*tensor) []*tensor {
			if !slices {
				return one(r.chain(temps, g[0], &like))
			}
			// CopySlices (torch/csrc/autograd/functions/tensor.cpp): the gradient of the tensor that
			// was written through a view is a copy, and the operator's backward has one of the view's.
			base := r.emptyLike(g[0], g[0].dtype)
			part := r.emptyLike(g[0], g[0].dtype)
			r.release(r.chain(temps, part, &like))
			r.release(part)
			return one(base)
		})
		return one(out)
	}
}

// chain makes n tensors in the layout of the operands, then drops all but the last.
func (r *run) chain(n int, operands ...*tensor) *tensor {
	var temps []*tensor
	for range n - 1 {
		temps = append(temps, r.pointwise(promote(operands...), operands...))
	}
	out := r.pointwise(promote(operands...), operands...)
	for _, t := range temps {
		r.release(t)
	}
	return out
}

// runSoftsign is F.softsign: x / (1 + |x|), composed.
func runSoftsign(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	a := unary("Abs", keepsInput, 2)(r, &Call{}, in)[0]
	b := runAdd(r, &Call{}, []*tensor{a, scalar(x.dtype)})[0]
	r.release(a)
	out := runDiv(r, &Call{}, []*tensor{x, b})
	r.release(b)
	return out
}

// runPow is pow with a number or a tensor as exponent (pow_backward).
func runPow(r *run, c *Call, in []*tensor) []*tensor {
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
func (r *run) binary(c *Call, x, y *tensor) *tensor {
	switch {
	case c.Args.Inplace && !x.host:
		return x.retain()
	case x.host && y.host:
		return scalar(promote(x, y))
	}
	return r.pointwise(promote(x, y), x, y)
}

// runAdd is add, or add_ when in place: its backward hands the gradient on.
func runAdd(r *run, c *Call, in []*tensor) []*tensor {
	out := r.binary(c, in[0], in[1])
	if r.needsGrad(in...) {
		r.record("Add", one(out), in, nil, func(r *run, n *node, g []*tensor) []*tensor {
			return n.each(func(int) *tensor { return g[0].retain() })
		})
	}
	return one(out)
}

// runSub is sub: the second argument's gradient is negated.
func runSub(r *run, c *Call, in []*tensor) []*tensor {
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
func runMul(r *run, c *Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.binary(c, x, y)
	if !r.needsGrad(x, y) {
		return one(out)
	}
	var saved []*tensor // other, self
	if x.requiresGrad {
		saved = append(saved, y)
	}
	if y.requiresGrad {
		saved = append(saved, x)
	}
	other := []tensor{*y, *x}
	r.record("Mul", one(out), in, saved, func(r *run, n *node, g []*tensor) []*tensor {
		return n.otherFirst(func(i int) *tensor { return r.pointwise(promote(g[0], &other[i]), g[0], &other[i]) })
	})
	return one(out)
}

// runDiv is div (div_tensor_self_backward, div_tensor_other_backward).
func runDiv(r *run, c *Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.binary(c, x, y)
	if !out.host && !out.dtype.IsFloat() {
		r.release(out)
		out = r.pointwise(onnxload.Float32, x, y)
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
func runMaximum(r *run, c *Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.binary(c, x, y)
	if r.needsGrad(x, y) {
		r.record("Maximum", one(out), in, []*tensor{y, x}, func(r *run, n *node, g []*tensor) []*tensor {
			return n.otherFirst(func(int) *tensor {
				half := r.pointwise(g[0].dtype, g[0])
				equal := r.pointwise(onnxload.Bool, g[0])
				picked := r.pointwise(g[0].dtype, g[0])
				lost := r.pointwise(onnxload.Bool, g[0])
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
func runWhere(r *run, c *Call, in []*tensor) []*tensor {
	cond, x, y := in[0], in[1], in[2]
	dtype := promote(x, y)
	if x.host && y.host && dtype == onnxload.Float32 {
		// A choice between two numbers is an attention mask: transformers makes those in the
		// parameters' type, which an export of a model in float32 does not show.
		dtype = r.opts.Precision.params()
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
func runMaskedFill(r *run, c *Call, in []*tensor) []*tensor {
	x, mask := in[0], in[1]
	out := r.pointwise(x.dtype, x, mask)
	if r.needsGrad(x) {
		r.record("MaskedFill", one(out), in[:1], one(mask), func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.pointwise(g[0].dtype, g[0]))
		})
	}
	return one(out)
}

// runClamp is clamp with one or both bounds (Args.Both); backward builds a mask for each,
// and a zero to fill in.
func runClamp(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.binary(c, x, scalar(x.dtype))
	if r.needsGrad(x) {
		both := c.Args.Both
		r.record("Clamp", one(out), in[:1], one(x), func(r *run, n *node, g []*tensor) []*tensor {
			zero := r.empty(g[0].dtype)
			low := r.pointwise(onnxload.Bool, g[0])
			var high *tensor
			if both {
				high = r.pointwise(onnxload.Bool, g[0])
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
func runCompare(r *run, c *Call, in []*tensor) []*tensor {
	return one(r.pointwise(onnxload.Bool, in...))
}

// runDropout is native_dropout: the mask, one byte an element, is allocated first and is
// all that is saved. Outside training, or with p = 0, it is the identity.
func runDropout(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	if !c.Args.Train || c.Args.P == 0 {
		return one(x.retain())
	}
	mask := r.emptyLike(x, onnxload.Bool)
	out := r.emptyLike(x, x.dtype)
	if !r.needsGrad(x) {
		r.release(mask)
		return one(out)
	}
	r.record("NativeDropout", one(out), one(x), one(mask), func(r *run, n *node, g []*tensor) []*tensor {
		layout := contiguousStrides // suggest_memory_format, in dropout_backward_cuda of cuda/Dropout.cu
		if g[0].isChannelsLast() && !g[0].isContiguous() {
			layout = channelsLastStrides
		}
		return one(r.strided(g[0].dtype, g[0].shape, layout(g[0].shape)))
	})
	r.release(mask)
	return one(out)
}

// runFeatureDropout is dropout2d and the like, and stochastic depth: a small
// noise tensor of Args.Shape that multiplies the input.
func runFeatureDropout(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	if !c.Args.Train || c.Args.P == 0 {
		return one(x.retain())
	}
	noise := r.empty(x.dtype, c.Args.Shape...)
	out := runMul(r, &Call{}, []*tensor{x, noise})
	r.release(noise)
	return out
}

// runTo is Tensor.to(dtype): nothing when the type is the same already.
func runTo(r *run, c *Call, in []*tensor) []*tensor {
	return one(r.to(in[0], r.modelType(c.Args.DType)))
}

// modelType returns the element type that a float32 of the graph has in this run: code that makes
// tensors or casts to float takes the type of its input or of the model.
func (r *run) modelType(d onnxload.DType) onnxload.DType {
	if d == onnxload.Float32 {
		return r.opts.Precision.params()
	}
	return d
}

func (r *run) to(x *tensor, dtype onnxload.DType) *tensor {
	if x.dtype == dtype {
		return x.retain()
	}
	if x.host {
		return scalar(dtype)
	}
	out := r.emptyLike(x, dtype)
	if r.needsGrad(x) && dtype.IsFloat() {
		from := x.dtype
		r.record("ToCopy", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.emptyLike(g[0], from))
		})
	}
	return out
}

// runClone is Tensor.clone or contiguous of a tensor that is not.
func runClone(r *run, c *Call, in []*tensor) []*tensor {
	return one(r.clone(in[0], likeStrides(in[0])))
}

// runFill is a factory: zeros, ones, full, arange. It has no gradient.
func runFill(r *run, c *Call, in []*tensor) []*tensor {
	return one(r.empty(r.modelType(c.Args.DType), c.Args.Shape...))
}

// runSoftmax returns the rule of softmax or log_softmax as a model calls them: under autocast the result is
// in float32. The kernel converts float16 as it goes; bfloat16 is copied first (aten/src/ATen/native/SoftMax.cpp).
func runSoftmax(name string) func(*run, *Call, []*tensor) []*tensor {
	return func(r *run, c *Call, in []*tensor) []*tensor {
		dtype := r.resultType(in[0])
		if in[0].dtype == onnxload.Float16 {
			return one(r.softmax(name, in[0], dtype))
		}
		x := r.to(in[0], dtype)
		out := r.softmax(name, x, dtype)
		r.release(x)
		return one(out)
	}
}

// softmax is _softmax, _log_softmax or _safe_softmax: row-major inside and out; it saves its result. The
// backward pass of softmax multiplies gradient and result into a tensor that the kernel sums (cuda/SoftMax.cu).
func (r *run) softmax(name string, x *tensor, dtype onnxload.DType) *tensor {
	out := r.empty(dtype, x.shape...)
	r.release(r.inLayout(x, contiguousStrides))
	if r.needsGrad(x) {
		from, oc := x.dtype, *out
		r.record(name, one(out), one(x), one(out), func(r *run, n *node, g []*tensor) []*tensor {
			t := r.empty(from, oc.shape...)
			product := g[0].retain()
			if name != "LogSoftmax" {
				r.release(product)
				product = r.pointwise(promote(g[0], &oc), g[0], &oc)
			}
			r.release(r.inLayout(product, contiguousStrides))
			r.release(product)
			return one(t)
		})
	}
	return out
}

// runPRelu is prelu(input, weight): gradients for both, the weight's summed afterwards.
func runPRelu(r *run, c *Call, in []*tensor) []*tensor {
	x, w := in[0], in[1]
	out := r.pointwise(x.dtype, x)
	if r.needsGrad(x, w) {
		xc := *x
		r.record("PReluKernel", one(out), in, in, func(r *run, n *node, g []*tensor) []*tensor {
			return []*tensor{r.pointwise(xc.dtype, &xc), r.pointwise(xc.dtype, &xc)}
		})
	}
	return one(out)
}

// runGlu is glu over Args.Dim: glu_backward(grad, self, dim).
func runGlu(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	shape := slices.Clone(x.shape)
	shape[c.Args.Dim] /= 2
	out := r.empty(x.dtype, shape...)
	if r.needsGrad(x) {
		like := *x
		r.record("Glu", one(out), one(x), one(x), func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.emptyLike(&like, like.dtype))
		})
	}
	return one(out)
}
