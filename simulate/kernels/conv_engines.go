package kernels

import "bytes"

// A convEngine is a way to run a pass, as far as its workspace goes: copies of what
// is read and written, and something besides.
type convEngine struct {
	copies convCopies
	extra  convExtra
	count  int64 // of partial results, of tiles, or the size of something: see extra
}

// convCopies says which tensors are copied to NHWC. Hopper's tensor cores read that,
// with channels in multiples of 16 bytes.
type convCopies uint8

const (
	copyIn convCopies = 1 << iota
	copyOut
	copyWeight
	copyPlain // with the channels that they have
)

// convExtra is what an engine takes besides copies.
type convExtra uint8

const (
	extraNone convExtra = iota
	// Sums over many images and pixels are split, and the parts of the result are
	// kept in 4 bytes each until they are added.
	extraTiles        // count tiles of 64 x 64 sums: the last wave of tiles, split
	extraShared       // as many tiles as share the multiprocessors (count: the tile's size)
	extraWaves        // the result as often as count tiles of 128 x 128 hold it, whole tiles
	extraParts        // the result, count times
	extraPartsPadded  // the same, with c padded to 32 channels
	extraPartsAligned // the same, with c padded to 16 bytes
	extraImages       // the result, once for each image
	extraWave128      // the result as often as count tiles of 128 x 128 hold it
	extraWave64       // the same with tiles of 64 x 64
	extraWaveFlat     // the same with tiles of 64 x 128
	extraDepth        // the result once for each count of the sum's depth
	extraDepthPadded  // the same, with c padded to 32 channels
	// The tiles of a 3x3 filter, transformed (Winograd): count x count results each.
	extraWinograd
	// Both operands' images, transformed (FFT), one for each pair of an image and a channel.
	extraFFT
	// Groups: run as one convolution, each padded to a power of two of channels, with
	// count 4-byte partial results of w, count tiles, or where padding is needed alone.
	extraPadded
	extraPaddedTiles
	extraPaddedSides
	// Or one after the other, 8 at once: x, y and w of each with count partial
	// results of w, or x and y alone.
	extraLoop
	extraLoopSides
	// Or as a dense one in blocks of 64 channels, with count partial results of a weight
	// of 64 x 64 for each block: most weight gradients of 3x3 filters with narrow groups.
	extraBlocks
	// Depthwise: count partial results in steps of 32 channels.
	extraDepthwise
	// Both operands of the gradient of x, transformed (FFT) in tiles.
	extraTiledFFT
)

const (
	tileBytes  = 128 * 128 * 4 // a partial tile of 128 x 128 sums
	convNotes  = 256           // what engines with partial sums note down besides, about
	groupsOnce = 8             // groups that run at once
	impossible = int64(-1)     // the engine cannot run this pass
)

// bytes returns the workspace of an engine, or 0 where it cannot run.
func (w *convWork) bytes(e convEngine) int64 {
	extra := w.extra(e)
	switch {
	case extra == impossible:
		return 0
	case w.asIs && e.copies&copyWeight != 0:
		return w.weight
	case w.asIs:
		return 0
	}
	in, out, weight := w.in, w.out, w.weight
	if e.copies&copyPlain != 0 {
		in, out, weight = w.inPlain, w.outPlain, w.weightPlain
	}
	sum := int64(0)
	if e.copies&copyIn != 0 {
		sum += in
	}
	if e.copies&copyOut != 0 {
		sum += out
	}
	if e.copies&copyWeight != 0 {
		sum += weight
	}
	if sum > 0 && extra == 0 {
		extra = 16
	}
	return min(sum+extra, convMaximum)
}

// isUnoffered reports whether an engine is one that cuDNN does not name without a GPU: those that transform both
// operands, of which cuDNN builds the plan only beside a GPU.
func (e convEngine) isUnoffered() bool {
	return e.copies == 0 && (e.extra == extraFFT || e.extra == extraWinograd)
}

