package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// What nn.TransformerEncoderLayer's attention with a mask asked for in inference: 16 samples of 256 tokens, 6 heads of
// 64, float32, on an H200 with PyTorch 2.11. The output projection's cublasLt workspace was there already.
func TestNativeAttentionWithMask(t *testing.T) {
	l := newLab()
	l.r.grad = false
	in := []*tensor{l.plain(f32, 16, 256, 384), l.plain(f32, 1152, 384), l.plain(f32, 1152), l.plain(f32, 384, 384),
		l.plain(f32, 384), l.plain(f32, 16, 256)}
	from := len(l.r.log.Timeline().Events)
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
