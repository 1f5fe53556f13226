package torch

import (
	"reflect"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A run emits the events of PyTorch executing a program.
type run struct {
	opts   *Options
	prog   *program.Program
	log    *timeline.Log // on its own: whoever keeps it shall not keep the run, which is several times larger
	step   int32
	layer  int32
	origin int32 // Call.Origin of the call that runs, -1 outside of any
	grad   bool  // gradient mode
	amp    *autocast
	seq    int32 // sequence number of the next autograd node
	passes int32 // backward passes so far
	rows   map[string]*op

	inBackward bool // the autograd thread is running

	libraries
	reused

	values     []*tensor // of the program's values; activations are here while a forward pass runs
	index      int32     // of the call that runs
	born       int32     // allocations so far
	callStart  int32     // those before the operator of the call
	frame      *frame    // the checkpointed span that the forward pass is in
	recomputed *frame    // the one that backward recomputes
	packed     int       // what the recomputation has saved

	checkpoints, noGrad []program.Span // see wrapped

	noGradSpan *program.Span // the one of noGrad that runs
	stopAt     int32         // see stopped; 0 is nowhere

	hooked [2][]*leaf // of the graph behind the loss, and of the one that is made: see requireGrads

	ddp    *reducer  // nil without DistributedDataParallel
	shards *sharding // nil without FSDP2

	stream uint8 // that memory is asked for on

	err error // the first that happened: what follows it does not count

	like *timeline.Log // Options.Like, until the first forward pass is over
	same bool          // see Run.Same

	lives lives // the same for every pass

	reduced [64]reduction // the last ones: see reduceScratch

	criterion string      // the loss of the first output, once it is known
	heads     heads       // the outputs that the loss takes
	made      tensorsMade // see Options.Tensors
	saved     int64       // see Run.Saved
	savedBy   []int64
}

// libraries are what cuBLAS and cuDNN keep between calls, and how cuDNN planned to compute what it was asked for.
type libraries struct {
	blas [2]bool // cuBLAS workspace taken, by thread: forward, backward
	lt   [2]bool // cublasLt workspace, likewise
	dnn  [2]bool // cuDNN used, by thread

	dropoutState *storage // cuDNN's state of random numbers; nil until it is taken

	plans   plans  // of convolutions
	planKey []byte // room for a key of it
	// of convolutions: see search
	searched map[searched]bool
}

// lives say when the values of a program die.
type lives struct {
	of   *program.Program
	ends program.Liveness
}

// Known is what a run has worked out that others need not: how cuDNN computes convolutions on its device, and how long
// the values of its program live.
type Known struct {
	plans plans
	lives lives
}

// Known returns it, for Options of others. Their Run.Workspaces speak of the convolutions of this run too.
func (r *Run) Known() Known { return r.known }

// reused is what a run allocates many at a time, or once for all calls to use again.
type reused struct {
	tensors  slab[tensor]
	storages slab[storage]
	leaves   slab[leaf]
	accs     slab[node]
	nodes    slab[recorded]
	edges    slab[edge]
	saves    slab[*storage]
	freed    recycled   // what nothing refers to any more
	args     []*tensor  // room for the arguments of a call
	grads    []*tensor  // room for the gradients that a node gets
	results  []*tensor  // room for those that it makes
	work     []*node    // room for walks of the graph
	layouts  layouts    // of tensors; they stay good
	likes    [2]tensor  // see looks
	nowhere  storage    // theirs
	only     [1]*tensor // see alone
}

// outs returns room for the gradients of n inputs, none yet; it is good until the node is done.
func (r *run) outs(n int) []*tensor {
	r.results = slices.Grow(r.results[:0], n)[:n]
	clear(r.results)
	return r.results
}

// A Spare is memory that runs take one after another: see Options.Spare. The zero Spare has none yet.
type Spare struct {
	reused
	log  *timeline.Log
	rows map[string]*op
}

// take gives a run what is spare, which is not there for another until the run gives it back.
func (s *Spare) take(r *run, brief bool) {
	if s.rows == nil {
		s.rows = rowsByName()
	}
	r.rows, r.reused, s.reused = s.rows, s.reused, reused{}
	r.tensors.keep, r.storages.keep, r.leaves.keep, r.nodes.keep = true, true, true, true
	r.edges.keep, r.saves.keep = true, true
	if brief && s.log != nil {
		r.log, s.log = s.log, nil
		r.log.Reset()
	}
}

// reset takes back all that was allocated.
func (u *reused) reset() {
	u.freed = recycled{u.freed.tensors[:0], u.freed.storages[:0], u.freed.nodes[:0]}
	u.tensors.reset()
	u.storages.reset()
	u.leaves.reset()
	u.nodes.reset()
	u.edges.reset()
	u.saves.reset()
}

// put takes back what a run is through with.
func (s *Spare) put(r *run, brief bool) {
	s.reused = r.reused
	s.reset()
	if brief {
		s.log = r.log
	}
}

// A slab hands out values that it allocates many at a time: a run makes thousands, and none outlives it.
type slab[T any] struct {
	free []T
	used stack[*T] // to be handed out again

	keep   bool  // what is allocated, for a run after this one
	chunks [][]T // kept
	taken  int   // of these by this run
}

// reset takes everything back.
func (s *slab[T]) reset() { s.free, s.used.n, s.taken = nil, 0, 0 }

// slabBytes is how large a chunk of a slab is: what the runtime has of 8 KiB beside the word that it keeps there
// itself.
const slabBytes = 8<<10 - 8

// one returns a value; what it holds is not cleared.
func (s *slab[T]) one() *T {
	if s.used.n > 0 {
		return s.used.pop()
	}
	return &s.some(1)[0]
}

// manyAtOnce is beyond how many values a list has memory of its own.
const manyAtOnce = 32

// some returns a list of n zero values.
func (s *slab[T]) some(n int) []T {
	if n > len(s.free) {
		if n > manyAtOnce {
			return make([]T, n)
		}
		s.free = s.chunk()
	}
	list := s.free[:n:n]
	s.free = s.free[n:]
	return list
}

// chunk returns zero values in slabBytes.
func (s *slab[T]) chunk() []T {
	if s.taken < len(s.chunks) {
		c := s.chunks[s.taken]
		s.taken++
		clear(c)
		return c
	}
	c := make([]T, slabBytes/reflect.TypeFor[T]().Size())
	if s.keep {
		s.chunks = append(s.chunks, c)
		s.taken++
	}
	return c
}

// A stack grows without moving what it holds.
type stack[T any] struct {
	chunks [][]T
	n      int
}

const stackChunk = slabBytes / 8 // pointers

func (s *stack[T]) push(list []T) {
	for _, v := range list {
		if s.n == stackChunk*len(s.chunks) {
			s.chunks = append(s.chunks, make([]T, stackChunk))
		}
		s.chunks[s.n/stackChunk][s.n%stackChunk] = v
		s.n++
	}
}

func (s *stack[T]) pop() T {
	s.n--
	return s.chunks[s.n/stackChunk][s.n%stackChunk]
}

// recycled holds what nothing in the run refers to any more. It is handed out again, but not at once: whoever released
// a tensor may look at its shape until the call or the node is done that it works on. Rules for backward hold no
// tensors of the forward pass but copies of them.
type recycled struct {
	tensors  []*tensor
	storages []*storage
	nodes    []*recorded
}

// forgetGone is called between two steps, where no other run takes a run's memory: what was recycled is not handed out
// again. The gradients that a step leaves are wanted when the graph of the next one is gone again, and both together
// would be the most that a run takes.
func (r *run) forgetGone() {
	if r.opts.Spare == nil {
		r.tensors.used, r.storages.used, r.freed = stack[*tensor]{}, stack[*storage]{}, recycled{}
	}
}

// recycle is called between two calls or nodes.
func (r *run) recycle() {
	k := &r.freed
	r.tensors.used.push(k.tensors)
	r.storages.used.push(k.storages)
	if r.nodes.keep { // else the next graph is made anew, and this one's memory is free as soon as its nodes have run
		r.nodes.used.push(k.nodes)
	}
	clear(k.nodes)
	k.tensors, k.storages, k.nodes = k.tensors[:0], k.storages[:0], k.nodes[:0]
}