// largest returns the largest workspace that trees name and that is believed, or that no engine of theirs has.
func (w *convWork) largest(f *convForest, leaves []uint8) int64 {
	largest := w.widened()
	for _, e := range leaves {
		largest = max(largest, w.believed(f.engines[e], bytes.Count(leaves, []byte{e})))
	}
	return largest
}

// widened is what an engine takes that the forests do not know: x and y in 4 bytes each, for the weight gradient of
// 1x1x1 filters over volumes of 16 bits. 134 of 890 measured ones took that and up to 2 MiB, those of 2 to 80 channels
// mostly; which of them is not told by a figure that the trees ask about.
func (w *convWork) widened() int64 {
	if w.pass != ConvBackwardWeight || w.dims != 3 || w.filter != 1 || w.elem != 2 || w.last || w.groups != 1 ||
		min(w.c, w.k) < 2 {
		return 0
	}
	return min(saturate(2, w.inPlain)+saturate(2, w.outPlain)+2<<20, convMaximum)
}

// believed returns the workspace of an engine as far as the trees of the forest that name it are, else 0: one tree up
// to 8 times what the pass reads and writes, several up to 16 times, and without a limit where they name a Fourier
// transform or an engine that keeps a result of each image. In 28,700 measured passes that took 16 MiB or more those
// took up to 2,385 and 341 times that, depthwise ones up to 11.4 times, and all others up to 5.9 times.
func (w *convWork) believed(e convEngine, trees int) int64 {
	bytes, times := w.bytes(e), int64(8)
	if trees > 1 {
		times = 16
	}
	if bytes <= saturate(times, min(w.in+w.out+w.weight, convMaximum)) ||
		trees > 1 && (e.extra == extraFFT || e.extra == extraImages) {
		return bytes
	}
	return 0
}

// extra returns what an engine takes besides copies, or impossible.
func (w *convWork) extra(e convEngine) int64 {
	result := saturate(w.result, 4)
	padded := saturate(w.k, padTo(w.cGroup, 32), w.filter, 4)
	switch e.extra {
	case extraNone:
		return 0
	case extraTiles:
		return e.count*(tileBytes/4) + convNotes
	case extraShared:
		return w.sharedTiles(e.count)
	case extraWaves:
		n := w.tiles(128, 128)
		return saturate(max(e.count/n, 1), n, tileBytes) + convNotes
	case extraParts:
		return saturate(e.count, result) + convNotes
	case extraWave128:
		return saturate(max(e.count/w.tiles(128, 128), 1), result) + convNotes
	case extraWave64:
		return saturate(max(e.count/w.tiles(64, 64), 1), result) + convNotes
	case extraWaveFlat:
		return saturate(max(e.count/w.tiles(64, 128), 1), result) + convNotes
	case extraDepth:
		return saturate(ceilDiv(w.depth, max(e.count, 1)), result) + convNotes
	case extraWinograd:
		return w.winograd(e.count)
	case extraFFT:
		return w.fourier()
	case extraTiledFFT:
		return w.tiledFourier()
	case extraPadded, extraPaddedTiles, extraPaddedSides, extraLoop, extraLoopSides:
		loop := e.extra == extraLoop || e.extra == extraLoopSides
		switch {
		case w.groups == 1 || loop && w.depthwise():
			return impossible
		case loop:
			return w.looped(e)
		}
		return w.paddedGroups(e)
	}
	if w.pass != ConvBackwardWeight {
		return impossible
	}
	switch e.extra {
	case extraPartsPadded:
		return saturate(e.count, padded) + convNotes
	case extraPartsAligned:
		return saturate(e.count, w.k, padTo(w.cGroup, 16/w.elem), w.filter, 4) + convNotes
	case extraImages:
		return saturate(w.batch, result)
	case extraDepthPadded:
		return saturate(ceilDiv(w.depth, max(e.count, 1)), padded) + convNotes
	}
	if e.extra == extraBlocks {
		if w.groups == 1 {
			return impossible
		}
		return saturate(e.count, ceilDiv(w.c, 64), w.filter, tileBytes/4+4) + convNotes
	}
	if !w.depthwise() {
		return impossible
	}
	return saturate(e.count, padTo(w.c, 32), w.filter, 4) // extraDepthwise
}

