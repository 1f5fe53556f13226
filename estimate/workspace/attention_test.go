package workspace

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/gpu"
)

// Which kernel attention of 12 heads of 64 without a mask goes to, by device and type: the rules of sdp_utils.cpp.
func TestAttentionBackends(t *testing.T) {
	float32s := AttentionShape{Batch: 2, Heads: 12, KeyHeads: 12, Queries: 128, Keys: 128, Dim: 64, ValueDim: 64, Elem: 4,
		Trained: true}
	float16s, bfloat16s := float32s, float32s
	float16s.Elem, float16s.Float16 = 2, true
	bfloat16s.Elem = 2
	const cudnn, flash, efficient, math = CuDNNAttention, FlashAttention, EfficientAttention, MathAttention
	for _, c := range []struct {
		id   string
		want [3]AttentionBackend // of float32, float16 and bfloat16
	}{
		{"v100-16gb", [3]AttentionBackend{efficient, efficient, math}}, // 7.0
		{"t4", [3]AttentionBackend{efficient, efficient, math}},        // 7.5
		{"a100-80gb", [3]AttentionBackend{efficient, flash, flash}},    // 8.0
		{"a10g", [3]AttentionBackend{efficient, flash, flash}},         // 8.6
		{"l4", [3]AttentionBackend{efficient, flash, flash}},           // 8.9
		{"h100-80gb", [3]AttentionBackend{efficient, cudnn, cudnn}},    // 9.0
		{"b200", [3]AttentionBackend{efficient, cudnn, cudnn}},         // 10.0
		{"rtx-5090", [3]AttentionBackend{efficient, flash, flash}},     // 12.0
	} {
		d, err := gpu.Find(c.id)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range []AttentionShape{float32s, float16s, bfloat16s} {
			if got := a.Backend(d); got != c.want[i] {
				t.Errorf("%s, type %d: %d, want %d", c.id, i, got, c.want[i])
			}
		}
	}
}

// What single arguments change.
func TestAttentionArguments(t *testing.T) {
	half := AttentionShape{Batch: 2, Heads: 8, KeyHeads: 8, Queries: 64, Keys: 64, Dim: 64, ValueDim: 64, Elem: 2,
		Trained: true}
	for _, c := range []struct {
		what   string
		id     string
		change func(*AttentionShape)
		want   AttentionBackend
	}{
		{"heads of 256 on Hopper", "h200", func(a *AttentionShape) { a.Dim, a.ValueDim = 256, 256 }, CuDNNAttention},
		{"heads of 256 on Blackwell", "b200", func(a *AttentionShape) { a.Dim, a.ValueDim = 256, 256 }, FlashAttention},
		{"heads of 208 in training", "l4", func(a *AttentionShape) { a.Dim, a.ValueDim = 208, 208 }, EfficientAttention},
		{"heads of 208 in inference", "l4", func(a *AttentionShape) { a.Dim, a.ValueDim, a.Trained = 208, 208, false },
			FlashAttention},
		{"a mask on Ampere", "a100-80gb", func(a *AttentionShape) { a.Mask = true }, EfficientAttention},
		{"a mask and grouped heads on Ampere", "a100-80gb", func(a *AttentionShape) { a.Mask, a.KeyHeads = true, 2 },
			CuDNNAttention},
		{"a trained mask on Hopper", "h200", func(a *AttentionShape) { a.Mask, a.MaskTrained = true, true },
			EfficientAttention},
		{"float32 heads of 6 on Ampere", "a100-80gb", func(a *AttentionShape) { a.Elem, a.Dim, a.ValueDim = 4, 6, 6 },
			MathAttention},
		{"float32 heads of 6 on Turing", "t4", func(a *AttentionShape) { a.Elem, a.Dim, a.ValueDim = 4, 6, 6 },
			EfficientAttention},
		{"one key for all heads", "h200", func(a *AttentionShape) { a.KeyHeads, a.Broadcast = 1, true }, MathAttention},
	} {
		d, err := gpu.Find(c.id)
		if err != nil {
			t.Fatal(err)
		}
		a := half
		if c.change(&a); a.Backend(d) != c.want {
			t.Errorf("%s: %d, want %d", c.what, a.Backend(d), c.want)
		}
	}
}
