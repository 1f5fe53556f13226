package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A lab runs operators as a short Python function would, so that what they ask of the
// allocator can be held against what PyTorch asked. A tensor that an operator returns is
// gone after the next operator has taken it, as in a nested expression, unless the
// function keeps it in a variable.
type lab struct {
	r      *run
	kept   map[*tensor]bool
	locals []*tensor // variables of the function, in the order of assignment
	ones   bool      // backward makes its own gradient, as loss.backward() does
	err    error     // the first operator that has no row
}

func newLab() *lab {
	device := gpu.Default()
	r := &run{log: new(timeline.Log), opts: &Options{Train: true, GPU: &device}, prog: &program.Program{},
		layer: timeline.NoLayer, rows: rowsByName(), grad: true}
	r.blas, r.lt = [2]bool{true, true}, [2]bool{true, true} // the workspaces that a thread keeps are there already
	r.dropoutState = r.alloc(kernels.DropoutState(device), timeline.Workspace)
	return &lab{r: r, kept: map[*tensor]bool{}}
}

// plain returns a tensor that is there before the measurement begins and wants no gradient.
func (l *lab) plain(d program.DType, shape ...int64) *tensor {
	t := l.r.empty(d, shape...)
	l.kept[t] = true
	return t
}

// leaf returns a tensor that is there before the measurement begins and wants a gradient.
func (l *lab) leaf(d program.DType, shape ...int64) *tensor { return l.wants(l.plain(d, shape...)) }

// lastLeaf is a leaf in channels_last.
func (l *lab) lastLeaf(d program.DType, shape ...int64) *tensor {
	t := l.r.strided(d, shape, kernels.ChannelsLast(shape))
	l.kept[t] = true
	return l.wants(t)
}

func (l *lab) wants(t *tensor) *tensor {
	t.leaf = &leaf{param: t}
	t.requiresGrad = true
	return t
}

// let keeps a tensor in a variable until the function returns.
func (l *lab) let(t *tensor) *tensor {
	l.kept[t] = true
	l.locals = append(l.locals, t)
	return t
}

// del drops a variable before the function returns.
func (l *lab) del(t *tensor) {
	l.locals = slices.DeleteFunc(l.locals, func(o *tensor) bool { return o == t })
	l.r.release(t)
}

// all calls an operator and returns its outputs.
func (l *lab) all(op string, a program.Args, in ...*tensor) []*tensor {
	args := slices.Clone(in)
	outs, err := l.r.apply(&program.Call{Op: op, Args: &a}, args)
	if err != nil {
		l.err = err
		return []*tensor{l.plain(f32, 1)}
	}
	for i, t := range in {
		if t != nil && !t.host && !l.kept[t] && !slices.Contains(in[:i], t) {
			l.r.release(t)
		}
	}
	return slices.Clone(outs)
}

// do calls an operator and returns the first of its outputs; the others are dropped.
func (l *lab) do(op string, a program.Args, in ...*tensor) *tensor {
	outs := l.all(op, a, in...)
	for _, t := range outs[1:] {
		l.r.release(t)
	}
	return outs[0]
}

// op calls an operator without arguments but tensors.
func (l *lab) op(op string, in ...*tensor) *tensor { return l.do(op, program.Args{}, in...) }

// num is a Python number.
func num() *tensor { return scalar(program.Float32) }

// since returns the signed sizes of the events from the i-th on.
func (l *lab) since(i int) []int64 {
	sizes := []int64{}
	for _, e := range slices.Collect(l.r.log.Events)[i:] {
		switch e.Kind {
		case timeline.Alloc:
			sizes = append(sizes, e.Bytes)
		case timeline.Free:
			sizes = append(sizes, -e.Bytes)
		}
	}
	return sizes
}

// workspaces returns the sizes of the workspaces among all events.
func (l *lab) workspaces() map[int64]bool {
	m := map[int64]bool{}
	for e := range l.r.log.Events {
		if e.Kind == timeline.Alloc && e.Category == timeline.Workspace {
			m[e.Bytes] = true
		}
	}
	return m
}

// measure calls the function, then y.backward(g) with a gradient that the caller holds.
func (l *lab) measure(f func() *tensor) (forward, backward []int64) {
	a := l.r.log.Len()
	y := f()
	for _, t := range l.locals {
		l.r.release(t)
	}
	forward = l.since(a)
	if y == nil || !y.requiresGrad {
		return forward, nil
	}
	if l.ones {
		b := l.r.log.Len()
		l.r.runBackward(y)
		return forward, l.since(b)
	}
	g := l.r.empty(y.dtype, y.shape...)
	if y.dense {
		g.layout = y.layout
	}
	b := l.r.log.Len()
	l.r.backwardFrom(y, g)
	return forward, l.since(b)
}