// tiles returns how many tiles of that size cover one group's results.
func (w *convWork) tiles(high, wide int64) int64 {
	return saturate(ceilDiv(w.rows, high), ceilDiv(w.cols, wide))
}

// sharedTiles is what partial sums take when the multiprocessors share the tiles that
// are left over after the last full wave: each holds a tile, as far as they divide evenly.
func (w *convWork) sharedTiles(size int64) int64 {
	var high, wide int64 = 128, 128
	switch size {
	case 1:
		wide = 256
	case 2:
		high = 64
	case 3:
		high, wide = 64, 64
	}
	n := w.tiles(high, wide)
	if n > w.sms {
		n %= w.sms
	}
	if n == 0 || w.sms/n < 2 {
		return 0
	}
	return w.sms/n*n*high*wide*4 + convNotes
}

// winograd is the product of transformed tiles of size x size results of a 3x3 filter,
// (size+2)^2 values each: of x, of y and of w (Lavin and Gray, arXiv 1509.09308), of groupsOnce groups at once.
func (w *convWork) winograd(size int64) int64 {
	if w.filterHigh != 3 || w.filterIn != 3 || w.stride != 1 || size < 1 {
		return impossible
	}
	n := saturate(w.batch, ceilDiv(w.yHigh, size), ceilDiv(w.yWide, size))
	values := saturate(n, w.cGroup) + saturate(n, w.kGroup) + saturate(w.cGroup, w.kGroup)
	return saturate(min(w.groups, groupsOnce), (size+2)*(size+2)*4, values)
}

// fourier is what a convolution as a product of Fourier transforms takes (Mathieu, Henaff and LeCun, arXiv
// 1312.5851): every image of a channel, of both operands or of the result, where that has more, padded to a square of a
// power of two, as the half of its complex numbers that a real transform has, twice; and the second operand in 4 bytes.
// Exact to the byte in 7,490 of 7,518 passes that an H200 was asked about: at most 256 wide, stride and dilation 1.
func (w *convWork) fourier() int64 {
	side := w.square()
	if side > largestImage || w.groups != 1 || w.stride != 1 || w.dilation != 1 || w.dims > 2 {
		return impossible
	}
	filters := saturate(w.c, w.k)
	images, second := max(saturate(w.batch, w.c)+filters, saturate(w.batch, w.k)), saturate(filters, w.filter, 4)
	switch w.pass {
	case ConvBackwardInput:
		images = saturate(w.batch, w.k) + filters
	case ConvBackwardWeight:
		images, second = max(saturate(w.batch, w.c+w.k), filters), saturate(w.batch, w.k, w.yPixels, 4)
	}
	return min(saturate(images, 2, transformBytes(side))+second, convMaximum)
}

// tiledFourier is the same for the gradient of x, whose images are transformed in squares of tileSide, as many at once
// as tilesAtOnce: see ConvShape.tiled. Of 996 measured passes with filters of more than one row and column 35 take
// that.
func (w *convWork) tiledFourier() int64 {
	if w.pass != ConvBackwardInput || w.groups != 1 || w.stride != 1 || w.dilation != 1 || w.dims > 2 || w.elem != 4 ||
		min(w.filterHigh, w.filterIn) == 1 || max(w.filterHigh, w.filterIn) > tileSide {
		return impossible
	}
	images := saturate(w.c, w.k) + saturate(tilesOf(w.height, w.width, w.filterHigh, w.filterIn), w.batch, w.c+w.k)
	return min(saturate(transformBytes(tileSide), images), convMaximum)
}

