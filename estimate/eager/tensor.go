package eager

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// A storage is one allocation. It is freed when the last tensor that refers to
// it is gone.
type storage struct {
	block int32 // its block in the timeline; noBlock when it has no bytes
	bytes int64
	refs  int32
	state bool // it belongs to the module: a parameter or a buffer
	brief bool // see tensor.brief

	parameter bool // it holds a parameter
	counted   bool // savedBytes has met it
}

const noBlock = -1

// A tensor is a view of a storage, as PyTorch's TensorImpl: the same storage
// may have several. Its references are counted, because the autograd engine
// decides by the count whether it may take a gradient over or add in place.
type tensor struct {
	st     *storage
	shape  []int64
	stride []int64 // in elements
	fn     *node   // the autograd node that made it; nil for leaves
	leaf   *leaf   // a parameter's gradient; nil otherwise
	refs   int32
	nr     int32 // which of fn's outputs it is
	dtype  onnxload.DType
	host   bool // a CPU scalar: it has no storage and never allocates
	view   bool // another tensor's storage: PyTorch keeps that tensor alive with it (as_view)
	brief  bool // made while nothing is recorded, so that no node of the graph knows it

	requiresGrad bool
}

// bytesOf returns the bytes of n elements.
func bytesOf(n int64, d onnxload.DType) int64 { return n * d.Bits() / 8 }

func numel(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

func (t *tensor) numel() int64 { return numel(t.shape) }

func (t *tensor) bytes() int64 { return bytesOf(t.numel(), t.dtype) }

// contiguousStrides returns the strides of a row-major tensor. As in PyTorch, a
// dimension of size 0 counts as 1.
func contiguousStrides(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= max(shape[i], 1)
	}
	return s
}

// channelsLastStrides returns the strides of NHWC or NDHWC order.
func channelsLastStrides(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	order := []int{1}
	for i := len(shape) - 1; i >= 2; i-- {
		order = append(order, i)
	}
	for _, i := range append(order, 0) {
		s[i] = n
		n *= max(shape[i], 1)
	}
	return s
}

// isContiguous reports row-major order; the strides of dimensions of size 1 do
// not matter.
func (t *tensor) isContiguous() bool {
	if t.numel() == 0 {
		return true
	}
	n := int64(1)
	for i := len(t.shape) - 1; i >= 0; i-- {
		if t.shape[i] != 1 {
			if t.stride[i] != n {
				return false
			}
			n *= t.shape[i]
		}
	}
	return true
}

// isChannelsLast reports NHWC or NDHWC order as is_channels_last_strides_2d of
// c10/core/MemoryFormat.h decides it, by the strides alone.
func (t *tensor) isChannelsLast() bool {
	if len(t.shape) != 4 && len(t.shape) != 5 || t.stride[1] == 0 {
		return false
	}
	least := int64(0)
	order := []int{1, 3, 2, 0}
	if len(t.shape) == 5 {
		order = []int{1, 4, 3, 2, 0}
	}
	for _, d := range order {
		if t.shape[d] == 0 || t.stride[d] < least {
			return false
		}
		// [N,1,1,1] with the strides of a row-major tensor is not channels last.
		if d == 0 && least == t.stride[1] {
			return false
		}
		least = t.stride[d]
		if t.shape[d] > 1 {
			least *= t.shape[d]
		}
	}
	return true
}

// isDense reports whether the elements fill their storage without gaps or
// overlaps, in some order of the dimensions.
func isDense(shape, stride []int64) bool {
	perm := make([]int, 0, 8)
	for i, n := range shape {
		if n == 0 {
			return true
		}
		if n > 1 {
			perm = append(perm, i)
		}
	}
	slices.SortFunc(perm, func(a, b int) int { return int(min(1, max(-1, stride[a]-stride[b]))) })
	n := int64(1)
	for _, i := range perm {
		if stride[i] != n {
			return false
		}
		n *= shape[i]
	}
	return true
}

// A run emits the events of PyTorch executing a program.
type run struct {
	opts   *Options
	prog   *Program
	log    timeline.Log
	step   int32
	layer  int32
	at     int32 // Call.Node of the call that runs, -1 outside of any
	grad   bool  // gradient mode
	amp    *autocast
	seq    int64 // sequence number of the next autograd node
	passes int32 // backward passes so far
	rows   map[string]*op

	blas [2]bool // cuBLAS workspace taken, by thread: forward, backward
	lt   [2]bool // cublasLt workspace, likewise
	dnn  [2]bool // cuDNN used, by thread

	dropoutState *storage // cuDNN's state of random numbers; nil until it is taken
	back         bool     // the autograd thread is running

	plans   map[string]int32 // of convolutions: see plan
	planned []convPlan       // by plan less 1
	planKey []byte           // room for a key of it

	err error // the first that happened: what follows it does not count

	ends   [][]ValueID // see Program.lifetimes; the same for every pass
	unread map[int]int32

	tensors  slab[tensor]
	storages slab[storage]
	nodes    slab[node]
	edges    slab[edge]
	metas    slab[meta]
	saves    slab[*storage]
	lists    slab[*tensor]
	gone     [2]remains // what is not used any more: made while something was recorded, and while not

	criterion string // the loss, once it is known
	saved     int64  // see Run.Saved
	savedBy   []int64
}

