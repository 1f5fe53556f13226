package shape

import (
	"fmt"
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

var imageFamily = family{"", []op{
	{"Upsample", 1, upsample1, nil},
	{"Upsample", 7, upsample7, nil},
	{"Upsample", 9, resize10, nil}, // as Resize 10
	{"Resize", 10, resize10, nil},
	{"Resize", 11, resize, nil}, // axes and keep_aspect_ratio_policy are there since 18
	{"GridSample", 16, gridSample, nil},
	{"AffineGrid", 20, affineGrid, nil},
}}

// upsample1: pictures [N, C, H, W] and a factor for each of the last two.
func upsample1(c *call) {
	c.need(1)
	scaleAll(c, []float64{1, 1, c.attrFloat("height_scale", 0), c.attrFloat("width_scale", 0)})
}

func upsample7(c *call) {
	c.need(1)
	a := c.node.Attr("scales")
	if a == nil || a.Type != onnxload.AttrFloats {
		c.fail("attribute scales is missing")
	}
	scaleAll(c, toFloats(a.Floats))
}

// resize10: X, scales.
func resize10(c *call) {
	c.need(2)
	if scales, ok := c.floats(1); ok {
		scaleAll(c, scales)
		return
	}
	s := c.shape(0)
	c.out(0, c.elem(0), Shape{Ranked: s.Ranked, Dims: unknowns(len(s.Dims))})
}

// scaleAll multiplies every dimension of input 0.
func scaleAll(c *call, scales []float64) {
	in := c.ofRank(0, len(scales), len(scales))
	out := make([]Dim, len(in))
	for i, d := range in {
		out[i] = checked(scaled(d, scales[i], 1))
	}
	c.out(0, c.elem(0), Of(out...))
}

// resize: X, roi, scales, sizes. Either scales or sizes is given; an empty tensor counts as not
// given. Both have one number for each of the attribute axes, or for every axis. With
// coordinate_transformation_mode tf_crop_and_resize, scales apply to the part that roi cuts out.
func resize(c *call) {
	in, ok := c.likeInput(0)
	if !ok {
		return
	}
	axes := axesOf(c, len(in))
	out := append([]Dim(nil), in...)
	switch {
	case filled(c, 2) && filled(c, 3) && c.node.Version >= 13:
		c.fail("both scales and sizes are given")
	case given(c, 3) && (filled(c, 3) || !filled(c, 2)):
		resizeTo(c, out, axes)
	case given(c, 2):
		resizeBy(c, out, axes)
	default:
		c.fail("neither scales nor sizes are given")
	}
	c.out(0, c.elem(0), Of(out...))
}

// given reports whether input i is there and not known to be empty.
func given(c *call, i int) bool {
	if !c.has(i) {
		return false
	}
	for _, d := range c.shape(i).Dims {
		if n, ok := d.Int(); ok && n == 0 {
			return false
		}
	}
	return true
}

// filled reports whether input i is there and known not to be empty.
func filled(c *call, i int) bool {
	if !c.has(i) || !c.shape(i).Ranked {
		return false
	}
	n, ok := Product(c.shape(i).Dims...).Int()
	return ok && n > 0
}

// axesOf returns the attribute axes of a tensor of this rank, all of them by default.
func axesOf(c *call, rank int) []int {
	said, ok := c.attrInts("axes")
	if !ok {
		all := make([]int, rank)
		for i := range all {
			all[i] = i
		}
		return all
	}
	return checked(axesIn(said, rank))
}

// resizeTo puts the sizes of input 3 into dims, at these axes.
func resizeTo(c *call, dims []Dim, axes []int) {
	sizes, ok := c.sizes(3)
	if ok && len(sizes) != len(axes) {
		c.fail("input 3 has %d sizes for %d axes", len(sizes), len(axes))
	}
	policy := c.attrStr("keep_aspect_ratio_policy", "stretch")
	switch policy {
	case "stretch", "not_larger", "not_smaller":
	default:
		c.fail("attribute keep_aspect_ratio_policy is %q, wanted stretch, not_larger or not_smaller", policy)
	}
	if !ok {
		for _, a := range axes {
			dims[a] = unknownSize
		}
		return
	}
	if policy == "stretch" {
		for i, a := range axes {
			dims[a] = sizes[i]
		}
		return
	}
	// One factor for all axes: the smallest, or the largest, of size/dimension.
	// Each dimension times that factor is rounded, halves upwards.
	size, of, known := int64(0), int64(0), true
	for i, a := range axes {
		s, okS := sizes[i].Int()
		d, okD := dims[a].Int()
		if known = okS && okD && d > 0; !known {
			break
		}
		less := i == 0 || lessProduct(s, of, size, d) // s/d < size/of
		more := i == 0 || lessProduct(size, d, s, of)
		if policy == "not_larger" && less || policy == "not_smaller" && more {
			size, of = s, d
		}
	}
	for _, a := range axes {
		if !known {
			dims[a] = unknownSize
			continue
		}
		twice := Add(Mul(Mul(N(2), N(size)), dims[a]), N(of))
		dims[a] = FloorDiv(twice, Mul(N(2), N(of)))
	}
}

// lessProduct reports whether a*b < c*d, for numbers that are not negative.
func lessProduct(a, b, c, d int64) bool {
	n, ok := Sub(Mul(N(a), N(b)), Mul(N(c), N(d))).Int()
	if !ok { // past int64: close enough
		return float64(a)*float64(b) < float64(c)*float64(d)
	}
	return n < 0
}

// resizeBy multiplies dims at these axes by the scales of input 2.
func resizeBy(c *call, dims []Dim, axes []int) {
	scales, ok := c.floats(2)
	if ok && len(scales) != len(axes) {
		c.fail("input 2 has %d scales for %d axes", len(scales), len(axes))
	}
	crop := c.attrStr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
	roi, okRoi := c.floats(1)
	if crop && okRoi && len(roi) != 2*len(axes) {
		c.fail("input 1 has %d numbers for %d axes, wanted twice as many", len(roi), len(axes))
	}
	for i, a := range axes {
		if !ok || crop && !okRoi {
			dims[a] = unknownSize
			continue
		}
		part := 1.0
		if crop {
			part = float64(float32(roi[len(axes)+i]) - float32(roi[i]))
		}
		dims[a] = checked(scaled(dims[a], scales[i], part))
	}
}

// scaled returns floor(d * part * scale), the Resize rule. Scales are float32, and so is ONNX
// Runtime's product: 7 times the float32 next to 10/7 is 10, and would be 9 in double precision.
func scaled(d Dim, scale, part float64) (Dim, error) {
	if !(scale > 0) || math.IsInf(scale, 0) {
		return d, fmt.Errorf("a scale is %v, wanted a positive number", scale)
	}
	if math.IsNaN(part) || math.IsInf(part, 0) {
		return d, fmt.Errorf("a region of interest has the size %v", part)
	}
	n, ok := d.Most()
	if !ok {
		return unknownSize, nil
	}
	x := float64(float32(n) * float32(part) * float32(scale))
	if n > 1<<24 { // float32 no longer holds every number
		x = float64(n) * part * scale
	}
	if x >= math.MaxInt64 {
		return overflowed, nil
	}
	out := N(int64(math.Floor(x)))
	if d.Open() {
		out = bounded(out)
	}
	return out, nil
}

// gridSample: X [N, C, spatial...], grid [N, out..., number of spatial axes].
func gridSample(c *call) {
	c.need(2)
	c.out(0, c.elem(0), Shape{})
	in, grid, ok := c.sameRank(0, 1, "grid has")
	if !ok {
		return
	}
	last := len(grid) - 1
	checked(agree("the number of coordinates", grid[last], N(int64(last-1))))
	batch := checked(agree("the batch size", in[0], grid[0]))
	c.out(0, c.elem(0), Of(append([]Dim{batch, in[1]}, grid[1:last]...)...))
}

// affineGrid: size is [N, C, H, W] or [N, C, D, H, W]; the result has a point for each
// place in a picture.
func affineGrid(c *call) {
	c.need(2)
	c.out(0, c.elem(0), Shape{})
	size, ok := c.sizes(1)
	if !ok {
		if n, known := c.shape(1).Ints(); known && len(n) == 1 && (n[0] == 4 || n[0] == 5) {
			c.out(0, c.elem(0), Of(append(unknowns(int(n[0])-1), N(n[0]-2))...))
		}
		return
	}
	if len(size) != 4 && len(size) != 5 {
		c.fail("input 1 has %d sizes, wanted 4 or 5", len(size))
	}
	out := append([]Dim{size[0]}, size[2:]...)
	c.out(0, c.elem(0), Of(append(out, N(int64(len(size)-2)))...))
}
