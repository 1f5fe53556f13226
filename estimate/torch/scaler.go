package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A gradScaler is torch.amp.GradScaler: a loss scale and a growth tracker on the GPU, made when the first
// loss is scaled. Its scale is taken to never find an infinity, so that every step is made.
type gradScaler struct {
	scale, tracker *tensor
	found          *tensor // found_inf of this step, once the gradients are unscaled
}

// scaled is scaler.scale(loss), which the caller releases.
func (r *run) scaled(g *gradScaler, loss *tensor) (*tensor, error) {
	if g.scale == nil {
		g.scale, g.tracker = r.empty(program.Float32), r.empty(program.Int32)
	}
	outs, err := r.apply(&program.Call{Op: "mul", Args: program.Plain}, []*tensor{loss, g.scale})
	if err != nil {
		return nil, err
	}
	return outs[0], nil
}

// unscale is scaler.unscale_(optimizer): the gradients are divided in place, by the inverse of the scale that is
// worked out in float64 (torch/amp/grad_scaler.py). _MultiDeviceReplicator copies even on the same device.
func (r *run) unscale(g *gradScaler) {
	wide := r.empty(program.Float64)
	reciprocal := r.empty(program.Float64)
	r.release(wide)
	inverse := r.empty(program.Float32)
	r.release(reciprocal)
	found := r.empty(program.Float32)
	g.found = r.empty(program.Float32)
	copied := r.empty(program.Float32)
	r.release(copied)
	r.release(found)
	r.release(inverse)
}

// update is scaler.update().
func (r *run) update(g *gradScaler) {
	r.release(g.found)
	g.found = nil
}

// clipNorm is torch.nn.utils.clip_grad_norm_: the norm of each gradient by _foreach_norm, which keeps
// partial results for as many chunks as the largest has; the norm of these; the factor,
// and a multiplication in place.
func (r *run) clipNorm(params []*leaf) {
	grads, dtype := int64(0), program.Undefined
	largest := int64(0)
	for _, l := range params {
		if l.grad != nil {
			if grads++; grads == 1 {
				dtype = l.grad.dtype
			}
			largest = max(largest, l.grad.numel())
		}
	}
	if grads == 0 {
		return
	}
	r.grad = false
	defer func() { r.grad = true }()
	partial := r.alloc(kernels.ForeachNorm(grads, largest), timeline.Workspace)
	norms := make([]int32, grads)
	for i := range norms {
		norms[i] = r.request(program.BytesOf(1, dtype), timeline.Temporary)
	}
	r.drop(partial)
	stacked := r.empty(dtype, grads)
	total := r.reduce(stacked, nil, false, dtype)
	r.release(stacked)
	for _, n := range norms {
		r.free(n)
	}
	sum := r.empty(dtype) // total_norm + 1e-6
	reciprocal := r.empty(dtype)
	factor := r.empty(dtype)
	r.release(reciprocal)
	r.release(sum)
	clamped := r.empty(dtype)
	r.release(clamped)
	r.release(factor)
	r.release(total)
}
