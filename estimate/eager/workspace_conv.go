package eager

import "math/bits"

// A ConvShape is a convolution as cuDNN sees it, of any number of spatial
// dimensions. Shapes are in PyTorch's order: X [N, C, ...], Y [N, K, ...], W
// [K, C/groups, ...], or [C, K/groups, ...] when Transposed.
type ConvShape struct {
	Elem         int64 // bytes of an element: 4, or 2 for bfloat16 and float16
	ChannelsLast bool  // the memory format of x, w and y
	X, W, Y      []int64
	Stride       []int64
	Dilation     []int64
	Groups       int64
	Transposed   bool
}

// cuDNN picks an engine by a heuristic that NVIDIA trained and does not publish,
// so which workspace a convolution takes is fitted, in two parts.
//
// What an engine takes is physics, and exact: Hopper's tensor cores read NHWC
// with channels in multiples of 16 bytes, so a row-major convolution copies its
// operands (x + y + w bytes, plus 16), unless the engine writes y itself (x + w)
// or is a plain matrix product (nothing). A weight gradient sums over all images
// and pixels: it splits the sum and keeps 4-byte partial results, one for each
// part, or one for each image when the filter is 1x1. Grouped convolutions either
// run group by group, up to 8 at once, each with the copies of its own, or as one
// convolution with every group padded to a power of two.
//
// Which engine runs is a decision tree over the shape (workspace_conv_rules.go,
// workspace_conv_weight.go), grown on 1,248 measured shapes and on the convolutions
// of 25 measured training runs; docs/workspaces.md has its error. Where it errs it
// mostly confuses neighbours, such as x + w with x + y + w.
type convSpace uint8

// The workspaces that engines take. a is what is read: x in the forward pass and
// for the weight gradient, the gradient of y for that of x; b is what is written,
// for the weight gradient the gradient of y.
const (
	noSpace        convSpace = iota
	copyAll                  // a + b + w
	copyInWeight             // a + w
	copyInOut                // a + b
	copyIn                   // a
	copyUnpadded             // all three, with the channels there are
	copyTwice                // 2a + 2b + w, both operands in 4 bytes
	copyAllTiles             // a + b + w and partial tiles
	copyInOutTiles           // a + b and partial tiles
	copyAll4Parts            // a + b + w and so many partial results of w
	copyAll10Parts
	copyAll20Parts
	tiles        // partial tiles alone
	waveTiles    // partial tiles of one wave over all multiprocessors
	parts10      // partial results of w alone
	parts20      //
	partPerImage // one partial result of w for each image
	padGroups    // everything with padded groups
	padGroupsPart
	padGroupsTiles
	loopGroups // everything of up to 8 groups
	loopGroupsNoWeight
	loopGroups4Parts
	loopGroups20Parts
)

const (
	tileBytes   = 128 * 128 * 4  // a partial tile of 128 x 128 sums
	tilesBytes  = int64(8 << 20) // what partial tiles come to: about one for each multiprocessor
	convNotes   = int64(144)     // what the engines note down besides
	smCount     = 132            // of the H200 that was measured
	groupsOnce  = 8              // groups that run at once
	convMaximum = int64(1) << 55
)

// convFacts are the figures that the rules look at.
type convFacts struct {
	elem                           int64
	channelsLast, half, transposed bool
	strided, dilated, square       bool
	backward                       bool // the gradient of x
	three                          bool // an image goes in or out: 3 channels
	dims                           int64
	batch, in, out, groups         int64 // channels read and written
	inGroup, outGroup              int64 // the same of one group
	widest, narrowest              int64 // of the two
	width                          int64 // widest, as a power of two
	filter                         int64 // elements of the filter
	inPixels, outPixels            int64 // of one image
	rows                           int64 // of the matrix product: batch times outPixels
	depth                          int64 // of the matrix product: inGroup times filter
	products                       int64 // multiplications, all in all
	tiles, left                    int64 // of 128 x 128 results, and those after the last full wave
	matrix                         int64 // elements of w for one group
	inBytes, outBytes, weightBytes int64 // channels-last copies, channels padded to 16 bytes
	parts                          int64 // bytes of w in 4-byte sums
}

// ForwardWorkspace returns the bytes of workspace of the forward pass, 0 for none.
func (s ConvShape) ForwardWorkspace() int64 {
	f, ok := s.facts(false)
	if !ok || s.depthwise() {
		return 0
	}
	return f.bytes(f.pass(), false)
}

