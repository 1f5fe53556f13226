package kernels

import "math/bits"

// searching is timeline.Searching, which this package does not import.
const searching = -1

// Squares that cuDNN's transforms work in: of whole images, between two powers of two, or of tiles, of which so many of
// an image are transformed at once.
const (
	smallestImage, largestImage = 16, 256
	tileSide, tilesAtOnce       = 32, 2
)

// Search returns the workspace, in bytes, in which cuDNN searches for the fastest engine of a pass: as large as the
// largest of all engines that it names, the heuristic's and the fallback's (generate_and_filter_plans of
// aten/src/ATen/native/cudnn/Conv_v8.cpp). offered is the largest that it names without a GPU. There it does not name
// those that take the most, which transform both operands: engines 3 (forward) and 18 (gradient of w) whole images, 50
// (gradient of x) tiles. What they take is that of passes on an H100 with cuDNN 9.19, to 128 bytes
// (testdata/searches.jsonl.gz); testdata/README.md says how often they are named.
func (s *ConvShape) Search(pass ConvPass, offered int64) int64 {
	images := len(s.X) == 4 && len(s.W) == 4 && len(s.Y) == 4 && len(s.Stride) == 2 && len(s.Dilation) == 2
	if !images || s.Elem != 4 || s.Groups > 1 || max(s.Dilation[0], s.Dilation[1]) > 1 || s.Stride[0] != s.Stride[1] {
		return offered
	}
	x, y := s.X, s.Y
	if s.Transposed { // a convolution from y to x
		x, y, pass = y, x, exchanged[pass]
	}
	if pass == ConvBackwardInput {
		return max(offered, s.tiled(x, offered))
	}
	return max(offered, s.transformed(pass, x, y))
}

// transformed is what an engine takes that transforms whole images, padded to squares of a power of two: of the three
// operands the input and w, or the result of the forward pass, whatever takes more.
func (s *ConvShape) transformed(pass ConvPass, x, y []int64) int64 {
	reach := max(y[2]+s.W[2], y[3]+s.W[3]) - 1 // with its padding, at stride 1
	side := max(smallestImage, int64(1)<<bits.Len64(uint64(reach-1)))
	if s.Stride[0] != 1 || side > largestImage {
		return 0
	}
	n, c, k := x[0], x[1], s.W[0]
	planes, result := max(saturate(c, k)+saturate(n, c), saturate(n, k)), saturate(4, c, k, s.W[2], s.W[3])
	if pass == ConvBackwardWeight {
		planes, result = max(saturate(c, k), saturate(n, c)+saturate(n, k)), saturate(4, n, k, y[2], y[3])
	}
	return saturate(2, transformBytes(side), planes) + result + s.inRows()
}

// tiled is what an engine takes that transforms tiles, of filters both of whose sides are larger than 1. At stride 2
// each fourth of the pixels is a channel of its own, in multiples of four channels, and lies beside what the largest
// engine takes that copies.
func (s *ConvShape) tiled(x []int64, offered int64) int64 {
	n, c, k, high, wide, beside := x[0], x[1], s.W[0], s.W[2], s.W[3], s.inRows()
	tall, broad := x[2], x[3]
	switch s.Stride[0] {
	case 1:
	case 2:
		half := func(n int64) int64 { return (n + 1) / 2 }
		c, high, wide, tall, broad, beside = 4*((c+3)/4*4), half(high), half(wide), half(tall), half(broad), offered
	default:
		return 0
	}
	if min(high, wide) == 1 || max(high, wide) > tileSide {
		return 0
	}
	return saturate(transformBytes(tileSide), saturate(c, k)+saturate(tilesOf(tall, broad, high, wide), n, c+k)) + beside
}

// tilesOf is how many tiles of an image are transformed at once, of filters that overlap with the next one.
func tilesOf(tall, broad, high, wide int64) int64 {
	along := func(size, filter int64) int64 { return (size + tileSide - filter) / (tileSide - filter + 1) }
	return min(tilesAtOnce, saturate(along(tall, high), along(broad, wide)))
}

// transformBytes are those of the Fourier transform of a square of real numbers.
func transformBytes(side int64) int64 { return side * (side/2 + 1) * 8 }

// Operands returns the bytes of x, w and y.
func (s *ConvShape) Operands() (bytes int64) {
	for _, shape := range [...][]int64{s.X, s.W, s.Y} {
		bytes += saturate(append([]int64{s.Elem}, shape...)...)
	}
	return bytes
}

// inRows are the bytes of copies of x, w and y in row-major order; those of one pixel or one channel are in it.
func (s *ConvShape) inRows() (bytes int64) {
	if !s.ChannelsLast {
		return 0
	}
	for _, shape := range [...][]int64{s.X, s.W, s.Y} {
		if shape[1] > 1 && shape[2]*shape[3] > 1 {
			bytes += saturate(4, shape[0], shape[1], shape[2], shape[3])
		}
	}
	return bytes
}
