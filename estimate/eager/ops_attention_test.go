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

// The memory-efficient backward pass accumulates the queries' gradients, however many keys there are: the tiles of 64 rows and
// their locks. Measured of queries of 64 x 64 pixels to keys of 8 x 8, of 16 heads of 32.
func TestEfficientWorkspace(t *testing.T) {
	for _, c := range []struct{ heads, queries, d, want int64 }{{16, 4096, 32, 16793600}, {32, 1024, 32, 8396800}, {80, 256, 32, 5248000}} {
		if got := efficientWorkspace(c.heads, c.queries, c.d); got != c.want {
			t.Errorf("%d heads of %d queries: %d bytes, want %d", c.heads, c.queries, got, c.want)
		}
	}
}