// DataWorkspace returns the bytes of workspace of the gradient of x.
func (s ConvShape) DataWorkspace() int64 {
	f, ok := s.facts(true)
	if !ok || s.depthwise() {
		return 0
	}
	return f.bytes(f.pass(), false)
}

// WeightWorkspace returns the bytes of workspace of the gradient of w.
func (s ConvShape) WeightWorkspace() int64 {
	f, ok := s.facts(false)
	if !ok {
		return 0
	}
	if s.depthwise() {
		return f.depthwiseWeight()
	}
	f.tile(saturate((f.in+127)/128, f.filter))
	switch {
	case f.groups > 1:
		return f.bytes(weightGrouped(f), true)
	case f.filter == 1 && !f.channelsLast && !f.perImage():
		return f.bytes(f.pointwiseWeight(), true)
	case f.channelsLast && f.half:
		return f.bytes(weightLastHalf(f), true)
	case f.channelsLast:
		return f.bytes(f.lastWeight(), true)
	case f.half && f.large():
		return f.bytes(copyAllTiles, true)
	case f.half:
		return f.bytes(weightDenseHalf(f), true)
	}
	return f.bytes(weightDenseFloat(f), true)
}

// perImage says whether the weight gradient of a 1x1 filter may be summed for each
// image apart: the images lie dense, and the partial results are not several times
// the tensors themselves, nor large for a filter that narrows.
func (f *convFacts) perImage() bool {
	sums, tensors := float64(saturate(f.batch, f.parts)), float64(f.inBytes+f.outBytes)
	switch {
	case f.inPixels == 1:
		return false
	case f.rows <= 448:
		return true // too little to copy for
	case f.strided:
		return false
	case f.out > f.in:
		return sums <= 3.4*tensors
	}
	return sums <= 2.4*tensors && (f.out == f.in || f.parts < 2<<20)
}

// pointwiseWeight chooses for the other weight gradients of 1x1 filters: the
// operands are copied, and what parts of the filter's tiles are left over is summed
// in pieces. Narrow strided ones in fp32 are read as they lie, and so are single
// pixels, whose gradient is a plain matrix product.
func (f *convFacts) pointwiseWeight() convSpace {
	switch {
	case f.inPixels == 1 && f.parts < 512<<10, f.strided && !f.half && f.in <= 55:
		return noSpace
	case f.inPixels == 1:
		return copyAll
	case !f.strided && f.out < f.in && f.out <= 192:
		return copyAll
	case !f.strided && f.out > f.in && f.parts >= 4<<20:
		return copyInOut
	}
	return copyInOutTiles
}

// lastWeight chooses for ungrouped weight gradients in fp32 and channels last, which
// need no copies, but the partial sums of work that is worth sharing.
func (f *convFacts) lastWeight() convSpace {
	if f.rows < 2048 || f.three || f.filter >= 49 || f.filter > 1 && f.patches() {
		return weightLastFloat(f)
	}
	return tiles
}

// patches says whether the windows do not overlap.
func (f *convFacts) patches() bool {
	return float64(f.filter)*float64(f.outPixels) < 1.1*float64(f.inPixels)
}

// WorkspaceBound returns what none of the three workspaces exceeds but in rare
// cases (measured: 99 in 100), for an upper bound of a step's memory.
func (s ConvShape) WorkspaceBound() int64 {
	f, ok := s.facts(false)
	if !ok {
		return 0
	}
	bound := s.WeightWorkspace()
	if !s.depthwise() {
		bound = max(bound, f.bytes(copyAll, true), saturate(f.batch, f.parts))
		if f.groups > 1 {
			bound = max(bound, f.bytes(padGroupsTiles, true), f.bytes(loopGroups4Parts, true))
		}
	}
	return min(bound+bound/32+2*tilesBytes, convMaximum)
}

// pass chooses the engine of the forward pass or of the gradient of x, which
// is the same matrix product with the roles of x and y exchanged.
func (f *convFacts) pass() convSpace {
	switch {
	case f.groups > 1:
		return groupedRule(f)
	case f.channelsLast && f.half:
		return lastHalf(f)
	case f.channelsLast:
		return lastFloat(f)
	case f.half && f.stem():
		return copyAll
	case f.half && f.filter == 1 && !f.strided && f.rows <= 32768:
		return noSpace // a matrix product on x as it lies
	case f.half:
		return denseHalf(f)
	case f.stem():
		if 8*f.outPixels < f.inPixels {
			return copyAll
		}
		return copyUnpadded
	case f.filter == 1 && f.strided:
		return f.downsample()
	case f.filter == 1 && f.inPixels > 1:
		return f.pointwise()
	case f.strided && !f.backward && f.in <= 48 && f.out <= 48:
		return noSpace // too little work for the copies
	case f.large():
		return f.largeFloat()
	}
	return denseFloat(f)
}

