package kernels

import "github.com/memestimate/memestimate/simulate/gpu"

// A ConvShape is a convolution as cuDNN sees it, of any number of spatial
// dimensions. Shapes are in PyTorch's order: X [N, C, ...], Y [N, K, ...], W
// [K, C/groups, ...], or [C, K/groups, ...] when Transposed.
type ConvShape struct {
	Elem         int64 // bytes of an element: 4, or 2 for bfloat16 and float16
	Float16      bool  // 2 bytes are a float16
	ChannelsLast bool  // the memory format of x, w and y
	X, W, Y      []int64
	Stride       []int64
	Dilation     []int64
	Groups       int64
	Transposed   bool
}

// A ConvPass is one of the three computations of a convolution.
type ConvPass uint8

// The passes: y from x and w, the gradient of x from those of y and w, and the
// gradient of w from x and that of y.
const (
	ConvForward ConvPass = iota
	ConvBackwardInput
	ConvBackwardWeight
)

// Engines that have this share of the most votes are taken as well if they take more.
const nearlyAll, nearlyOf = 2, 3

// majority returns the workspace that most trees stand for: engines that take about the same,
// here, count together, and of these the most named one is taken. Where the trees are
// nearly undecided it is the larger one, as too little is worse than too much.
func (w *convWork) majority(f *convForest, leaves []uint8) int64 {
	type named struct {
		engine uint8
		votes  int
		bytes  int64
	}
	var room [maxConvTrees]named
	list := room[:0]
next:
	for _, e := range leaves {
		for i := range list {
			if list[i].engine == e {
				list[i].votes++
				continue next
			}
		}
		list = append(list, named{e, 1, w.bytes(f.engines[e])})
	}
	best, bestSum := named{}, 0
	var sums [maxConvTrees]int
	for i, a := range list {
		for _, b := range list {
			if d := a.bytes - b.bytes; max(d, -d) <= max(a.bytes/128, 8192) {
				sums[i] += b.votes
			}
		}
		bestSum = max(bestSum, sums[i])
	}
	for i, a := range list {
		more := a.votes > best.votes || a.votes == best.votes && a.engine < best.engine
		if d := a.bytes - best.bytes; sums[i]*nearlyOf >= bestSum*nearlyAll &&
			(best.votes == 0 || d > max(a.bytes/128, 8192) || -d <= max(a.bytes/128, 8192) && more) {
			best = a
		}
	}
	return best.bytes
}

// exchanged are the passes that those of a transposed convolution are of its convolution from y to x.
var exchanged = [...]ConvPass{ConvBackwardInput, ConvForward, ConvBackwardWeight}

// convMaximum is more than any memory holds; sizes stay below it.
const convMaximum = int64(1) << 55

// convWork is a pass of a convolution in figures. A transposed convolution is its
// convolution from y to x, with the passes exchanged.
type convWork struct {
	sms                          int64 // multiprocessors of the device
	pass                         ConvPass
	elem                         int64
	float16, last                bool
	asIs                         bool // x and y are worked on where they lie, in NCHW: at most w is copied
	batch, groups                int64
	c, k                         int64 // channels of x and y
	cGroup, kGroup               int64 // of one group
	height, width, yHigh, yWide  int64
	xPixels, yPixels             int64 // of one image
	filter, filterHigh, filterIn int64 // elements, and the last two dimensions
	stride, dilation, dims       int64
	transposed                   bool
	// The matrix product of one group: rows x cols results, sums of depth products.
	rows, cols, depth int64
	// Bytes in NHWC, channels padded to 16 bytes: what is read and written, x and y in
	// the pass's direction (the weight gradient reads both), and w; and unpadded.
	in, out, weight                int64
	inPlain, outPlain, weightPlain int64
	result                         int64 // elements of the pass's result
}

// native says whether PyTorch's own kernels run instead of cuDNN's: depthwise in
// row-major order. (float16 may run on cuDNN; it takes no workspace either.)
func (w *convWork) native() bool { return w.depthwise() && !w.last && !w.transposed }

// depthwise says whether every channel is a group of its own.
func (w *convWork) depthwise() bool { return w.groups > 1 && w.groups == w.c }

// Depthwise says whether every channel of x is a group of its own.
func (s ConvShape) Depthwise() bool { return s.Groups > 1 && len(s.X) > 1 && s.Groups == s.X[1] }