// alloc makes a storage of this many bytes with one reference. PyTorch makes no
// request for none.
func (r *run) alloc(bytes int64, c timeline.Category) *storage {
	if bytes > maxBytes {
		r.tooLarge(fmt.Sprintf("%d bytes", bytes))
		bytes = 0
	}
	if bytes <= 0 {
		s := r.storages.one()
		*s = storage{block: noBlock, refs: 1, brief: !r.grad}
		return s
	}
	s := r.storages.one()
	*s = storage{block: r.log.Alloc(timeline.Request{Bytes: bytes, Layer: r.layer, Category: c}, 0), bytes: bytes, refs: 1, brief: !r.grad}
	return s
}

// drop drops a reference to a storage; the last frees it.
func (r *run) drop(s *storage) {
	s.refs--
	if s.refs > 0 {
		return
	}
	if s.block != noBlock {
		r.log.Free(s.block, r.layer)
	}
	k := &r.gone[kept(s.brief)]
	k.storages = append(k.storages, s)
}

// recategorize says what a block turned out to be for.
func (r *run) recategorize(s *storage, c timeline.Category) {
	if s.block != noBlock {
		r.log.Request(s.block).Category = c
	}
}

// scratch allocates and frees memory that an operator needs while it runs.
func (r *run) scratch(bytes int64, c timeline.Category) {
	if bytes > 0 {
		r.drop(r.alloc(bytes, c))
	}
}

// category is what an operator's outputs are for.
func (r *run) category() timeline.Category {
	if r.back {
		return timeline.AutogradDetail
	}
	if !r.grad {
		return timeline.Temporary
	}
	return timeline.Activation
}

// empty returns a new row-major tensor with one reference.
func (r *run) empty(dtype onnxload.DType, shape ...int64) *tensor {
	return r.strided(dtype, shape, contiguousStrides(shape))
}

// strided returns a new dense tensor of these strides.
func (r *run) strided(dtype onnxload.DType, shape, stride []int64) *tensor {
	bytes, ok := checkedBytes(shape, dtype)
	if !ok {
		r.tooLarge(fmt.Sprintf("shape %v", shape))
	}
	t := r.tensors.one()
	*t = tensor{st: r.alloc(bytes, r.category()), shape: shape, stride: stride, dtype: dtype, refs: 1, brief: !r.grad}
	return t
}

// tooLarge fails the run for a tensor that no computer holds.
func (r *run) tooLarge(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("a tensor of %s: more than %d TiB, which no computer has", what, int64(maxBytes)>>40)
	}
}

// emptyLike returns a new tensor of t's shape. As at::empty_like does, it keeps
// the strides of a dense tensor, otherwise the order of t's strides.
func (r *run) emptyLike(t *tensor, dtype onnxload.DType) *tensor {
	return r.strided(dtype, t.shape, likeStrides(t))
}

func likeStrides(t *tensor) []int64 {
	if isDense(t.shape, t.stride) {
		return t.stride
	}
	return iteratorStrides(t.shape, t)
}

// alias returns another tensor of t's storage with one reference.
func (r *run) alias(t *tensor, shape, stride []int64) *tensor {
	if t.host {
		return &tensor{host: true, shape: shape, stride: stride, dtype: t.dtype, refs: 1}
	}
	t.st.refs++
	view := r.tensors.one()
	*view = tensor{st: t.st, shape: shape, stride: stride, dtype: t.dtype, refs: 1, view: true, brief: !r.grad}
	return view
}

// scalar returns a Python number: it has no memory on the GPU.
func scalar(dtype onnxload.DType) *tensor {
	return &tensor{host: true, dtype: dtype, refs: 1}
}

func (t *tensor) retain() *tensor {
	t.refs++
	return t
}

// release drops a reference. Dropping the last frees the storage, unless another
// tensor shares it, and lets go of the graph behind the tensor.
func (r *run) release(t *tensor) {
	if t == nil {
		return
	}
	t.refs--
	if t.refs > 0 {
		return
	}
	if t.host {
		return
	}
	r.drop(t.st)
	if t.fn != nil {
		r.dropNode(t.fn)
		t.fn = nil
	}
	k := &r.gone[kept(t.brief)]
	k.tensors = append(k.tensors, t)
}

