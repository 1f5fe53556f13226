package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// normOps are the normalisations. Statistics are in float32 whatever the input is.
var normOps = []op{
	{"batch_norm", castNone, runBatchNorm},       // aten/src/ATen/native/Normalization.cpp, cudnn/BatchNorm.cpp
	{"instance_norm", castNone, runInstanceNorm}, // composed of batch_norm over [1, N*C, ...]
	{"layer_norm", castFloat, runLayerNorm},      // cuda/layer_norm_kernel.cu
	{"rms_norm", castNone, runRMSNorm},           // _fused_rms_norm; autocast has no rule for it before PyTorch 2.12
	{"group_norm", castFloat, runGroupNorm},      // cuda/group_norm_kernel.cu
	{"weight_norm", castNone, runWeightNorm},     // cuda/WeightNorm.cu
}

// runBatchNorm is batch_norm(input, weight, bias, running_mean, running_var). In training it saves the input and the
// batch's mean and inverse deviation; in evaluation only the input. cuDNN and the native kernel allocate alike, but
// for an input that is neither row-major nor channels_last: cuDNN is given a copy,
// input.contiguous(input.suggest_memory_format()) in _batch_norm_impl_index (aten/src/ATen/native/Normalization.cpp),
// which is what it saves. bfloat16 and what lacks a weight is left to the native kernel.
func runBatchNorm(r *run, c *program.Call, in []*tensor) []*tensor {
	x, w, b := in[0], in[1], in[2]
	return one(r.batchNorm(x, w, b, c.Args.Train))
}

func (r *run) batchNorm(x, w, b *tensor, train bool) *tensor {
	if x.dtype != program.BFloat16 && len(x.shape) > 2 && w != nil && b != nil && !x.isChannelsLast() && !x.isContiguous() {
		x = r.contiguous(x)
		defer r.release(x)
	}
	channels := x.shape[1]
	out := r.emptyLike(x, x.dtype)
	var saved []*tensor
	if train {
		saved = []*tensor{r.empty(program.Float32, channels), r.empty(program.Float32, channels)}
	}
	if x.isChannelsLast() && !x.isContiguous() {
		r.channelsLastNorm(x, train, false)
	}
	if r.needsGrad(x, w, b) {
		xc, affine, params := *x, w != nil, program.Undefined
		if affine {
			params = w.dtype
		}
		r.record("BatchNorm", one(out), []*tensor{x, w, b}, append([]*tensor{x, w}, saved...),
			func(r *run, n *node, g []*tensor) []*tensor {
				gi := r.inLayout(g[0], func(ls *layouts, shape []int64) *layout { return ls.at(shape, xc.stride) })
				outs := make([]*tensor, 3)
				last := xc.isChannelsLast() && !xc.isContiguous()
				native := train && last && xc.dtype != program.Float32 // batch_norm_backward_reduce, then _elemt
				var sums []*tensor
				if native {
					sums = []*tensor{r.empty(program.Float32, channels), r.empty(program.Float32, channels)}
				} else {
					outs[0] = r.emptyLike(&xc, xc.dtype)
				}
				if affine {
					outs[1] = r.empty(params, channels)
					outs[2] = r.empty(params, channels)
				}
				if last {
					r.channelsLastNorm(&xc, train, true)
				}
				if native {
					outs[0] = r.emptyLike(&xc, xc.dtype)
					r.release(sums[0])
					r.release(sums[1])
				}
				r.release(gi)
				return outs
			})
	}
	for _, t := range saved {
		r.release(t)
	}
	return out
}

// channelsLastNorm allocates and frees what batch norm of a channels-last x takes.
func (r *run) channelsLastNorm(x *tensor, train, backward bool) {
	if train {
		r.play(kernels.BatchNormChannelsLast(x.numel(), x.shape[1], x.dtype.Bits()/8, backward), nil)
	}
}

// runInstanceNorm is F.instance_norm: weight and bias repeated N times, then batch_norm over
// the input seen as one sample of N*C channels.
func runInstanceNorm(r *run, c *program.Call, in []*tensor) []*tensor {
	x := r.contiguous(in[0])
	n, ch := x.shape[0], x.shape[1]
	var w, b *tensor
	if len(in) > 2 && in[1] != nil {
		w, b = r.repeat(in[1], n), r.repeat(in[2], n)
	}
	flat := r.reshape(x, append([]int64{1, n * ch}, x.shape[2:]...))
	y := r.batchNorm(flat, w, b, true)
	out := r.reshape(y, x.shape)
	for _, t := range []*tensor{x, w, b, flat, y} {
		r.release(t)
	}
	return one(out)
}

// repeat is Tensor.repeat of a vector.
func (r *run) repeat(t *tensor, n int64) *tensor {
	out := r.empty(t.dtype, t.shape[0]*n)
	if r.needsGrad(t) {
		shape := t.shape
		r.record("Repeat", one(out), one(t), nil, func(r *run, _ *node, g []*tensor) []*tensor {
			v := r.alias(g[0], []int64{n, shape[0]}, []int64{shape[0], 1})
			s := r.reduce(v, []int{0}, false, g[0].dtype)
			r.release(v)
			return one(s)
		})
	}
	return out
}

// runLayerNorm is layer_norm(input, weight, bias) over the last len(Args.Shape) dimensions.
func runLayerNorm(r *run, c *program.Call, in []*tensor) []*tensor {
	return one(r.lastDimsNorm("NativeLayerNorm", in, len(c.Args.Shape), 2))
}

