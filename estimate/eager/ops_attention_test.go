package eager

import (
	"slices"
	"testing"
)

// What nn.TransformerEncoderLayer's attention with a mask asked for in inference: 16 samples of 256 tokens, 6 heads of 64,
// float32, on an H200 with PyTorch 2.11. The output projection's cublasLt workspace was there already.
func TestNativeAttentionWithMask(t *testing.T) {
	l := newLab()
	l.r.grad = false
	in := []*tensor{l.plain(f32, 16, 256, 384), l.plain(f32, 1152, 384), l.plain(f32, 1152), l.plain(f32, 384, 384), l.plain(f32, 384)}
	from := len(l.r.log.Timeline().Events)
	l.r.releaseAll(runNativeAttention(l.r, &Call{Args: &Args{Groups: 6}}, in))
	want := []int64{18874368, 18874368, -18874368, 25165824, 6291456, 25165824, -25165824, -6291456, -25165824, 6291456, 6291456, -6291456, -18874368, -6291456}
	if got := l.since(from); !slices.Equal(got, want) {
		t.Errorf("events are %d, measured were %d", got, want)
	}
}
