package kernels

import "github.com/memestimate/memestimate/simulate/gpu"

// batchNormStaging returns the bytes of the staging buffer and of the semaphores
// that PyTorch's channels-last batch norm takes in the forward pass, both 0 when
// one block for each channel is enough; the backward pass takes half the
// staging. rows are the pixels of all images
// (aten/src/ATen/native/cuda/Normalization.cuh flexible_launch_configs).
func batchNormStaging(rows, channels int64) (staging, semaphores int64) {
	const (
		tile      = 32
		perThread = 16
		threads   = 512
		gridRows  = 128
	)
	width := min(lastPow2(channels), tile)
	height := min(lastPow2(ceilDiv(rows, perThread)), threads/width)
	if width*height != threads {
		width = min(lastPow2(channels), threads/height)
	}
	grid := min(ceilDiv(rows, height*perThread), gridRows)
	if grid < 8 {
		return 0, 0
	}
	return saturate(4*4*channels, grid), 4 * ceilDiv(channels, width)
}

// batchNormWorkspace returns the workspace that cuDNN's channels-last batch norm
// takes in float32, for numel elements: 129 bytes for 1024 elements forward, a
// twelfth of a byte for each backward. Measured: exact for 64 to 512 channels, within
// some KiB for others.
func batchNormWorkspace(numel, channels int64, backward bool) int64 {
	if !backward {
		return numel/1024*129 + numel%1024*129/1024 + channels/16 + 1072
	}
	bytes := (numel+16768)/12 + channels/16
	if channels > 64 {
		bytes += 1024
	}
	return bytes
}

// layerNormPartials returns how many rows of partial sums the weight gradients of
// a normalisation of rows x n take, 0 for none: only tall and narrow inputs are
// summed in two steps (aten/src/ATen/native/cuda/layer_norm_kernel.cu
// LaunchGammaBetaBackwardCUDAKernel).
func layerNormPartials(rows, n int64, sms int) int64 {
	const width, rowsPerBlock, maxBlocks = 32, 32, 64 * 1024 / 2
	if rows <= 64*1024 || n/width >= int64(sms)/2 || n < 1 {
		return 0
	}
	return min(ceilDiv(rows, rowsPerBlock), maxBlocks/ceilDiv(n, width))
}

// BatchNormChannelsLast is what batch norm of a channels-last tensor takes in training: in float32 cuDNN's workspace,
// in 16 bit the native kernel's staging.
func BatchNormChannelsLast(numel, channels, elem int64, backward bool) (s Script) {
	if elem == 4 {
		s.scratch(batchNormWorkspace(numel, channels, backward))
		return s
	}
	staging, semaphores := batchNormStaging(numel/max(channels, 1), channels)
	if staging == 0 {
		return nil
	}
	if backward {
		staging /= 2
	}
	a := s.take(staging)
	b := s.take(semaphores)
	s.give(b, a)
	return s
}

// LayerNormBackward is what the gradients of weight and bias of a normalisation of rows x n take (of the weight alone
// with one statistic, as in RMS norm): partial sums, and the results that summing them makes, which take the place of
// the first ones.
func LayerNormBackward(rows, n, elem int64, stats int, d gpu.Device) (s Script) {
	partial := layerNormPartials(rows, n, d.Multiprocessors)
	if partial == 0 {
		return nil
	}
	var sums []int
	for range stats {
		sums = append(sums, s.take(saturate(partial, n, elem)))
	}
	for range stats {
		sum := s.take(n * elem)
		s.play(Reduction([]int64{partial, n}, []int64{n, 1}, []int{0}, elem, sumAccumulator(elem), d))
		s.give(sum)
	}
	s.give(sums...)
	return s
}

// GroupNorm is what group norm of n samples of so many channels takes: a factor and a summand for each
// (cuda/group_norm_kernel.cu).
func GroupNorm(n, channels int64) (s Script) {
	a, b := s.take(saturate(n, channels, 4)), s.take(saturate(n, channels, 4))
	s.give(b, a)
	return s
}

// GroupNormBackward is the same for its gradients, in so many groups.
func GroupNormBackward(n, channels, groups int64) (s Script) {
	perChannel, perGroup := saturate(n, channels, 4), saturate(n, groups, 4)
	ds, db := s.take(perChannel), s.take(perChannel)
	c2, c3 := s.take(perGroup), s.take(perGroup)
	c1 := s.take(perChannel)
	s.give(c3, c2, c1, db, ds)
	return s
}