// runRMSNorm is rms_norm(input, weight). A weight of another type than the input, as autocast leaves it, is
// no case for the fused kernel: rms_norm_composite in aten/src/ATen/native/layer_norm.cpp takes over.
func runRMSNorm(r *run, c *program.Call, in []*tensor) []*tensor {
	if len(in) > 1 && in[1] != nil && in[1].dtype != in[0].dtype {
		return one(r.compositeRMSNorm(in[0], in[1], len(c.Args.Shape)))
	}
	return one(r.lastDimsNorm("FusedRmsNorm", in, len(c.Args.Shape), 1))
}

// lastDimsNorm normalises over the last dims dimensions and keeps stats vectors of one
// float32 for each row: mean and inverse deviation, or only the latter.
func (r *run) lastDimsNorm(name string, in []*tensor, dims, stats int) *tensor {
	x := in[0]
	rows := program.Numel(x.shape[:len(x.shape)-dims])
	// A strided input is copied for the kernel, forward and backward; what is saved is the input itself.
	xi := r.inLayout(x, inRows)
	out := r.empty(x.dtype, x.shape...)
	saved := append([]*tensor{x}, in[1:]...)
	var kept []*tensor
	for range stats {
		kept = append(kept, r.empty(program.Float32, rows))
	}
	if r.needsGrad(in...) {
		xc, params := *x, make([]operand, len(in)-1)
		for i, p := range in[1:] {
			if p != nil {
				params[i] = p.operand()
			}
		}
		r.record(name, one(out), append([]*tensor{x}, in[1:]...), append(saved, kept...),
			func(r *run, n *node, g []*tensor) []*tensor {
				xi := r.inLayout(&xc, inRows)
				outs := make([]*tensor, len(n.next))
				outs[0] = r.empty(xc.dtype, xc.shape...)
				for i, p := range params {
					if n.wants(i + 1) {
						outs[i+1] = r.empty(p.dtype, p.shape...)
					}
				}
				gi := r.inLayout(g[0], inRows)
				if len(params) > 0 && n.wants(1) {
					r.play(kernels.LayerNormBackward(rows, program.Numel(xc.shape)/max(rows, 1), xc.dtype.Bits()/8, stats, *r.opts.GPU),
						nil)
				}
				r.release(gi)
				if xi != &xc { // a copy; storages do not tell, for that of x may have been given to the copy
					r.release(xi)
				}
				return outs
			})
	}
	r.release(xi) // a local of the kernel's; the statistics are results that nobody takes
	for _, t := range kept {
		r.release(t)
	}
	return out
}

// runGroupNorm is group_norm(input, weight, bias) with Args.Groups groups.
func runGroupNorm(r *run, c *program.Call, in []*tensor) []*tensor {
	x := r.contiguous(in[0])
	n, ch, groups := x.shape[0], x.shape[1], c.Args.Groups
	out := r.empty(x.dtype, x.shape...)
	mean, rstd := r.empty(x.dtype, n, groups), r.empty(x.dtype, n, groups)
	r.play(kernels.GroupNorm(n, ch), nil)
	if r.needsGrad(in...) {
		xc, w, affine, biased, params := *x, in[1], in[1] != nil, in[2] != nil, program.Undefined
		if affine {
			params = w.dtype
		}
		r.record("NativeGroupNorm", one(out), append([]*tensor{x}, in[1:]...), []*tensor{x, w, mean, rstd},
			func(r *run, nd *node, g []*tensor) []*tensor {
				gi := r.inLayout(g[0], inRows)
				outs := make([]*tensor, 3)
				outs[0] = r.empty(xc.dtype, xc.shape...)
				if affine {
					outs[1] = r.empty(params, ch)
				}
				if biased {
					outs[2] = r.empty(params, ch)
				}
				r.play(kernels.GroupNormBackward(n, ch, groups), nil)
				r.release(gi)
				return outs
			})
	}
	for _, t := range []*tensor{mean, rstd, x} {
		r.release(t)
	}
	return one(out)
}

func (r *run) compositeRMSNorm(x, w *tensor, dims int) *tensor {
	var last []int
	for i := len(x.shape) - dims; i < len(x.shape); i++ {
		last = append(last, i)
	}
	wide := r.to(x, program.Float32)
	square := runPow(r, program.PlainCall, []*tensor{wide, scalar(program.Float32)})[0]
	mean := r.mean(square, last, true)
	sum := runAdd(r, &program.Call{Args: &program.Args{Inplace: true}}, []*tensor{mean, scalar(program.Float32)})[0]
	rstd := unary("Rsqrt", keepsResult, 3)(r, program.PlainCall, one(sum))[0]
	r.release(sum)
	r.release(mean)
	r.release(square)
	normal := runMul(r, program.PlainCall, []*tensor{wide, rstd})[0]
	scaled := runMul(r, program.PlainCall, []*tensor{normal, w})[0]
	r.release(normal)
	r.release(wide)
	out := r.to(scaled, x.dtype)
	r.release(rstd)
	r.release(scaled)
	return out
}

// runWeightNorm is _weight_norm_interface(v, g): the weight, then the norms, in float32 unless the weight has more
// bits; it saves all but the weight. Its backward makes both gradients.
func runWeightNorm(r *run, c *program.Call, in []*tensor) []*tensor {
	v, g := in[0], in[1]
	w := r.emptyLike(v, v.dtype)
	norms := r.empty(wider(program.Float32, g.dtype), g.shape...)
	if r.needsGrad(v, g) {
		vc, gc := *v, *g
		r.record("WeightNormInterface", []*tensor{w, norms}, in, []*tensor{g, v, norms},
			func(r *run, n *node, grads []*tensor) []*tensor {
				gi := r.inLayout(grads[0], inRows)
				outs := []*tensor{r.emptyLike(&vc, vc.dtype), r.emptyLike(&gc, gc.dtype)}
				r.releaseCopy(gi, grads[0])
				return outs
			})
	}
	r.release(norms)
	return one(w)
}
