package kernels

// SoftmaxBackward is what the backward pass of softmax takes: gradient times result, a tensor of so many bytes, which
// the kernel sums in row-major order (cuda/SoftMax.cu). That of log_softmax takes the gradient itself: product is then
// 0.
func SoftmaxBackward(product, copied int64) (s Script) {
	t := s.take(product)
	s.scratch(copied)
	s.give(t)
	return s
}

// foreachChunk is how many elements of a tensor one thread block of a foreach kernel takes (kChunkSize in
// aten/src/ATen/native/cuda/MultiTensorApply.cuh).
const foreachChunk = 65536

// ForeachNorm returns the bytes of _foreach_norm's partial results of so many tensors: as many for each as the largest
// has chunks.
func ForeachNorm(tensors, largest int64) int64 {
	return saturate(tensors, ceilDiv(largest, foreachChunk), 4)
}
