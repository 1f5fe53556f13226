package kernels

import (
	"math/bits"
	"slices"

	"github.com/memestimate/memestimate/simulate/gpu"
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
	warped := padTo(width, 32)
	if warped == 0 {
		return false
	}
	grid := ceilDiv(segments*warped, min(warped, maxBlock))
	return grid < blocksPerSM*int64(sms) && partial > 4*grid
}

// EmbeddingBackward is embedding_dense_backward for so many ids of a table of rows x width elements: it makes the dense
// gradient of the table (result 0). Of more than 3072 ids, these are sorted, cut into segments of equal ids
// and these into partial segments, whose sums are in float32.
func EmbeddingBackward(ids, rows, width, elem int64, d gpu.Device) (s Script) {
	if ids <= embeddingGradSmall || rows < 1 {
		s.makes(0)
		return s
	}
	ints := func(n int64) int { return s.take(8 * n) }
	hold := []int{ints(ids), ints(ids)} // sorted ids, and where they were
	counted := ints(ids)
	s.scratch(radixSortTemp(ids, 64))
	s.give(counted)
	s.makes(0)
	segments := min(ids, rows)
	hold = append(hold, ints(ids), ints(1)) // segment offsets, and their number
	dummy := ints(ids)
	s.scratch(1279)
	s.give(dummy)
	hold = append(hold, ints(segments), ints(segments)) // partial segments of each, and their offsets
	s.scratch(scanTemp(segments))
	partial := partialSegments(ids, rows)
	hold = append(hold, ints(1), ints(partial))
	switch {
	case !fusedPartialSums(segments, partial, width, d.Multiprocessors):
		hold = append(hold, s.take(saturate(partial, width, 4)))
	case elem == 2: // which segment each part is of, and the sums in float32
		hold = append(hold, ints(partial), s.take(saturate(rows, width, 4)))
	default:
		hold = append(hold, ints(partial))
	}
	slices.Reverse(hold)
	s.give(hold...)
	return s
}

// IndexPut is index_put_ with accumulate: n rows are added at given places of a dimension of so many rows. The places
// are made linear and sorted (aten/src/ATen/native/cuda/Indexing.cu index_put_with_sort_kernel). copied are the
// bytes of the values if they are not row-major, else 0.
func IndexPut(n, rows, copied int64) (s Script) {
	if n == 0 {
		return nil
	}
	ints := func() int { return s.take(8 * n) }
	wrapped, linear := ints(), ints()
	s.give(wrapped)
	values := s.take(copied)
	order, sorted, places := ints(), ints(), ints()
	s.scratch(radixSortTemp(n, bits.Len64(uint64(max(rows-1, 1)))))
	s.give(places, sorted, order, values, linear)
	return s
}

// Sort is sort over a dimension of n: the places are filled in from an arange of the dimension (fillSliceWithIndex in
// cuda/Sort.cpp).
func Sort(n int64) (s Script) {
	s.scratch(8 * n)
	return s
}