// square is the side of the square, of a power of two, that holds an image with its padding.
func (w *convWork) square() int64 {
	high, wide := w.yHigh, w.yWide
	if w.pass == ConvBackwardInput {
		high, wide = w.height, w.width
	}
	side := int64(smallestImage)
	for side < max(high+w.filterHigh, wide+w.filterIn)-1 {
		side *= 2
	}
	return side
}

// longestFilter is the longest side of a filter that cuDNN's products of matrices on tensor cores take. Asked without
// a GPU, 9.19 names engine 46 first for filters of 16 x 16 to 32 x 32, and for no longer one.
const longestFilter = 32

// Where cuDNN transforms a filter as long as the image, asked on a GPU about 14,000 of float32
// (testdata/long_filters.csv.gz): the channels at most, and the images at least, where y has one pixel; and where it
// has more, as of images with padding, the filters in so many columns at once, or few of them, decide with the images.
// No side does up to largestImage. Of 19 to 31 images, of 17 to 63 filters and of 129 to 255 images none was asked.
const (
	fewChannels, manyImages        = 5, 32
	fewMoved                       = 3
	fewestRows, someRows, mostRows = 64, 96, 128 // images: of whole tiles of filters, and of few filters from someRows on
	fewColumns, columns            = 16, 64      // filters: few, and of a tile
)

// transforms reports whether cuDNN does.
func (w *convWork) transforms() bool {
	if w.square() > largestImage {
		return false
	}
	if w.yPixels == 1 {
		return w.c <= fewChannels && w.batch >= manyImages
	}
	tiles := w.k%columns == 0 && w.batch >= fewestRows && w.batch <= mostRows
	return w.c <= fewMoved && (tiles || w.k <= fewColumns && w.batch >= someRows)
}

// wide is what y takes in float32 where both sides of the filter are longer than that, if cuDNN transforms it, and
// whether it does. So long a filter is an image, of which the gradient of a gradient asks
// (_convolution_double_backward of Convolution.cpp: gradient penalties).
func (w *convWork) wide() (bytes int64, runs bool) {
	if w.pass != ConvForward || w.transposed || w.last || w.elem != 4 || min(w.filterHigh, w.filterIn) <= longestFilter {
		return 0, false
	}
	bytes = w.bytes(convEngine{extra: extraFFT})
	return bytes, bytes > 0 && w.transforms()
}

// paddedGroups is the one convolution with every group padded to a power of two
// channels, at least 4.
func (w *convWork) paddedGroups(e convEngine) int64 {
	q := int64(4)
	for q < max(w.cGroup, w.kGroup) && q < convMaximum {
		q *= 2
	}
	channels := saturate(q, w.groups, w.elem)
	x, y := saturate(w.batch, w.xPixels, channels), saturate(w.batch, w.yPixels, channels)
	weight := saturate(channels, q, w.filter)
	switch {
	case e.extra == extraPadded:
		return min(x+y+weight+saturate(e.count, weight/w.elem*4), convMaximum)
	case e.extra == extraPaddedTiles:
		return x + y + weight + e.count*tileBytes
	case !w.last:
		return x + y + weight
	}
	sum := int64(0)
	if w.cGroup != q {
		sum += x
	}
	if w.kGroup != q {
		sum += y
	}
	if sum > 0 {
		sum += weight
	}
	return sum
}

// looped is the sum over the groups that run at once.
func (w *convWork) looped(e convEngine) int64 {
	align := 16 / w.elem
	sum := saturate(w.batch, w.xPixels, padTo(w.cGroup, align), w.elem) +
		saturate(w.batch, w.yPixels, padTo(w.kGroup, align), w.elem)
	if e.extra == extraLoop {
		weight := w.weight / w.groups
		sum += weight + saturate(e.count, weight/w.elem*4)
	}
	return saturate(min(w.groups, groupsOnce), sum)
}
