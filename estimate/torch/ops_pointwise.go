package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// What an operator's backward needs (tools/autograd/derivatives.yaml).
type keeps uint8

const (
	keepsNothing keeps = iota
	keepsInput
	keepsResult
	keepsWritten // the result where it is written over the argument, the argument otherwise

	ofIntegers keeps = 1 << 7 // beside the others: the result has the argument's type even where that is an integer
)

// pointwiseOps are the element-wise operators. Their backward allocations are as measured
// on an H200 with PyTorch 2.11.
var pointwiseOps = []op{
	{"relu", castNone, unary("Relu", keepsResult|ofIntegers, 1)}, // threshold_backward(grad, result, 0)
	// leaky_relu_backward(grad, self or result, ..., is_result)
	{"leaky_relu", castNone, unary("LeakyRelu", keepsWritten, 1)},
	{"prelu", castLower, runPRelu},                                      // _prelu_kernel_backward
	{"elu", castNone, unary("Elu", keepsWritten, 1)},                    // elu_backward(grad, ..., self or result); selu and celu are elu
	{"gelu", castNone, unary("Gelu", keepsInput, 1)},                    // gelu_backward(grad, self)
	{"silu", castNone, unary("Silu", keepsInput, 1)},                    // silu_backward(grad, self)
	{"mish", castNone, unary("Mish", keepsInput, 1)},                    // mish_backward(grad, self)
	{"hardswish", castNone, unary("Hardswish", keepsInput, 1)},          // hardswish_backward(grad, self)
	{"hardsigmoid", castNone, unary("Hardsigmoid", keepsInput, 1)},      // hardsigmoid_backward(grad, self)
	{"hardtanh", castNone, unary("Hardtanh", keepsInput|ofIntegers, 1)}, // hardtanh_backward(grad, self, ...); relu6
	{"softplus", castFloat, unary("Softplus", keepsInput, 1)},           // softplus_backward(grad, self, ...)
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
	{"abs", castNone, unary("Abs", keepsInput|ofIntegers, 2)},      // grad * self.sgn()
	{"neg", castNone, unary("Neg", keepsNothing, 1)},
	{"square", castFloat, unary("Pow", keepsInput|ofIntegers, 3)}, // pow_backward: grad * 2 * self
	{"pow", castFloat, runPow},
	{"floor", castNone, unary("Floor", keepsNothing, 1)}, // zeros_like(grad), as of the next four
	{"ceil", castNone, unary("Ceil", keepsNothing, 1)},
	{"round", castNone, unary("Round", keepsNothing, 1)},
	{"sign", castNone, unary("Sign", keepsNothing, 1)},
	{"hardmax", castNone, unary("Hardmax", keepsNothing, 1)}, // no operator of ATen: where the largest is
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
	{"float", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.to(in[0], program.Float32)) }},
	{"type_as", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.to(in[0], in[1].dtype)) }},
	{"to_compute", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.to(in[0], r.computes())) }},
	{"clone", castNone, runClone},
	{"fill", castNone, runFill},
	{"glu", castNone, runGlu},
	{"softmax", castResult, runSoftmax("Softmax")},
	{"softmax_float", castNone, runSoftmaxFloat},
	{"log_softmax", castResult, runSoftmax("LogSoftmax")},
	{"log_softmax_typed", castNone, runSoftmaxTyped("LogSoftmax")},
}

// unary returns the rule of an element-wise operator of one argument whose backward makes
// temps tensors of the argument's size one after another and returns the last.
func unary(name string, k keeps, temps int) func(*run, *program.Call, []*tensor) []*tensor {
	return func(r *run, c *program.Call, in []*tensor) []*tensor {
		k, integers, x := k&^ofIntegers, k&ofIntegers != 0, in[0]
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
			if !dtype.IsFloat() && k != keepsNothing && !integers {
				dtype = program.Float32 // integer arguments give the default type
			}
			out = r.pointwise(dtype, x)
		}
		if !r.needsGrad(x) {
			return one(out)
		}
		var saved *tensor
		switch {
		case k == keepsInput && original != nil:
			saved = original
		case k == keepsInput:
			saved = x
		case k == keepsResult:
			saved = out
		}
		like, sliced := x.operand(), c.Args.Inplace && x.view
		n := r.record(name, one(out), one(x), one(saved), unaryBackward)
		n.know(0, like)
		n.temps, n.sliced = int16(temps), sliced
		r.release(original)
		return r.alone(out)
	}
}

