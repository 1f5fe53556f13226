package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// DeepSpeed says that the run is one rank of DeepSpeed's ZeRO, with its default settings, as its sources have it
// (0.16.5: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py): nobody has measured it. The zero value is without.
type DeepSpeed struct {
	World  int
	Stage  int   // 2: gradients and states are divided; 3: parameters too
	Bucket int64 // reduce_bucket_size in bytes; 0 is its default
	Meta   bool  // under zero.Init: no rank ever holds all of the model
}

// Settings of DeepSpeed, in elements (deepspeed/runtime/zero/config.py).
const (
	reduceBucket   = 500_000_000   // reduce_bucket_size
	liveParameters = 1_000_000_000 // stage3_max_live_parameters
	prefetchBucket = 50_000_000    // stage3_prefetch_bucket_size
	persistent     = 100_000       // stage3_param_persistence_threshold: smaller parameters stay whole on each rank
)

// A zero is the optimizer of DeepSpeed: flat tensors in place of parameters and gradients.
type zero struct {
	DeepSpeed
	dtype    program.DType
	part     int64    // elements that are this rank's
	gathered int64    // bytes of the parameters that stage 3 gathers
	master   *leaf    // single_partition_of_fp32_groups
	bucket   *storage // ipg_buffer
	whole    *storage // what stage 3 has gathered
	own      *storage // of the gradients those that are this rank's
}

func (z *zero) bucketBytes() int64 {
	if z.Bucket > 0 {
		return z.Bucket
	}
	return program.BytesOf(reduceBucket, z.dtype)
}

// flattenAll is the constructor of DeepSpeedZeroOptimizer, or of its stage 3: it returns what the optimizer steps.
func (r *run) flattenAll(values []*tensor, params []*leaf) []*leaf {
	if r.opts.DeepSpeed.World < 2 || !r.opts.Train || len(params) == 0 {
		return params
	}
	z := &zero{DeepSpeed: r.opts.DeepSpeed, dtype: params[0].param.dtype}
	r.zero = z
	n := int64(z.World)
	numel := int64(0)
	for _, l := range params {
		numel += l.param.numel()
	}
	if z.Stage == 3 {
		for _, l := range params {
			z.part += (l.param.numel() + n - 1) / n
		}
		r.partition(z, params)
	} else {
		z.part = (numel + 2*n - 1) / (2 * n) * 2 // flatten_dense_tensors_aligned: nccl_start_alignment_factor
		for _, l := range params {               // they pass through the CPU
			r.vacate(l.param)
		}
		r.alloc(program.BytesOf(z.part*n, z.dtype), timeline.Parameter).state = true
	}
	var copied *storage // clone().float(), of which the second does nothing to float32
	if z.Stage == 2 && z.dtype != program.Float32 {
		copied = r.alloc(program.BytesOf(z.part, z.dtype), timeline.Temporary)
	}
	st := r.alloc(program.BytesOf(z.part, program.Float32), timeline.OptimizerState)
	st.state = true
	if copied != nil {
		r.drop(copied)
	}
	t := r.tensors.one()
	*t = tensor{layout: r.layouts.rowMajor([]int64{z.part}), st: st, dtype: program.Float32, refs: 1, requiresGrad: true}
	z.master = r.leaves.one()
	*z.master = leaf{param: t}
	t.leaf = z.master
	r.scratch(program.BytesOf(z.part, program.Float32), timeline.Temporary) // initialize_optimizer_states
	return []*leaf{z.master}
}

// vacate moves a parameter out of its memory. Weights of an RNN share theirs, which the last of them frees: where some
// are frozen, they keep it.
func (r *run) vacate(t *tensor) {
	st := *t.st
	r.drop(t.st)
	st.block, st.refs = noBlock, 1
	t.st = &st
}

// partition is what stage 3 does to parameters: each is cut, the parts are put together, and what small ones there are
// come back. Bucket and gradients have their room for the whole run.
func (r *run) partition(z *zero, params []*leaf) {
	var parts []*storage
	small := int64(0)
	for _, l := range params {
		numel := l.param.numel()
		each := (numel + int64(z.World) - 1) / int64(z.World)
		parts = append(parts, r.alloc(program.BytesOf(each, z.dtype), timeline.Parameter))
		if r.vacate(l.param); numel <= persistent {
			small += program.BytesOf(numel, z.dtype)
		} else {
			z.gathered += numel
		}
	}
	r.alloc(program.BytesOf(z.part, z.dtype), timeline.Parameter) // fp16_partitioned_groups_flat
	for _, st := range parts {
		r.drop(st)
	}
	r.alloc(small, timeline.Parameter)
	z.gathered = program.BytesOf(min(z.gathered, liveParameters+prefetchBucket), z.dtype)
	z.bucket = r.alloc(z.bucketBytes(), timeline.Temporary)              // __ipg_bucket_flat_buffer
	z.own = r.alloc(program.BytesOf(z.part, z.dtype), timeline.Gradient) // grad_partitions_flat_buffer
}

// gatherAll is the parameters that stage 3 has in a forward and backward pass: as many as it may hold at a time, since
// it lets go of none that is used again within as many elements (stage3_max_reuse_distance).
func (r *run) gatherAll() {
	if z := r.zero; z != nil && z.Stage == 3 && z.whole == nil {
		z.whole = r.alloc(z.gathered, timeline.Parameter)
	}
}

// beginReducing is DeepSpeedZeroOptimizer.backward: stage 2 makes the bucket anew for each backward pass.
func (r *run) beginReducing() {
	if z := r.zero; z != nil && z.Stage == 2 {
		z.bucket = r.alloc(z.bucketBytes(), timeline.Temporary)
	}
}

// reduceInto takes a gradient into the bucket; of what is reduced a rank keeps its part (copy_grads_in_partition).
func (r *run) reduceInto(l *leaf) {
	z := r.zero
	if z == nil || l.grad == nil {
		return
	}
	if z.own == nil {
		z.own = r.alloc(program.BytesOf(z.part, z.dtype), timeline.Gradient)
	}
	r.recategorize(l.grad.st, timeline.AutogradDetail)
	r.release(l.grad)
	l.grad = nil
}

// endReducing is the end of a backward pass.
func (r *run) endReducing() {
	z := r.zero
	if z == nil {
		return
	}
	if z.Stage == 2 {
		r.drop(z.bucket)
		z.bucket = nil
	}
	if z.whole != nil {
		r.drop(z.whole)
		z.whole = nil
	}
}

// stepMaster is the optimizer's step on the part of the parameters in float32: its gradients are put together and
// cast. What it leaves is gathered into the flat tensor in place.
func (r *run) stepMaster(o *optimizer) {
	z := r.zero
	if z == nil {
		r.stepOptimizer(o)
		return
	}
	grad := r.alloc(program.BytesOf(z.part, z.dtype), timeline.Temporary)
	if z.dtype != program.Float32 {
		wide := r.alloc(program.BytesOf(z.part, program.Float32), timeline.Temporary)
		r.drop(grad)
		grad = wide
	}
	if z.Stage == 2 {
		r.drop(z.own)
		z.own = nil
	}
	z.master.grad = r.tensors.one()
	*z.master.grad = tensor{layout: z.master.param.layout, st: grad, dtype: program.Float32, refs: 1}
	r.stepOptimizer(o)
	r.release(z.master.grad)
	z.master.grad = nil
}