// work puts a pass into figures; it fails for shapes that are not a convolution's.
func (s ConvShape) work(pass ConvPass, d gpu.Device) (w convWork, ok bool) {
	n := len(s.X)
	if n < 3 || len(s.Y) != n || len(s.W) != n || s.Groups < 1 || s.Elem < 1 || s.Elem > 16 {
		return w, false
	}
	for i := range n {
		if s.X[i] < 1 || s.Y[i] < 1 || s.W[i] < 1 {
			return w, false
		}
	}
	x, y := s.X, s.Y
	if s.Transposed {
		x, y, pass = y, x, exchanged[pass]
	}
	w = convWork{sms: int64(max(d.Multiprocessors, 1)), pass: pass, elem: s.Elem, float16: s.Float16,
		last: s.ChannelsLast, asIs: s.Elem == 4 && !s.ChannelsLast && worksInNCHW(d.Capability),
		transposed: s.Transposed, batch: x[0], groups: s.Groups,
		c: x[1], k: y[1], dims: int64(max(n-2, 2)), stride: 1, dilation: 1,
		height: 1, yHigh: 1, filterHigh: 1, width: x[n-1], yWide: y[n-1], filterIn: s.W[n-1]}
	if n > 3 {
		w.height, w.yHigh, w.filterHigh = x[n-2], y[n-2], s.W[n-2]
	}
	w.xPixels, w.yPixels, w.filter = saturate(x[2:]...), saturate(y[2:]...), saturate(s.W[2:]...)
	for _, v := range s.Stride {
		w.stride = max(w.stride, v)
	}
	for _, v := range s.Dilation {
		w.dilation = max(w.dilation, v)
	}
	w.cGroup, w.kGroup = max(w.c/w.groups, 1), max(w.k/w.groups, 1)
	align := 16 / s.Elem
	xElems, yElems := saturate(w.batch, w.xPixels, w.c), saturate(w.batch, w.yPixels, w.k)
	w.in, w.out = saturate(w.batch, w.xPixels, padTo(w.c, align), s.Elem), saturate(w.batch, w.yPixels, padTo(w.k, align),
		s.Elem)
	w.inPlain, w.outPlain = saturate(xElems, s.Elem), saturate(yElems, s.Elem)
	w.weight, w.weightPlain = saturate(s.W[0], padTo(s.W[1], align), w.filter, s.Elem), saturate(s.W[0], s.W[1], w.filter,
		s.Elem)
	switch pass {
	case ConvForward:
		w.rows, w.cols, w.depth = saturate(w.batch, w.yPixels), w.kGroup, saturate(w.cGroup, w.filter)
		w.result = yElems
	case ConvBackwardInput:
		w.in, w.out, w.inPlain, w.outPlain = w.out, w.in, w.outPlain, w.inPlain
		w.rows, w.cols, w.depth = saturate(w.batch, w.xPixels), w.cGroup, saturate(w.kGroup, w.filter)
		w.result = xElems
	default:
		w.rows, w.cols, w.depth = w.kGroup, saturate(w.cGroup, w.filter), saturate(w.batch, w.yPixels)
		w.result = saturate(s.W[0], s.W[1], w.filter)
	}
	return w, true
}

// worksInNCHW reports whether cuDNN has kernels made for the capability that take float32 in NCHW: the smaller chips of
// Ampere, and Ada (sm86_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw in published profiles of an RTX 4090
// and others). Hopper's tensor cores read NHWC, and what they work on is copied. Nothing was measured on these chips:
// docs/accuracy.md judges it on published runs of an RTX 4060 and an RTX 3060, which also show no partial gradients.
func worksInNCHW(c gpu.Capability) bool { return c.Major == 8 && c.Minor >= 6 }

// CuDNNDepthwise reports whether a row-major depthwise convolution in float16 is left to cuDNN: square
// filters of 1, 3 or 5 without dilation, at stride 1, or at stride 2 for the sizes where it was found faster
// (use_cudnn_depthwise and check_cudnn_depthwise_workload_with_filter of Convolution.cpp).
func (s ConvShape) CuDNNDepthwise() bool {
	filter, width, channels := s.W[3], s.X[3], s.X[1]
	at := func(list []int64, i int) int64 {
		if i < len(list) {
			return list[i]
		}
		return 1
	}
	stride := at(s.Stride, 1)
	switch {
	case at(s.Dilation, 0) != 1 || at(s.Dilation, 1) != 1 || channels < 32:
		return false
	case at(s.Stride, 0) != stride && s.X[2] != 1:
		return false
	case s.X[2] == 1 && stride == 1:
		return true
	case s.W[2] != filter || filter != 1 && filter != 3 && filter != 5 || width < 7:
		return false
	case stride == 1:
		return true
	case stride != 2:
		return false
	case s.X[0] == 1:
		return filter != 1 || width <= 28
	case filter == 1:
		return s.X[0] <= 16 && channels >= 128 && width <= 7
	}
	return channels >= 512 || channels >= 256 && width >= 28
}