// stem says whether this is the forward pass of a network's first convolution, of
// large windows that overlap.
func (f *convFacts) stem() bool {
	return f.three && !f.backward && f.depth >= 128 && float64(f.filter)*float64(f.outPixels) > 2*float64(f.inPixels)
}

// pointwise chooses for dense 1x1 filters in fp32: a matrix product on x as it lies,
// unless the filter is large against the images, or as wide as the engines that
// copy are made for.
func (f *convFacts) pointwise() convSpace {
	switch {
	case f.weightBytes >= 8<<20,
		f.weightBytes >= 4<<20 && (f.rows <= 4096 || f.backward && f.rows <= 8192 && f.widest >= 2048),
		f.backward && f.rows <= 4096 && f.weightBytes >= 9<<17 && f.narrowest >= 256 && f.narrowest <= 384,
		!f.backward && f.rows >= 6144 && f.out == 128 && f.in >= 320 && f.in <= 416:
		return copyInOut
	}
	return noSpace
}

// downsample chooses for 1x1 filters with a stride, in fp32: a shortcut between two
// sizes. Narrow ones are read as they lie, large ones write y as it is wanted.
func (f *convFacts) downsample() convSpace {
	rows := min(f.rows, saturate(f.batch, f.inPixels))
	switch {
	case rows > 4096 && f.narrowest%64 != 0, f.backward && rows > 8192 && f.dims == 2 && f.widest < 512:
		return noSpace
	case (rows >= 16384 || f.dims == 3) && !f.backward && f.out > f.in:
		return copyInWeight
	case rows < 16384:
		return copyInOut
	}
	return copyAll
}

// large says whether this is a row-major convolution of many wide pixels, whose
// time the copies hardly add to.
func (f *convFacts) large() bool {
	return f.rows >= 16384 && f.narrowest >= 48 && f.filter >= 5 && !f.strided && !f.dilated && !f.transposed
}

// largeFloat chooses for large convolutions in fp32: everything is copied, but for
// those whose tiles lie well in y as it is wanted.
func (f *convFacts) largeFloat() convSpace {
	few := f.out <= 64 && f.dims == 3 && f.filter >= 9
	widen := f.in >= 64 && f.in <= 80 && f.out >= 128 && f.filter == 9
	if !f.backward && (few || widen) {
		return copyInWeight
	}
	return copyAll
}

// depthwise says whether every channel is a group of its own.
func (s ConvShape) depthwise() bool {
	return s.Groups > 1 && len(s.X) > 1 && s.Groups == s.X[1]
}

// depthwiseWeight is the workspace of a depthwise convolution's weight gradient,
// the only one of its passes that takes any, and in channels last alone: row-major
// ones run on PyTorch's own kernels. cuDNN pads the single channels of large work
// to 4, and in 16 bit keeps 8 partial results for each image, in steps of 32 channels.
func (f *convFacts) depthwiseWeight() int64 {
	if !f.channelsLast || f.strided {
		return 0
	}
	padded := 4 * (f.inBytes + f.outBytes)
	parts := saturate(groupsOnce*4*f.batch, saturate(padTo(f.in, 32), f.filter))
	switch {
	case !f.half && f.filter >= 7 && f.products > 160e6:
		return padded
	case f.half && !f.square && f.filter >= 7 && f.products > 20e6:
		return padded
	case f.half && f.square && (!f.dilated || f.filter == 1):
		return parts
	}
	return 0
}