// iteratorStrides returns the strides that TensorIterator gives an output of this
// shape that it allocates: dimensions ordered by the operands' strides
// (TensorIteratorBase::reorder_dimensions in aten/src/ATen/TensorIterator.cpp).
func iteratorStrides(shape []int64, operands ...*tensor) []int64 {
	n := len(shape)
	if n <= 1 {
		return contiguousStrides(shape)
	}
	at := func(t *tensor, d int) int64 { // stride of t for dimension d of the result, 0 where it broadcasts
		j := d - (n - len(t.shape))
		if j < 0 || t.shape[j] == 1 && shape[d] != 1 {
			return 0
		}
		return t.stride[j]
	}
	perm := make([]int, n)
	for i := range perm {
		perm[i] = n - 1 - i
	}
	shouldSwap := func(a, b int) int {
		for _, t := range operands {
			if t == nil || t.host {
				continue
			}
			x, y := at(t, a), at(t, b)
			switch {
			case x == 0 || y == 0:
				continue
			case x < y:
				return -1
			case x > y:
				return 1
			case shape[a] > shape[b]:
				return 1
			}
		}
		return 0
	}
	for i := 1; i < n; i++ {
		d1 := i
		for d0 := i - 1; d0 >= 0; d0-- {
			c := shouldSwap(perm[d0], perm[d1])
			if c > 0 {
				perm[d0], perm[d1] = perm[d1], perm[d0]
				d1 = d0
			} else if c < 0 {
				break
			}
		}
	}
	stride := make([]int64, n)
	s := int64(1)
	for _, d := range perm {
		stride[d] = s
		s *= max(shape[d], 1)
	}
	return stride
}

// pointwise returns the output of an element-wise operator: the broadcast shape
// in the layout that TensorIterator chooses.
func (r *run) pointwise(dtype onnxload.DType, operands ...*tensor) *tensor {
	shape := broadcastShape(operands...)
	return r.strided(dtype, shape, pointwiseStrides(shape, operands...))
}

func pointwiseStrides(shape []int64, operands ...*tensor) []int64 {
	// TensorIterator's fast set-up: operands that all have the output's shape and
	// one dense layout pass that layout on.
	var first *tensor
	same := true
	for _, t := range operands {
		if t == nil || t.host {
			continue
		}
		if !slices.Equal(t.shape, shape) {
			same = false
			break
		}
		if first == nil {
			first = t
		} else if !slices.Equal(first.stride, t.stride) {
			same = false
		}
	}
	if same && first != nil && isDense(first.shape, first.stride) {
		return first.stride
	}
	return iteratorStrides(shape, operands...)
}

func broadcastShape(operands ...*tensor) []int64 {
	n := 0
	for _, t := range operands {
		if t != nil {
			n = max(n, len(t.shape))
		}
	}
	shape := make([]int64, n)
	for i := range shape {
		shape[i] = 1
		for _, t := range operands {
			if t == nil {
				continue
			}
			if j := i - (n - len(t.shape)); j >= 0 && t.shape[j] != 1 {
				shape[i] = t.shape[j]
			}
		}
	}
	return shape
}

// promote returns the element type of an arithmetic result: that of the tensors
// with dimensions, unless one without is of a higher kind (bool < integer < float;
// aten/src/ATen/native/TypeProperties.cpp).
func promote(operands ...*tensor) onnxload.DType {
	var best [3]onnxload.DType // with dimensions, zero-dimensional, Python number
	for _, t := range operands {
		if t == nil {
			continue
		}
		k := 0
		if t.host {
			k = 2
		} else if len(t.shape) == 0 {
			k = 1
		}
		best[k] = wider(best[k], t.dtype)
	}
	if best[2].IsFloat() {
		best[2] = onnxload.Float32 // a Python float takes the default type
	}
	out := best[0]
	for _, d := range best[1:] {
		if kindRank(d) > kindRank(out) {
			out = d
		}
	}
	return out
}

func kindRank(d onnxload.DType) int {
	switch {
	case d == onnxload.Undefined:
		return 0
	case d == onnxload.Bool:
		return 1
	case d.IsInt():
		return 2
	case d.IsFloat():
		return 3
	}
	return 4
}

func wider(a, b onnxload.DType) onnxload.DType {
	switch ra, rb := kindRank(a), kindRank(b); {
	case a == b || ra < rb:
		return b
	case ra > rb:
		return a
	case a.Bits() == b.Bits() && a.IsFloat():
		return onnxload.Float32 // float16 with bfloat16
	case a.Bits() >= b.Bits():
		return a
	}
	return b
}
