package eager

import (
	"math/bits"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// sortTile is how many 8-byte keys with 8-byte values a block of CUB's radix sort
// takes on an H100 or H200. Measured.
const sortTile = 4608

// radixSortTemp returns the bytes of temporary storage that CUB's DeviceRadixSort
// takes for pairs of n 8-byte keys and 8-byte values whose keys have so many bits
// (cub/device/dispatch/dispatch_radix_sort.cuh, onesweep): a second buffer for
// keys and values unless one pass is enough, 8 bytes for each of 256 digits a
// pass, and 4 bytes for each digit and tile to look back on. Few keys are sorted
// by one block, which takes 1 byte.
func radixSortTemp(n int64, keyBits int) int64 {
	const digits, singleTile = 256, 2304
	if n <= singleTile {
		return 1
	}
	passes := int64(max((keyBits+7)/8, 1))
	temp := 4*digits*((n+sortTile-1)/sortTile) + 8*digits*passes + 511
	if passes > 1 {
		temp += 2 * padTo(saturate(n, 8), 256)
	}
	return temp
}

// scanTemp returns what CUB's DeviceScan takes for n 8-byte sums: a state for each tile.
func scanTemp(n int64) int64 { return padTo(832+n/64, 256) + 255 }

// embeddingGradSmall is the most ids whose gradient one kernel sums without sorting
// them (aten/src/ATen/native/cuda/Embedding.cu).
const embeddingGradSmall = 3072

// partialRows is how many ids make a partial segment (NROWS_PER_THREAD of
// aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu).
const partialRows = 10

// partialSegments returns the room that is made for the partial segments of ids
// sorted by which of so many rows they name.
func partialSegments(ids, rows int64) int64 { return ids/partialRows + min(ids, rows) }

// fusedPartialSums reports whether one kernel adds the partial segments to the gradient, which needs no room for
// their sums: where summing each of few long segments would leave the GPU idle (use_fused_kernel of
// EmbeddingBackwardKernel.cu).
func fusedPartialSums(segments, partial, width int64, sms int) bool {
	const maxBlock, blocksPerSM = 1024, 4
	warped := roundUp(width, 32)
	if warped == 0 {
		return false
	}
	grid := ceilDiv(segments*warped, min(warped, maxBlock))
	return grid < blocksPerSM*int64(sms) && partial > 4*grid
}

// embeddingGrad allocates the dense gradient of an embedding's table, [rows, d],
// and what is needed on the way: the ids are sorted, cut into segments of equal ids
// and these into partial segments, whose sums are in float32.
func (r *run) embeddingGrad(d onnxload.DType, shape []int64, ids int64) *tensor {
	if ids <= embeddingGradSmall || len(shape) < 2 || shape[0] < 1 {
		return r.empty(d, shape...)
	}
	rows := shape[0]
	order := []*tensor{r.ints(ids), r.ints(ids)} // sorted ids, and where they were
	counted := r.ints(ids)
	r.scratch(radixSortTemp(ids, 64), timeline.Workspace)
	r.release(counted)
	grad := r.empty(d, shape...)
	segments := min(ids, rows)
	hold := append(order, r.ints(ids), r.ints(1)) // segment offsets, and their number
	dummy := r.ints(ids)
	r.scratch(1279, timeline.Workspace)
	r.release(dummy)
	hold = append(hold, r.ints(segments), r.ints(segments)) // partial segments of each, and their offsets
	r.scratch(scanTemp(segments), timeline.Workspace)
	partial := partialSegments(ids, rows)
	hold = append(hold, r.ints(1), r.ints(partial))
	width := numel(shape[1:])
	switch {
	case !fusedPartialSums(segments, partial, width, r.opts.GPU.SMs):
		hold = append(hold, r.empty(onnxload.Float32, partial, width))
	case d.Bits() == 16: // which segment each part is of, and the sums in float32
		hold = append(hold, r.ints(partial), r.empty(onnxload.Float32, shape...))
	default:
		hold = append(hold, r.ints(partial))
	}
	for i := len(hold) - 1; i >= 0; i-- {
		r.release(hold[i])
	}
	return grad
}

// indexPutScratch allocates and frees what adding n rows of g at given places of a
// dimension of so many takes: the places made linear and sorted
// (aten/src/ATen/native/cuda/Indexing.cu index_put_with_sort_kernel).
func (r *run) indexPutScratch(n, rows int64, g *tensor) {
	if n == 0 {
		return
	}
	wrapped, linear := r.ints(n), r.ints(n)
	r.release(wrapped)
	values := r.inLayout(g, inRows)
	order, sorted, places := r.ints(n), r.ints(n), r.ints(n)
	r.scratch(radixSortTemp(n, bits.Len64(uint64(max(rows-1, 1)))), timeline.Workspace)
	for _, t := range []*tensor{places, sorted, order} {
		r.release(t)
	}
	r.releaseCopy(values, g)
	r.release(linear)
}
