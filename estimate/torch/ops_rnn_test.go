package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// requests returns the sizes that a function asks the allocator for.
func (l *lab) requests(f func()) (sizes []int64) {
	from := len(l.r.log.Timeline().Events)
	f()
	for _, e := range l.r.log.Timeline().Events[from:] {
		if e.Kind == timeline.Alloc {
			sizes = append(sizes, e.Bytes)
		}
	}
	return sizes
}

// cuDNN's state for dropout between layers is asked for once, and kept.
func TestDropoutStateOfRecurrentLayers(t *testing.T) {
	l := newLab()
	l.r.dropoutState = nil
	x, w := l.leaf(f32, 16, 4, 64), l.leaf(f32, 4*64*(64+64+2))
	const state = 132 * 48 << 10
	call := func(p float64, layers int64) func() {
		return func() {
			c := &program.Call{Args: &program.Args{P: p, Train: true, Hidden: 64, Layers: layers}}
			l.r.releaseAll(runRNN(kernels.LSTM)(l.r, c, []*tensor{x, nil, nil, w}))
		}
	}
	if slices.Contains(l.requests(call(0, 2)), state) || slices.Contains(l.requests(call(0.3, 1)), state) {
		t.Error("a state without dropout between layers")
	}
	if !slices.Contains(l.requests(call(0.3, 2)), state) {
		t.Error("no state for dropout")
	}
	if slices.Contains(l.requests(call(0.3, 2)), state) {
		t.Error("a second state")
	}
}

// Where only the final state is used, backward makes zeros for the output's gradient, and another copy of them
// where the batch comes first.
func TestGradientOfFinalStateAlone(t *testing.T) {
	const steps, batch, width = 24, 4, 64
	for _, batchFirst := range []bool{false, true} {
		l := newLab()
		x, w := l.plain(f32, steps, batch, width), l.leaf(f32, 4*width*(width+width+2))
		if batchFirst {
			x.layout = l.r.layouts.at(x.shape, []int64{width, steps * width, 1})
		}
		out := runRNN(kernels.LSTM)(l.r, &program.Call{Args: &program.Args{Train: true, Hidden: width, Layers: 1}},
			[]*tensor{x, nil, nil, w})
		zeros := 0
		for _, n := range l.requests(func() { l.r.backwardFrom(out[1], l.plain(f32, 1, batch, width)) }) {
			if n == steps*batch*width*4 {
				zeros++
			}
		}
		want := 2 // zeros and the input's gradient
		if batchFirst {
			want = 5 // the zeros again as cuDNN reads them, and the input, for each of the two calls
		}
		if zeros != want {
			t.Errorf("batch first %v: %d tensors of the output's size, wanted %d", batchFirst, zeros, want)
		}
	}
}

// The gradient of an initial state goes on to what made it: a decoder that begins with an encoder's state trains that.
func TestGradientOfInitialStates(t *testing.T) {
	const steps, batch, width = 24, 4, 64
	for _, given := range []int{0, 1, 2} {
		l := newLab()
		x, w := l.plain(f32, steps, batch, width), l.plain(f32, 4*width*(width+width+2))
		in := []*tensor{x, nil, nil, w}
		for i := range given {
			in[1+i] = l.leaf(f32, 1, batch, width)
		}
		out := runRNN(kernels.LSTM)(l.r, &program.Call{Args: &program.Args{Train: true, Hidden: width, Layers: 1}}, in)
		if wants := out[0].fn != nil; wants != (given > 0) {
			t.Fatalf("%d states given: the result has a gradient: %v", given, wants)
		}
		if given > 0 {
			l.r.backwardFrom(out[0], l.plain(f32, steps, batch, width))
		}
		for i := range given {
			if g := in[1+i].leaf.grad; g == nil || g.bytes() != batch*width*4 {
				t.Errorf("%d states given: state %d has the gradient %v", given, i, g)
			}
		}
	}
}

// A packed batch keeps what its elements need, and is padded again.
func TestPackedBatch(t *testing.T) {
	l := newLab()
	const steps, batch, width, packed = 16, 4, 64, 40
	x, w := l.leaf(f32, steps, batch, width), l.leaf(f32, 4*width*(width+width+2))
	c := &program.Call{Args: &program.Args{Train: true, Hidden: width, Layers: 1, Packed: packed}}
	var shape []int64
	sizes := l.requests(func() {
		outs := runRNN(kernels.LSTM)(l.r, c, []*tensor{x, nil, nil, w})
		shape = slices.Clone(outs[0].shape)
		l.r.releaseAll(outs)
	})
	reserve := kernels.RNNShape{Kind: kernels.LSTM, Elem: 4, Steps: steps, Batch: batch, Input: width, Hidden: width,
		Layers: 1, Packed: packed}.ReserveBytes()
	for _, want := range []int64{packed * width * 4, reserve, steps * batch * width * 4} {
		if !slices.Contains(sizes, want) {
			t.Errorf("no request of %d bytes among %v", want, sizes)
		}
	}
	if !slices.Equal(shape, []int64{steps, batch, width}) {
		t.Errorf("the result is %v", shape)
	}
}
