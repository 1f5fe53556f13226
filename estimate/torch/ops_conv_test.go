package torch

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

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
	from := len(l.r.log.Timeline().Events)
	l.r.backwardFrom(y, g)
	if got := l.since(from); len(got) == 0 || got[0] != 2*16*16*4 {
		t.Errorf("events %d, wanted the gradient's copy first", got)
	}
}
