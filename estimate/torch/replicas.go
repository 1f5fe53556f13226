package torch

import (
	"cmp"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Replicas say that the run is one rank of DistributedDataParallel. The zero value is a process of its own.
type Replicas struct {
	World     int   // ranks; below 2 there is no DDP
	Rank      int   // which of them is run
	Bucket    int64 // bucket_cap_mb in bytes; 0 is its default
	View      bool  // gradient_as_bucket_view
	Static    bool  // static_graph
	Partition bool  // ZeroRedundancyOptimizer instead of the optimizer itself

	// Late keeps the bucket of the first step until the second's backward is over. NCCL's watchdog holds it until it has
	// seen the all-reduce finish, which it looks for every 100 ms, and another collective is enqueued (WorkNCCL's stash
	// in ProcessGroupNCCL.cpp). Which of the two happens is a race: measured, it was late in 10 of 48 ranks, and with a
	// static graph, where it is that of the second step in the third, in 9 of 10.
	Late bool
}

// Sizes of DistributedDataParallel, in bytes (torch/nn/parallel/distributed.py, c10d/reducer.hpp).
const (
	broadcastBucket = 250 << 20 // broadcast_bucket_size
	firstBucket     = 1 << 20   // kDefaultFirstBucketBytes
	defaultBucket   = 25 << 20  // kDefaultBucketBytesCap
)

// A reducer is c10d's Reducer: the flat buffers that gradients are reduced in.
type reducer struct {
	Replicas
	buckets []*storage
	old     []*storage // those before, while the watchdog holds them
	params  []*leaf
	ready   []*leaf // in the order of their gradients in the step before the buckets are rebuilt
	rebuilt bool
	race    race
}

// A race is what of a run hangs on when the watchdog lets go: the block of the first bucket, and the event up to which
// it lives with Replicas.Late.
type race struct {
	block int32
	until int
}

// rebuilds returns the step that makes buckets anew. A static graph is looked at for one step before
// (Reducer::autograd_hook leaves out its first iteration).
func (d *reducer) rebuilds() int32 {
	if d.Static {
		return 3
	}
	return 2
}

// delays reports whether a step reduces all gradients at its end: the first of a static graph.
func (d *reducer) delays(step int32) bool { return d != nil && d.Static && step == 1 }

// settled reports whether the steps after this one find the buckets as it did.
func (d *reducer) settled(step int32) bool { return d == nil || step >= d.rebuilds()-1 }

// category is what a bucket is for: with views it holds the gradients themselves.
func (d *reducer) category() timeline.Category {
	if d.View {
		return timeline.Gradient
	}
	return timeline.Temporary
}

// replicate is DistributedDataParallel(model): the state is broadcast in flat copies, two at a time
// (c10d::broadcast_coalesced), then one bucket holds all gradients (_ddp_init_helper: one size limit, sys.maxsize,
// where unused parameters are not looked for).
func (r *run) replicate(values []*tensor, params []*leaf) {
	if r.opts.Replicas.World < 2 || !r.opts.Train {
		return
	}
	r.ddp = &reducer{Replicas: r.opts.Replicas, params: params}
	var state []*tensor
	for _, kind := range []program.ValueKind{program.Parameter, program.Buffer} {
		for _, id := range r.prog.State {
			if r.prog.Values[id].Kind == kind {
				state = append(state, values[id])
			}
		}
	}
	r.broadcast(state)
	total := int64(0)
	for _, l := range params {
		total += l.param.bytes()
	}
	r.ddp.buckets = []*storage{r.alloc(total, r.ddp.category())}
	if r.ddp.Static {
		r.alloc(4*int64(len(params)), timeline.Temporary) // Reducer::initialize_local_used_map
	}
}

// broadcast is _sync_module_states and _sync_buffers: tensors of one type in flat copies of up to broadcastBucket. One
// alone in its bucket is sent as it is: at::flatten_dense_tensors of a single tensor is a view of it, unless its order
// is not that of its elements.
func (r *run) broadcast(list []*tensor) {
	var types []program.DType
	ofType := map[program.DType][]*tensor{}
	for _, t := range list {
		if _, ok := ofType[t.dtype]; !ok {
			types = append(types, t.dtype)
		}
		ofType[t.dtype] = append(ofType[t.dtype], t)
	}
	var flying []*storage // nil for a view
	land := func() {
		if flying[0] != nil {
			r.drop(flying[0])
		}
		flying = flying[1:]
	}
	for _, d := range types {
		for _, bucket := range bucketed(ofType[d], broadcastBucket) {
			if len(flying) == 2 {
				land()
			}
			var flat *storage
			if len(bucket) > 1 || !bucket[0].isContiguous() {
				flat = r.alloc(bytesOf(bucket), timeline.Temporary)
			}
			flying = append(flying, flat)
		}
	}
	for len(flying) > 0 {
		land()
	}
}

// bucketed is compute_bucket_assignment_by_size: a bucket is closed once it has reached its limit. The last limit
// holds on.
func bucketed(list []*tensor, limits ...int64) (buckets [][]*tensor) {
	first, sum := 0, int64(0)
	for i, t := range list {
		sum += t.bytes()
		if sum >= limits[min(len(buckets), len(limits)-1)] {
			buckets = append(buckets, list[first:i+1])
			first, sum = i+1, 0
		}
	}
	if first < len(list) {
		buckets = append(buckets, list[first:])
	}
	return buckets
}

// bytesOf is what a flat copy of tensors takes.
func bytesOf(list []*tensor) (sum int64) {
	for _, t := range list {
		sum += t.bytes()
	}
	return sum
}

// rebuild makes the buckets anew before the forward pass of the step that does, in the order in which gradients came
// (Reducer::rebuild_buckets).
func (r *run) rebuild() {
	d := r.ddp
	if d.rebuilt || r.step != d.rebuilds() {
		return
	}
	indices := r.alloc(4*int64(len(d.ready)+1), timeline.Temporary) // sync_bucket_indices
	r.drop(r.alloc(4*int64(len(d.ready)+1), timeline.Temporary))
	r.drop(indices)
	d.race.block = d.buckets[0].block
	if d.old, d.buckets = d.buckets, nil; !d.Late {
		r.dropOld()
	}
	ready := make([]*tensor, len(d.ready))
	for i, l := range d.ready {
		ready[i] = l.param
	}
	limits := []int64{firstBucket, defaultBucket}
	if d.Bucket > 0 {
		limits = []int64{d.Bucket} // bucket_bytes_cap_default is false
	}
	for _, bucket := range bucketed(ready, limits...) {
		d.buckets = append(d.buckets, r.alloc(bytesOf(bucket), d.category()))
	}
	d.rebuilt = true
}

// beforeForward is DistributedDataParallel._pre_forward: every step broadcasts the buffers.
func (r *run) beforeForward(values []*tensor) {
	if r.ddp == nil {
		return
	}
	r.rebuild()
	var buffers []*tensor
	for _, id := range r.prog.State {
		if r.prog.Values[id].Kind == program.Buffer {
			buffers = append(buffers, values[id])
		}
	}
	r.broadcast(buffers)
}

// sink is _DDPSink, which the results of a static graph's first forward pass go through: a copy of each.
func (r *run) sink(out *tensor) *tensor {
	if out == nil || !r.ddp.delays(r.step) {
		return out
	}
	c := r.emptyLike(out, out.dtype)
	if r.needsGrad(out) {
		r.record("_DDPSink", one(c), one(out), nil, passOn)
	}
	r.release(out)
	return c
}

// passOn is the backward of what leaves its only argument as it is.
func passOn(r *run, _ *node, g []*tensor) []*tensor {
	outs := r.outs(1)
	if g[0] != nil {
		outs[0] = g[0].retain()
	}
	return outs
}

// reduceDelayed is Reducer::delay_all_reduce: the gradients of all parameters at once.
func (r *run) reduceDelayed() {
	if !r.ddp.delays(r.step) {
		return
	}
	for _, l := range r.ddp.params {
		if l.grad != nil {
			r.intoBucket(l)
		}
	}
}

// dropOld lets go of the first steps' buckets.
func (r *run) dropOld() {
	d := r.ddp
	if d == nil {
		return
	}
	if d.rebuilt && d.race.until == 0 { // the first backward pass since then
		d.race.until = r.log.Written()
	}
	for _, s := range d.old {
		r.drop(s)
	}
	d.old = nil
}

// reduceGradient is the hook of a parameter whose gradient is there (Reducer::mark_variable_ready_dense): it is copied
// into its bucket, which it becomes a view of where the bucket is to hold it.
func (r *run) reduceGradient(l *leaf) {
	d := r.ddp
	if d == nil {
		return
	}
	if r.step == d.rebuilds()-1 && !slices.Contains(d.ready, l) {
		d.ready = append(d.ready, l)
	}
	if !d.delays(r.step) {
		r.intoBucket(l)
	}
}

// intoBucket copies a gradient into its bucket.
func (r *run) intoBucket(l *leaf) {
	d := r.ddp
	if d.View && l.grad != nil && len(d.buckets) > 0 && !slices.Contains(d.buckets, l.grad.st) {
		g := l.grad
		d.buckets[0].refs++
		l.grad = &tensor{layout: g.layout, st: d.buckets[0], dtype: g.dtype, refs: 1, view: true}
		r.recategorize(g.st, timeline.AutogradDetail)
		r.release(g)
	}
}

// own are the parameters that this rank's optimizer steps: ZeroRedundancyOptimizer._partition_parameters gives each,
// the largest first, to the rank that has the least.
func (r *run) own(params []*leaf) []*leaf {
	d := r.ddp
	if d == nil || !d.Partition {
		return params
	}
	sorted := slices.Clone(params)
	slices.SortStableFunc(sorted, func(a, b *leaf) int { return cmp.Compare(b.param.numel(), a.param.numel()) })
	totals := make([]int64, d.World)
	var mine []*leaf
	for _, l := range sorted {
		rank := slices.Index(totals, slices.Min(totals))
		if totals[rank] += l.param.numel(); rank == d.Rank {
			mine = append(mine, l)
		}
	}
	return mine
}
