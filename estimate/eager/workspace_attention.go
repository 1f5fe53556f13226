package eager

// efficientAlign is what the memory-efficient kernel wants a mask's last dimension
// to be a multiple of (aten/src/ATen/native/transformers/attention.cpp pad_bias).
const efficientAlign = 8

// efficientWorkspace returns the bytes that the memory-efficient backward pass
// accumulates the gradients in, for so many heads of all images, keys and elements
// of a head: float32 tiles of 64 columns, in blocks of 64 rows, of 128 for heads
// wider than 64, and 16 bytes of locks a tile. Exact in the 260 cases measured in
// float32.
func efficientWorkspace(heads, keys, d int64) int64 {
	block := int64(64)
	if d > 64 {
		block = 128
	}
	rows, columns := roundUp(keys, block), ceilDiv(d, 64)
	return heads * columns * (rows*64*4 + rows/block*16)
}

// cudnnAttentionWorkspace returns the workspace of cuDNN's attention backward pass
// for so many heads of all images and queries: the gradient of the queries and a sum
// for each query, in float32. Exact in the 260 cases measured in bfloat16.
func cudnnAttentionWorkspace(heads, queries, d int64) int64 {
	return heads*queries*(4*d+4) + 256
}
