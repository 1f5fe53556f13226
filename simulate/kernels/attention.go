package kernels

import "github.com/memestimate/memestimate/simulate/gpu"

// An AttentionBackend computes scaled_dot_product_attention.
type AttentionBackend uint8

// The back ends.
const (
	CuDNNAttention AttentionBackend = iota
	FlashAttention
	EfficientAttention
	MathAttention // composed of other operators
)

// An AttentionShape is a scaled_dot_product_attention of queries [Batch, Heads, Queries, Dim], keys [Batch, KeyHeads,
// Keys, Dim] and values [Batch, KeyHeads, Keys, ValueDim].
type AttentionShape struct {
	Batch, Heads, KeyHeads int64
	Queries, Keys          int64
	Dim, ValueDim          int64
	Elem                   int64 // bytes of an element
	Float16                bool  // 2 bytes are a float16, not a bfloat16
	Trained                bool  // a gradient is wanted
	Mask                   bool  // there is one
	MaskTrained            bool  // and it needs a gradient
	Strided                bool  // the last dimension of one of these, or of the mask, does not lie close together
	Broadcast              bool  // one key and value for all heads without enable_gqa
}

// Backend chooses as sdp::select_sdp_backend does with cuDNN 9.19
// (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp): the first of those that take these arguments on a device, in
// the order in which priority_order gives them there.
func (a AttentionShape) Backend(d gpu.Device) AttentionBackend {
	if a.Broadcast { // check_batch_size_and_num_heads_dense: only enable_gqa allows fewer heads of the key
		return MathAttention
	}
	if a.Strided { // check_last_dim_stride_equals_1_dense: a table of biases with the heads moved to the front
		return MathAttention
	}
	for _, b := range attentionOrder(d.Capability) {
		if a.takes(b, d.Capability) {
			return b
		}
	}
	return MathAttention
}

// attentionOrder is priority_order_init_: cuDNN comes first on the devices that its newer versions were found faster
// on, else last.
func attentionOrder(c gpu.Capability) [3]AttentionBackend {
	switch c {
	case gpu.Capability{Major: 9, Minor: 0}, gpu.Capability{Major: 9, Minor: 3}, gpu.Capability{Major: 10, Minor: 0},
		gpu.Capability{Major: 10, Minor: 3}:
		return [3]AttentionBackend{CuDNNAttention, FlashAttention, EfficientAttention}
	}
	return [3]AttentionBackend{FlashAttention, EfficientAttention, CuDNNAttention}
}

// takes reports whether a kernel takes these arguments on devices of a capability. Those of 16 bits that are no
// float16 are bfloat16.
//
//   - cuDNN's (can_use_cudnn_attention): 16 bits on 8.0 and later, heads in eights of up to 128, or 256 on 9.0
//     (measured with 160 and 256), any dropout (measured with 0.1), masks that want no gradient;
//   - flash attention (can_use_flash_attention): 16 bits on 8.0 and later, heads of up to 256, no mask; in training 8.6
//     to 8.9 and 12.x refuse heads of 193 to 224, for which they have too little shared memory;
//   - the memory-efficient kernel (can_use_mem_efficient_attention): bfloat16 on 8.0 and later, equal numbers of heads,
//     heads in multiples of what its matrix instructions load (minimum_gemm_alignment): 8 of 16 bits, 4 of float32
//     where tensor cores have TF32, from 8.0 on, and 1 before. It alone has a gradient for the mask.
func (a AttentionShape) takes(b AttentionBackend, c gpu.Capability) bool {
	half, ampere := a.Elem == 2, c.AtLeast(8, 0)
	switch b {
	case CuDNNAttention:
		widest := int64(128)
		if c == (gpu.Capability{Major: 9, Minor: 0}) {
			widest = 256
		}
		return half && ampere && a.Dim%8 == 0 && a.Dim <= widest && a.Keys > 1 && !a.MaskTrained
	case FlashAttention:
		small := c.Major == 8 && c.Minor >= 6 || c.Major == 12
		return half && ampere && a.Dim <= 256 && !a.Mask && !(small && a.Trained && a.Dim > 192 && a.Dim <= 224)
	case EfficientAttention:
		align := int64(4)
		switch {
		case half:
			align = 8
		case !ampere:
			align = 1
		}
		return a.Heads == a.KeyHeads && (ampere || !half || a.Float16) && a.Dim%align == 0 && a.ValueDim%align == 0
	}
	return true
}

// Forward is what a fused kernel takes once its results are there.
func (a AttentionShape) Forward(b AttentionBackend) (s Script) {
	if b == CuDNNAttention {
		s.scratch(256)
	}
	return s
}

// Backward makes the gradients of query, key and value (results 0 to 2), and that of a mask that is trained (result 3).
// copied are the bytes of the gradient that comes in, if it does not lie as [Batch, Queries, Heads, ValueDim], else 0:
// the memory-efficient kernel copies it.
func (a AttentionShape) Backward(b AttentionBackend, copied int64) (s Script) {
	heads := saturate(a.Batch, a.Heads)
	switch b {
	case EfficientAttention:
		gradient := s.take(copied)
		s.makes(0, 1, 2)
		if a.MaskTrained {
			s.makes(3)
		}
		result := saturate(heads, a.Queries, a.ValueDim, 4)
		var wide []int // the output and the gradient in float32
		if a.Elem != 4 {
			wide = []int{s.take(result), s.take(result)}
		}
		product := s.take(result)
		delta := s.take(saturate(heads, a.Queries, 4))
		if a.Heads > 1 && a.Queries > 1 { // delta is wanted as [B, H, L]
			sum := delta
			delta = s.take(saturate(heads, a.Queries, 4))
			s.give(sum)
		}
		s.give(product)
		s.give(wide...)
		scratch := s.take(efficientWorkspace(heads, a.Queries, max(a.Dim, a.ValueDim)))
		s.give(delta, scratch, gradient)
	case CuDNNAttention:
		s.makes(0, 1, 2)
		bytes := cudnnAttentionWorkspace(heads, a.Queries, a.Dim)
		if a.KeyHeads != a.Heads { // the plan first makes the gradients of all heads
			bytes += saturate(heads, a.Keys, a.Dim+a.ValueDim, a.Elem)
		}
		s.scratch(bytes)
	case FlashAttention:
		s.makes(0, 1, 2)
		sum := s.take(saturate(heads, padTo(a.Queries, 128), 4))
		accumulated := s.take(saturate(heads, padTo(a.Queries, 128), padTo(a.Dim, 32), 4))
		s.give(accumulated, sum)
	}
	return s
}

// efficientWorkspace returns the bytes that the memory-efficient backward pass
// accumulates the queries' gradients in, for so many heads of all images, queries and elements
// of a head: float32 tiles of 64 columns, in blocks of 64 rows, of 128 for heads
// wider than 64, and 16 bytes of locks a tile (workspace_elements_gq and GradQTempStorage in
// aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h). Exact in the 260 cases measured in
// float32.
func efficientWorkspace(heads, queries, d int64) int64 {
	block := int64(64)
	if d > 64 {
		block = 128
	}
	rows, columns := padTo(queries, block), ceilDiv(d, 64)
	return saturate(heads, columns, rows*64*4+rows/block*16)
}

// cudnnAttentionWorkspace returns the workspace of cuDNN's attention backward pass
// for so many heads of all images and queries: the gradient of the queries and a sum
// for each query, in float32. Exact in the 260 cases measured in bfloat16.
func cudnnAttentionWorkspace(heads, queries, d int64) int64 {
	return saturate(heads, queries, 4*d+4) + 256
}
