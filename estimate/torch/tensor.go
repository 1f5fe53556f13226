package torch

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A storage is one allocation. It is freed when the last tensor that refers to
// it is gone.
type storage struct {
	bytes int64
	block int32 // its block in the timeline; noBlock when it has no bytes
	refs  int32
	born  int32 // its number among all of the run

	state     bool // it belongs to the module: a parameter or a buffer
	parameter bool // it holds a parameter
	counted   bool // savedBytes has met it
}

const noBlock = -1

// A tensor is a view of a storage, as PyTorch's TensorImpl: the same storage
// may have several. Its references are counted, because the autograd engine
// decides by the count whether it may take a gradient over or add in place.
type tensor struct {
	*layout
	st    *storage
	fn    *node // the autograd node that made it; nil for leaves
	leaf  *leaf // a parameter's gradient; nil otherwise
	refs  int32
	nr    int32 // which of fn's outputs it is
	dtype program.DType
	host  bool // a CPU scalar: it has no storage and never allocates
	view  bool // another tensor's storage: PyTorch keeps that tensor alive with it (as_view)

	requiresGrad bool
}

func (t *tensor) numel() int64 { return t.elements }

func (t *tensor) bytes() int64 { return program.BytesOf(t.elements, t.dtype) }

func (t *tensor) isContiguous() bool { return t.rowMajor }

func (t *tensor) isChannelsLast() bool { return t.last }

// alloc makes a storage of this many bytes with one reference.
func (r *run) alloc(bytes int64, c timeline.Category) *storage {
	if bytes > program.MaxBytes {
		r.tooLarge(fmt.Sprintf("%d bytes", bytes))
		bytes = 0
	}
	s := r.storages.one()
	r.born++
	*s = storage{block: noBlock, bytes: max(bytes, 0), refs: 1, born: r.born}
	if !r.stopped() {
		s.block = r.request(bytes, c)
	}
	return s
}

// request makes a block of this many bytes. PyTorch makes no request for none.
func (r *run) request(bytes int64, c timeline.Category) int32 {
	if bytes <= 0 {
		return noBlock
	}
	return r.log.Alloc(timeline.Request{Bytes: bytes, Layer: r.layer, Category: c, Stream: r.stream}, 0)
}

// free gives a block back.
func (r *run) free(block int32) {
	if block != noBlock {
		r.log.Free(block, r.layer)
	}
}

// drop drops a reference to a storage; the last frees it.
func (r *run) drop(s *storage) {
	s.refs--
	if s.refs > 0 {
		return
	}
	r.free(s.block)
	r.freed.storages = append(r.freed.storages, s)
}

// recategorize says what a block turned out to be for.
func (r *run) recategorize(s *storage, c timeline.Category) {
	if s.block != noBlock {
		r.log.SetCategory(s.block, c)
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
	if r.inBackward && r.recomputed == nil {
		return timeline.AutogradDetail
	}
	if !r.grad {
		return timeline.Temporary
	}
	return timeline.Activation
}

// empty returns a new row-major tensor with one reference.
func (r *run) empty(dtype program.DType, shape ...int64) *tensor {
	return r.laid(dtype, r.layouts.rowMajor(shape))
}

// strided returns a new dense tensor of these strides.
func (r *run) strided(dtype program.DType, shape, stride []int64) *tensor {
	return r.laid(dtype, r.layouts.at(shape, stride))
}

// laid returns a new dense tensor of this layout.
func (r *run) laid(dtype program.DType, l *layout) *tensor {
	bytes := int64(0)
	if l.room*max(dtype.Bits(), 1) <= maxElements {
		bytes = program.BytesOf(l.elements, dtype)
	} else {
		r.tooLarge(fmt.Sprintf("shape %v", l.shape))
	}
	t := r.tensors.one()
	*t = tensor{layout: l, st: r.alloc(bytes, r.category()), dtype: dtype, refs: 1}
	if r.opts.Tensors && t.st.block != noBlock {
		r.made.add(t.st.block, dtype, l)
	}
	return t
}

// keeps notes which node keeps tensors for backward.
func (r *run) keeps(name string, saved []*tensor) {
	for _, t := range saved {
		if t != nil && !t.host {
			r.made.keep(t.st.block, name)
		}
	}
}

// tooLarge fails the run for a tensor that no computer holds.
func (r *run) tooLarge(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("a tensor of %s: more than %d TiB, which no computer has", what, int64(program.MaxBytes)>>40)
	}
}

// emptyLike returns a new tensor of t's shape. As at::empty_like does, it keeps
// the strides of a dense tensor, otherwise the order of t's strides.
func (r *run) emptyLike(t *tensor, dtype program.DType) *tensor {
	if t.dense {
		return r.laid(dtype, t.layout)
	}
	return r.strided(dtype, t.shape, iteratorStrides(t.shape, t))
}

func likeStrides(t *tensor) []int64 {
	if t.dense {
		return t.stride
	}
	return iteratorStrides(t.shape, t)
}

// alias returns another tensor of t's storage with one reference.
func (r *run) alias(t *tensor, shape, stride []int64) *tensor {
	return r.look(t, r.layouts.at(shape, stride))
}

// look is alias with a layout.
func (r *run) look(t *tensor, l *layout) *tensor {
	if t.host {
		return &tensor{layout: l, host: true, dtype: t.dtype, refs: 1}
	}
	t.st.refs++
	view := r.tensors.one()
	*view = tensor{layout: l, st: t.st, dtype: t.dtype, refs: 1, view: true}
	return view
}

// scalar returns a Python number: it has no memory on the GPU.
func scalar(dtype program.DType) *tensor {
	return &tensor{layout: noDims, host: true, dtype: dtype, refs: 1}
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
	if t.refs > 0 || t.host {
		return
	}
	r.drop(t.st)
	if t.fn != nil {
		r.dropNode(t.fn)
		t.fn = nil
	}
	r.freed.tensors = append(r.freed.tensors, t)
}

// alone returns a list of one tensor, which is good until the next.
func (r *run) alone(t *tensor) []*tensor {
	r.only[0] = t
	return r.only[:]
}

// An operand is what a rule for backward holds of a tensor.
type operand struct {
	*layout
	dtype program.DType
	host  bool
}

func (t *tensor) operand() operand { return operand{t.layout, t.dtype, t.host} }

// looks returns a tensor that looks like an operand, for operators to work with: it has no memory, and is good until
// the next in its place, 0 or 1.
func (r *run) looks(place int, o operand) *tensor {
	t := &r.likes[place]
	r.nowhere.refs++
	*t = tensor{layout: o.layout, st: &r.nowhere, dtype: o.dtype, host: o.host, refs: 1}
	return t
}
