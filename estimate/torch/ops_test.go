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
	from := l.r.log.Len()
	f()
	for _, e := range slices.Collect(l.r.log.Events)[from:] {
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

// What nn.TransformerEncoderLayer's attention with a mask asked for in inference: 16 samples of 256 tokens, 6 heads of
// 64, float32, on an H200 with PyTorch 2.11. The output projection's cublasLt workspace was there already.
func TestNativeAttentionWithMask(t *testing.T) {
	l := newLab()
	l.r.grad = false
	in := []*tensor{l.plain(f32, 16, 256, 384), l.plain(f32, 1152, 384), l.plain(f32, 1152), l.plain(f32, 384, 384),
		l.plain(f32, 384), l.plain(f32, 16, 256)}
	from := l.r.log.Len()
	l.r.releaseAll(runNativeAttention(l.r, &program.Call{Args: &program.Args{Groups: 6}}, in))
	want := []int64{18874368, 18874368, -18874368, 25165824, 6291456, 25165824, -25165824, -6291456, -25165824, 6291456,
		6291456, -6291456, -18874368, -6291456}
	if got := l.since(from); !slices.Equal(got, want) {
		t.Errorf("events are %d, measured were %d", got, want)
	}
}

// A key of one head goes to fused kernels with enable_gqa alone. Without it only the composed one takes it, which
// keeps its probabilities.
func TestAttentionToOneHead(t *testing.T) {
	for _, broadcast := range []bool{true, false} {
		l := newLab()
		l.r.origin = 0
		q, k := l.leaf(bf16, 2, 4, 64, 8), l.leaf(bf16, 2, 1, 64, 8)
		out := runSDPA(l.r, &program.Call{Op: "sdpa", Args: &program.Args{Broadcast: broadcast}}, []*tensor{q, k, k})[0]
		kept, _ := l.r.savedBytes(out, 1)
		if probabilities := int64(2 * 4 * 64 * 64 * 4); (kept >= probabilities) != broadcast {
			t.Errorf("broadcast %v: %d bytes are saved, the probabilities are %d", broadcast, kept, probabilities)
		}
	}
}

// cuDNN's batch norm is given a row-major copy of an input that is transposed, and saves that; bfloat16's kernel takes
// it as it is.
func TestBatchNormOfTransposedInput(t *testing.T) {
	for _, tt := range []struct {
		name  string
		dtype program.DType
		want  []int64
	}{
		{"float32", f32, []int64{4 * 2 * 6 * 16, 4 * 2 * 6 * 16, 4 * 16, 4 * 16}},
		{"bfloat16", bf16, []int64{2 * 2 * 6 * 16, 4 * 16, 4 * 16}},
	} {
		l := newLab()
		x := l.r.permute(l.times(l.leaf(tt.dtype, 2, 6, 16)), []int{0, 2, 1})
		w, b := l.leaf(tt.dtype, 16), l.leaf(tt.dtype, 16)
		from := l.r.log.Len()
		y := l.do("batch_norm", program.Args{Train: true}, x, w, b)
		if got := l.since(from); !slices.Equal(got, tt.want) {
			t.Errorf("%s: events %d, wanted %d", tt.name, got, tt.want)
		}
		if y.isContiguous() != (tt.dtype == f32) {
			t.Errorf("%s: the result has strides %v", tt.name, y.stride)
		}
	}
}

// A gradient of one channel is copied to channels_last although no element moves, so that the gradient of a
// channels_last input is channels_last too: cudnn_convolution_backward asks for
// grad_output.to(input.suggest_memory_format()), which goes by strides.
func TestConvOfOneChannelKeepsChannelsLast(t *testing.T) {
	l := newLab()
	x, w := l.times(l.lastLeaf(f32, 2, 32, 16, 16)), l.leaf(f32, 1, 32, 1, 1)
	args := program.Args{Shape: []int64{2, 1, 16, 16}, Stride: []int64{1, 1}, Pad: []int64{0, 0, 0, 0},
		Dilate: []int64{1, 1}, Groups: 1}
	y := l.all("conv", args, x, w, nil)[0]
	if !y.isChannelsLast() {
		t.Fatalf("the output has strides %v, wanted channels_last", y.stride)
	}
	g := l.r.empty(f32, 2, 1, 16, 16)
	from := l.r.log.Len()
	l.r.backwardFrom(y, g)
	if got := l.since(from); len(got) == 0 || got[0] != 2*16*16*4 {
		t.Errorf("events %d, wanted the gradient's copy first", got)
	}
}

// A product of two types is one of the narrower: the cast before it is not in the graph.
func TestProductOfTwoTypes(t *testing.T) {
	l := newLab()
	for _, x := range [][2]*tensor{{l.leaf(f32, 2, 4, 8), l.leaf(bf16, 2, 8, 4)},
		{l.leaf(bf16, 2, 4, 8), l.leaf(f32, 2, 8, 4)}} {
		if out := l.op("matmul", x[0], x[1]); out.dtype != bf16 {
			t.Errorf("%s by %s is %s, wanted bfloat16", x[0].dtype, x[1].dtype, out.dtype)
		}
	}
}