func unaryBackward(r *run, n *node, g []*tensor) []*tensor {
	x := r.looks(0, n.like(0))
	if !n.sliced {
		return r.alone(r.chain(int(n.temps), g[0], x))
	}
	// CopySlices (torch/csrc/autograd/functions/tensor.cpp): the gradient of the tensor that
	// was written through a view is a copy, and the operator's backward has one of the view's.
	base := r.emptyLike(g[0], g[0].dtype)
	part := r.emptyLike(g[0], g[0].dtype)
	r.release(r.chain(int(n.temps), part, x))
	r.release(part)
	return r.alone(base)
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
func runSoftsign(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	a := unary("Abs", keepsInput, 2)(r, program.PlainCall, in)[0]
	b := runAdd(r, program.PlainCall, []*tensor{a, scalar(x.dtype)})[0]
	r.release(a)
	out := runDiv(r, program.PlainCall, []*tensor{x, b})
	r.release(b)
	return out
}

// runDropout is native_dropout: the mask, one byte an element, is allocated first and is
// all that is saved. Outside training, or with p = 0, it is the identity.
func runDropout(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	if !c.Args.Train || c.Args.P == 0 {
		return one(x.retain())
	}
	mask := r.emptyLike(x, program.Bool)
	out := r.emptyLike(x, x.dtype)
	if !r.needsGrad(x) {
		r.release(mask)
		return one(out)
	}
	r.record("NativeDropout", one(out), one(x), one(mask), func(r *run, n *node, g []*tensor) []*tensor {
		layout := inRows // suggest_memory_format, in dropout_backward_cuda of cuda/Dropout.cu
		if g[0].isChannelsLast() && !g[0].isContiguous() {
			layout = inChannels
		}
		return one(r.laid(g[0].dtype, layout(&r.layouts, g[0].shape)))
	})
	r.release(mask)
	return one(out)
}

// runFeatureDropout is dropout2d and the like, and stochastic depth: a small
// noise tensor of Args.Shape that multiplies the input.
func runFeatureDropout(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	if !c.Args.Train || c.Args.P == 0 {
		return one(x.retain())
	}
	noise := r.empty(x.dtype, c.Args.Shape...)
	out := runMul(r, program.PlainCall, []*tensor{x, noise})
	r.release(noise)
	return out
}

// runTo is Tensor.to(dtype): nothing when the type is the same already.
func runTo(r *run, c *program.Call, in []*tensor) []*tensor {
	return one(r.to(in[0], r.modelType(c.Args.DType)))
}

// modelType returns the element type that a float32 of the graph has in this run: code that makes
// tensors or casts to float takes the type of its input or of the model.
func (r *run) modelType(d program.DType) program.DType {
	if d == program.Float32 {
		return r.floats()
	}
	return d
}

func (r *run) to(x *tensor, dtype program.DType) *tensor {
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

// computes returns the element type that linear layers give their results.
func (r *run) computes() program.DType {
	if r.amp != nil {
		return r.amp.dtype
	}
	return r.floats()
}

// floats returns the element type that the model computes in, but for autocast.
func (r *run) floats() program.DType {
	if s := r.opts.Shards; s.World > 1 && s.Param != program.Undefined {
		return s.Param
	}
	return r.opts.Precision.params()
}

// runClone is Tensor.clone or contiguous of a tensor that is not.
func runClone(r *run, c *program.Call, in []*tensor) []*tensor {
	return one(r.clone(in[0], likeStrides(in[0])))
}

// runFill is a factory: zeros, ones, full, arange, or zeros_like and its kin with the tensor that they are like. It
// has no gradient.
func runFill(r *run, c *program.Call, in []*tensor) []*tensor {
	if len(in) > 0 {
		return one(r.emptyLike(in[0], in[0].dtype))
	}
	return one(r.empty(r.modelType(c.Args.DType), c.Args.Shape...))
}

// runSoftmax returns the rule of softmax or log_softmax as a model calls them: under autocast the result is
// in float32. The kernel converts float16 as it goes; bfloat16 is copied first (aten/src/ATen/native/SoftMax.cpp).
func runSoftmax(name string) func(*run, *program.Call, []*tensor) []*tensor {
	return func(r *run, c *program.Call, in []*tensor) []*tensor {
		dtype := r.resultType(in[0])
		if in[0].dtype == program.Float16 {
			return one(r.softmax(name, in[0], dtype))
		}
		x := r.to(in[0], dtype)
		out := r.softmax(name, x, dtype)
		r.release(x)
		return one(out)
	}
}

// runSoftmaxFloat is softmax(input, dim, dtype=torch.float32): autocast leaves it alone. Only float16 is converted
// by the kernel (softmax in aten/src/ATen/native/SoftMax.cpp).
func runSoftmaxFloat(r *run, c *program.Call, in []*tensor) []*tensor {
	if in[0].dtype == program.Float16 {
		return one(r.softmax("Softmax", in[0], program.Float32))
	}
	x := r.to(in[0], program.Float32)
	out := r.softmax("Softmax", x, program.Float32)
	r.release(x)
	return one(out)
}

// runSoftmaxTyped returns the rule of softmax(input, dim, dtype=input.dtype): autocast leaves a softmax that names its
// type alone (fp32_set_opt_dtype in aten/src/ATen/autocast_mode.h). By such a log_softmax F.cross_entropy begins
// (aten/src/ATen/native/LossNLL.cpp).
func runSoftmaxTyped(name string) func(*run, *program.Call, []*tensor) []*tensor {
	return func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.softmax(name, in[0], in[0].dtype)) }
}

// softmax is _softmax, _log_softmax or _safe_softmax: row-major inside and out; it saves its result. The
// backward pass of softmax multiplies gradient and result into a tensor that the kernel sums (cuda/SoftMax.cu).
func (r *run) softmax(name string, x *tensor, dtype program.DType) *tensor {
	out := r.empty(dtype, x.shape...)
	r.release(r.inLayout(x, inRows))
	if r.needsGrad(x) {
		from, oc := x.dtype, *out
		r.record(name, one(out), one(x), one(out), func(r *run, n *node, g []*tensor) []*tensor {
			t := r.empty(from, oc.shape...)
			product, copied := int64(0), copiedBytes(g[0], inRows, r)
			if name != "LogSoftmax" {
				l := r.pointwiseLayout(g[0], &oc)
				product = program.BytesOf(l.elements, promote(g[0], &oc))
				if copied = 0; !l.rowMajor {
					copied = product
				}
			}
			r.play(kernels.SoftmaxBackward(product, copied), nil)
			return one(t)
		})
	}
	return out
}

// runPRelu is prelu(input, weight): gradients for both, the weight's summed afterwards.
func runPRelu(r *run, c *program.Call, in []*tensor) []*tensor {
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
func runGlu(r *run, c *program.Call, in []*tensor) []*tensor {
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