// facts works the figures out; it fails for shapes that are not a convolution's.
func (s ConvShape) facts(backward bool) (*convFacts, bool) {
	n := len(s.X)
	if n < 3 || len(s.Y) != n || len(s.W) != n || s.Groups < 1 || s.Elem < 1 {
		return nil, false
	}
	for i := range n {
		if s.X[i] < 1 || s.Y[i] < 1 || s.W[i] < 1 {
			return nil, false
		}
	}
	f := &convFacts{elem: s.Elem, channelsLast: s.ChannelsLast, half: s.Elem == 2, transposed: s.Transposed, backward: backward,
		dims: int64(n - 2), batch: s.X[0], groups: s.Groups, square: true, filter: 1, inPixels: 1, outPixels: 1}
	for i := 2; i < n; i++ {
		f.filter = saturate(f.filter, s.W[i])
		f.inPixels = saturate(f.inPixels, s.X[i])
		f.outPixels = saturate(f.outPixels, s.Y[i])
		f.square = f.square && s.W[i] == s.W[2]
	}
	for _, v := range s.Stride {
		f.strided = f.strided || v > 1
	}
	for _, v := range s.Dilation {
		f.dilated = f.dilated || v > 1
	}
	f.in, f.out = s.X[1], s.Y[1]
	align := 16 / s.Elem
	f.matrix = saturate(saturate(max(f.in/f.groups, 1), max(f.out/f.groups, 1)), f.filter)
	f.weightBytes = saturate(saturate(s.W[0], padTo(s.W[1], align)), saturate(f.filter, s.Elem))
	f.parts = saturate(saturate(s.W[0], s.W[1]), saturate(f.filter, 4))
	f.products = saturate(saturate(f.batch, f.outPixels), saturate(f.matrix, f.groups))
	f.inBytes = saturate(saturate(f.batch, f.inPixels), saturate(padTo(f.in, align), s.Elem))
	f.outBytes = saturate(saturate(f.batch, f.outPixels), saturate(padTo(f.out, align), s.Elem))
	if backward {
		f.in, f.out = f.out, f.in
		f.inPixels, f.outPixels = f.outPixels, f.inPixels
		f.inBytes, f.outBytes = f.outBytes, f.inBytes
	}
	f.inGroup, f.outGroup = max(f.in/f.groups, 1), max(f.out/f.groups, 1)
	f.widest, f.narrowest = max(f.inGroup, f.outGroup), min(f.inGroup, f.outGroup)
	for f.width = 8; f.width < f.widest && f.width < convMaximum; {
		f.width *= 2
	}
	f.rows = saturate(f.batch, f.outPixels)
	f.depth = saturate(f.inGroup, f.filter)
	f.three = min(f.in, f.out) == 3
	f.tile((f.rows + 127) / 128)
	return f, true
}

// tile cuts the result into squares, so many for each 128 channels written.
func (f *convFacts) tile(n int64) {
	f.tiles = saturate((f.out+127)/128, n)
	f.left = f.tiles % smCount
}

// bytes returns what an engine takes. parts in 4 bytes are as large as w in fp32,
// twice as large in 16 bit.
func (f *convFacts) bytes(e convSpace, weight bool) int64 {
	switch e {
	case noSpace:
		return 0
	case padGroups, padGroupsPart, padGroupsTiles:
		return f.padded(e)
	case loopGroups, loopGroupsNoWeight, loopGroups4Parts, loopGroups20Parts:
		return f.looped(e)
	case partPerImage:
		return saturate(f.batch, f.parts)
	case waveTiles:
		n := saturate((f.outGroup+127)/128, (f.depth+127)/128)
		return saturate(max(smCount/n, 1)*n, tileBytes)
	}
	a, b, w := f.inBytes, f.outBytes, f.weightBytes
	wide := w / f.elem * 4
	partial := tilesBytes
	if weight {
		partial = f.partialTiles()
	}
	sum := convNotes
	switch e {
	case copyAll, copyAllTiles, copyAll4Parts, copyAll10Parts, copyAll20Parts:
		sum += a + b + w
	case copyInWeight:
		sum += a + w
	case copyInOut, copyInOutTiles:
		sum += a + b
	case copyIn:
		sum += a
	case copyUnpadded:
		sum += f.unpadded()
	case copyTwice:
		sum += 2*(a+b) + w
	}
	switch e {
	case tiles, copyAllTiles, copyInOutTiles:
		sum += partial
	case copyAll4Parts:
		sum += 4 * wide
	case copyAll10Parts, parts10:
		sum += 10 * wide
	case copyAll20Parts, parts20:
		sum += 20 * wide
	}
	return sum
}

// unpadded is what x, w and y take with the channels that they have.
func (f *convFacts) unpadded() int64 {
	a := saturate(saturate(f.batch, f.inPixels), f.in)
	b := saturate(f.rows, f.out)
	return saturate(a+b+saturate(f.matrix, f.groups), f.elem)
}

