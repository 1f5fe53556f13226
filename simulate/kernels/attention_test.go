package kernels

import (
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
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
		must.OK(t, err)
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
		{"features that lie apart", "h200", func(a *AttentionShape) { a.Strided = true }, MathAttention},
		{"one key for all heads", "h200", func(a *AttentionShape) { a.KeyHeads, a.Broadcast = 1, true }, MathAttention},
	} {
		d, err := gpu.Find(c.id)
		must.OK(t, err)
		a := half
		if c.change(&a); a.Backend(d) != c.want {
			t.Errorf("%s: %d, want %d", c.what, a.Backend(d), c.want)
		}
	}
}

// Attention that returns weights, in inference: without a mask the probabilities lie where the scores were, and stay
// until the projection and their mean over the heads are made; each head's own are what is returned. With a mask, and
// without weights, scores, the mask as booleans and probabilities are there at once, and go before the projection.
func TestNativeAttention(t *testing.T) {
	x, weights := of("float32", 2, 16, 8), of("float32", 2, 16, 16)
	packed, square := of("float32", 24, 8), of("float32", 8, 8)
	args := append(tensors(x, x, x), number(8), number(4))
	args = append(args, tensors(packed, of("float32", 24), square, of("float32", 8))...)
	for _, test := range []struct {
		name    string
		rest    []Arg
		results []*Tensor
		want    string
	}{
		{"weights", []Arg{{}, number(1), number(1)}, []*Tensor{x, weights},
			"+3072 +3072 -3072 +8192 +1024 =0 -1024 =1 -8192 -3072"},
		{"weights of each head", []Arg{{}, number(1), number(0)}, []*Tensor{x, of("float32", 2, 4, 16, 16)},
			"+3072 +3072 -3072 =1 +1024 =0 -1024 -3072"},
		{"mask", append(tensors(of("bool", 16, 16)), number(0)), []*Tensor{x},
			"+3072 +3072 -3072 +8192 +2048 +8192 -8192 -2048 -8192 +1024 =0 -1024 -3072"},
	} {
		k := NewKernels(gpu.Default())
		k.useBLAS(true) // whose workspaces are there before
		k.script = nil
		c := Call{Op: "_native_multi_head_attention", Overload: "default", Results: test.results}
		c.Args = append(append([]Arg{}, args...), test.rest...)
		if got := words(k.Call(&c)); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
	}
}
