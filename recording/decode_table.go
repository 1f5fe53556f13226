package recording

import (
	"math/bits"
	"regexp"
	"slices"
	"sync"

	"github.com/memestimate/memestimate/simulate/kernels"
)

// elementType is what names of element types look like: they are shown as they are.
var elementType = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_]{0,40}$`) })

func (d *decoder) meta() {
	m := Meta{DType: d.text()}
	if !elementType().MatchString(m.DType) {
		d.fail("an element type is %q, wanted a name such as float32", short([]byte(m.DType)))
	}
	m.Shape, m.Stride = d.dims("a size"), d.dims("a stride")
	if len(m.Shape) != len(m.Stride) {
		d.fail("%d sizes and %d strides", len(m.Shape), len(m.Stride))
	}
	m.Offset = d.count("an offset")
	if d.err != nil {
		return
	}
	n, extent, over := uint64(1), uint64(m.Offset), m.Offset > maxBytes
	for i, s := range m.Shape {
		hi, lo := bits.Mul64(n, uint64(max(s, 1)))
		over = over || hi != 0 || lo > maxBytes
		n = lo
		hi, lo = bits.Mul64(uint64(max(s-1, 0)), uint64(m.Stride[i]))
		over = over || hi != 0 || lo > maxBytes
		extent += lo
	}
	if over || extent > maxBytes {
		d.fail("a tensor of sizes %v and strides %v is larger than any computer's memory", m.Shape, m.Stride)
	}
	if len(d.rec.Metas) >= maxMetas {
		d.fail("more than %d layouts", maxMetas)
	}
	d.rec.Metas = append(d.rec.Metas, m)
}

// dims reads a list of numbers that are not negative.
func (d *decoder) dims(what string) []int64 {
	var room [8]int64
	list := room[:0]
	d.open()
	for d.more() {
		if list = append(list, d.count(what)); len(list) > maxDims {
			d.fail("more than %d dimensions", maxDims)
		}
	}
	d.token()
	return slices.Clone(list)
}

// What the words of an Answer stand for.
var (
	passWords = []string{"forward", "input", "weight"} // by kernels.ConvPass
	convTypes = []string{"float32", "bfloat16", "float16"}
)

// answer reads what cuDNN takes for a pass of a convolution.
func (d *decoder) answer() (a Answer) {
	a.Pass = kernels.ConvPass(d.oneOf(passWords, "a pass"))
	kind := d.oneOf(convTypes, "a convolution's element type")
	s := &a.Shape
	s.Elem, s.Float16 = 2, kind == 2
	if kind == 0 {
		s.Elem = 4
	}
	s.ChannelsLast, s.Transposed = d.flag(), d.flag()
	s.Groups = d.count("the number of groups")
	for _, list := range []*[]int64{&s.X, &s.W, &s.Y, &s.Stride, &s.Dilation} {
		*list = d.dims("a size")
	}
	a.Bytes = d.bytes()
	return a
}