// partialTiles is what a weight gradient's partial sums take when the
// multiprocessors share the tiles of w that are left over after the last full wave:
// every one of them holds a tile, as far as they divide evenly, and in powers of two
// for a 1x1 filter.
func (f *convFacts) partialTiles() int64 {
	high, wide := int64(128), int64(128)
	n, point := f.tiles, f.filter == 1 && !f.channelsLast
	switch {
	case f.in <= 64 && f.out <= 96:
		high, wide = 64, 64
		n = saturate(saturate((f.out+63)/64, (f.in+63)/64), f.filter)
	case f.in <= 64 || f.rows < 16384 && n < 36 && !(point && f.out < f.in):
		high = 64
		n = saturate((f.out+63)/64, (saturate(f.in, f.filter)+127)/128)
	}
	if n > smCount {
		n %= smCount
	}
	if n == 0 {
		return 0
	}
	share := smCount / n
	if f.half {
		share = 0 // no waves in 16 bit
		if f.tiles <= 18 {
			share = 120 / n
		}
	}
	if point && share > 0 {
		share = 1 << (bits.Len64(uint64(share)) - 1)
	}
	if share < 2 {
		return 0
	}
	counters := n
	if share > 2 {
		counters *= share
	}
	return share*n*high*wide*4 + 4*counters
}

// padded is the one convolution with every group padded to a power of two, at
// least 4. In channels last only the sides that need padding are copied.
func (f *convFacts) padded(e convSpace) int64 {
	q := int64(4)
	for q < f.widest && q < convMaximum {
		q *= 2
	}
	channels := saturate(saturate(q, f.groups), f.elem)
	a := saturate(saturate(f.batch, f.inPixels), channels)
	b := saturate(f.rows, channels)
	w := saturate(saturate(channels, q), f.filter)
	sum := a + b + w
	if f.channelsLast {
		sum = 0
		if f.inGroup != q {
			sum += a
		}
		if f.outGroup != q {
			sum += b
		}
		if sum > 0 {
			sum += w
		}
	}
	switch e {
	case padGroupsPart:
		sum += w
	case padGroupsTiles:
		sum += tilesBytes
	}
	return sum
}

// looped is the sum over the groups that run at once.
func (f *convFacts) looped(e convSpace) int64 {
	align := 16 / f.elem
	a := saturate(saturate(f.batch, f.inPixels), saturate(padTo(f.inGroup, align), f.elem))
	b := saturate(f.rows, saturate(padTo(f.outGroup, align), f.elem))
	w := f.weightBytes / f.groups
	wide := w * 4 / f.elem
	sum := a + b + w
	switch e {
	case loopGroupsNoWeight:
		sum = a + b
	case loopGroups4Parts:
		sum += 4 * wide
	case loopGroups20Parts:
		sum += 20 * wide
	}
	return saturate(min(f.groups, groupsOnce), sum)
}

// saturate multiplies two numbers that are not negative; what would exceed
// convMaximum, which no memory holds, becomes that.
func saturate(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if a > convMaximum/b {
		return convMaximum
	}
	return a * b
}

func padTo(n, to int64) int64 {
	if to <= 1 || n > convMaximum {
		return n
	}
	return (n + to - 1) / to * to
}

func ratio(a, b int64) float64 { return float64(a) / float64(b) }

// A convDirection is a pass of a convolution.
type convDirection uint8

const (
	convForward convDirection = iota
	convBackwardInput
	convBackwardWeight
)

// newConvShape describes a convolution of x with w to a result of that shape, in
// channels last or not.
func newConvShape(c *Call, x, w *tensor, shape []int64, last bool) ConvShape {
	return ConvShape{Elem: x.dtype.Bits() / 8, ChannelsLast: last, X: x.shape, W: w.shape, Y: shape,
		Stride: c.Args.Stride, Dilation: c.Args.Dilate, Groups: max(c.Args.Groups, 1), Transposed: c.Args.Mode == "transposed"}
}

// convWorkspace allocates and frees the workspace of a pass.
func (r *run) convWorkspace(s ConvShape, d convDirection) {
	bytes := s.ForwardWorkspace()
	switch d {
	case convBackwardInput:
		bytes = s.DataWorkspace()
	case convBackwardWeight:
		bytes = s.WeightWorkspace()
	}
	if r.opts.Bound {
		bytes = max(bytes, s.WorkspaceBound())
	}
	r.planScratch(s, d, bytes)
}
