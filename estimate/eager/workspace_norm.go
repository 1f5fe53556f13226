package eager

import (
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

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

// channelsLastNormScratch allocates and frees what batch norm of a channels-last x
// takes: in float32 cuDNN's workspace, in 16 bit the native kernel's staging.
func (r *run) channelsLastNormScratch(x *tensor, train, backward bool) {
	if !train {
		return
	}
	if x.dtype == onnxload.Float32 {
		r.scratch(batchNormWorkspace(x.numel(), x.shape[1], backward), timeline.Workspace)
		return
	}
	staging, semaphores := batchNormStaging(x.numel()/max(x.shape[1], 1), x.shape[1])
	if staging == 0 {
		return
	}
	if backward {
		staging /= 2
	}
	a := r.alloc(staging, timeline.Workspace)
	b := r.alloc(semaphores, timeline.Workspace)
	r.drop(b)
	r.drop(a)
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

// layerNormScratch allocates and frees the partial sums of the gradients of weight
// and bias (of weight alone with one statistic, as in RMS norm), and the results
// that summing them makes, which take the place of the first ones.
func (r *run) layerNormScratch(rows, n int64, d onnxload.DType, stats int) {
	partial := layerNormPartials(rows, n, r.opts.GPU.SMs)
	if partial == 0 {
		return
	}
	var sums []*tensor
	for range stats {
		sums = append(sums, r.empty(d, partial, n))
	}
	for _, t := range sums {
		r.release(r.reduce(t, []int{0}, false, d))
	}
	for _, t := range sums {
		r.release(t)
	}
}
