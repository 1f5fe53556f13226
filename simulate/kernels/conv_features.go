package kernels

// measuredMultiprocessors are those of the device that the forests have grown on. What a library's heuristics choose
// elsewhere is not known, so that the figures which the trees compare are worked out for that device whatever the
// run's: see Measured.
var measuredMultiprocessors = int64(Measured.Multiprocessors)

// convFeatures are the figures that the trees of a forest look at.
type convFeatures [61]float32

// features works the figures out. Trees only ask whether a figure is above a limit, so
// none needs a scale; what engines compare (matrix sizes, tiles, how evenly they fill
// the multiprocessors, alignment) is there directly.
func (w *convWork) features() convFeatures {
	in, out, weight := float64(w.in), float64(w.out), float64(w.weight)
	rows, cols, depth := float64(w.rows), float64(w.cols), float64(w.depth)
	tiles := w.tiles(128, 128)
	products := rows * cols * depth
	flag := func(set bool) float64 {
		if set {
			return 1
		}
		return 0
	}
	filled := func(n, to int64) float64 { return float64(n) / float64(padTo(n, to)) }
	flat, wide, small := w.tiles(64, 128), w.tiles(128, 256), w.tiles(64, 64)
	figures := [...]float64{
		float64(w.batch),
		float64(w.c),
		float64(w.k),
		float64(w.cGroup),
		float64(w.kGroup),
		float64(w.groups),
		float64(w.filter),
		float64(w.filterHigh),
		float64(w.filterIn),
		float64(w.xPixels),
		float64(w.yPixels),
		float64(w.stride),
		float64(w.dilation),
		float64(w.dims),
		rows,
		cols,
		depth,
		products * float64(w.groups),
		in,
		out,
		weight,
		in / out,
		in / weight,
		out / weight,
		float64(tiles),
		float64(wide),
		float64(small),
		float64(tiles % measuredMultiprocessors),
		filled(tiles, measuredMultiprocessors),
		powerOfTwo(w.cGroup),
		powerOfTwo(w.kGroup),
		float64(min(w.cGroup, w.kGroup)),
		float64(max(w.cGroup, w.kGroup)),
		float64(w.cGroup) / float64(w.kGroup),
		float64(w.width),
		float64(w.yWide),
		depth / float64(tiles),
		float64(w.batch) * float64(w.weightPlain) / (in + out),
		flag(w.transposed),
		float64(w.batch) * float64(w.yPixels),
		powerOfTwo(w.yPixels),
		products / (float64(rows*cols) + float64(cols*depth) + float64(rows*depth)), // operations for each value moved
		flag(w.float16),
		float64(saturate(w.tiles(256, 128), w.groups)),
		float64(saturate(w.tiles(128, 64), w.groups)),
		float64(saturate(flat, w.groups)),
		filled(wide, measuredMultiprocessors),
		filled(small, measuredMultiprocessors),
		powerOfTwo(w.batch),
		powerOfTwo(w.xPixels),
		rows / cols,
		float64(w.height),
		float64(w.yHigh),
		filled(w.cGroup, 32),
		filled(w.kGroup, 32),
		filled(w.cols, 128),
		filled(w.rows, 128),
		float64(w.yPixels) / float64(w.xPixels),
		float64(w.result),
		float64(w.batch) * float64(w.xPixels),
		in + out + weight,
	}
	var f convFeatures
	for i, v := range figures {
		f[i] = float32(v)
	}
	return f
}

// powerOfTwo is the largest power of two, up to 64, that divides n.
func powerOfTwo(n int64) float64 { return float64(min(n&-n, 64)) }
