package recording

import (
	"math/bits"
	"regexp"
	"sync"

	"github.com/memestimate/memestimate/simulate/kernels"
)

// elementType is what names of element types look like: they are shown as they are.
var elementType = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_]{0,40}$`) })

func (d *decoder) op() error {
	name, err := d.name()
	if err != nil {
		return err
	}
	overload, err := d.name()
	if err != nil {
		return err
	}
	d.rec.Ops = append(d.rec.Ops, Op{d.rec.Texts[name], d.rec.Texts[overload]})
	return nil
}

func (d *decoder) meta() error {
	var m Meta
	dtype, err := d.name()
	if err == nil {
		m.DType = d.rec.Texts[dtype]
		if !elementType().MatchString(m.DType) {
			return d.fail("an element type is %q, wanted a name such as float32", short([]byte(m.DType)))
		}
		m.Shape, err = d.dims("a size")
	}
	if err == nil {
		m.Stride, err = d.dims("a stride")
	}
	if err != nil {
		return err
	}
	if len(m.Shape) != len(m.Stride) {
		return d.fail("%d sizes and %d strides", len(m.Shape), len(m.Stride))
	}
	if m.Offset, err = d.count("an offset"); err != nil {
		return err
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
		return d.fail("a tensor of sizes %v and strides %v is larger than any computer's memory", m.Shape, m.Stride)
	}
	if len(d.rec.Metas) >= maxMetas {
		return d.fail("more than %d layouts", maxMetas)
	}
	d.rec.Metas = append(d.rec.Metas, m)
	return nil
}

// dims reads a list of numbers that are not negative.
func (d *decoder) dims(what string) ([]int64, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	var room [8]int64
	list := room[:0]
	for d.json.PeekKind() != ']' {
		n, err := d.count(what)
		if err != nil {
			return nil, err
		}
		if list = append(list, n); len(list) > maxDims {
			return nil, d.fail("more than %d dimensions", maxDims)
		}
	}
	_, err := d.json.ReadToken()
	return append([]int64(nil), list...), err
}

// What the words of an Answer stand for.
var (
	passWords = []string{"forward", "input", "weight"} // by workspace.ConvPass
	convTypes = []string{"float32", "bfloat16", "float16"}
)

// answer reads what cuDNN takes for a pass of a convolution: its answer, or its search and the most of what that finds.
func (d *decoder) answer(search bool) error {
	var a Answer
	pass, err := d.oneOf(passWords, "a pass")
	if err != nil {
		return err
	}
	a.Pass = kernels.ConvPass(pass)
	kind, err := d.oneOf(convTypes, "a convolution's element type")
	if err != nil {
		return err
	}
	s := &a.Shape
	s.Elem, s.Float16 = 2, kind == 2
	if kind == 0 {
		s.Elem = 4
	}
	for _, flag := range []*bool{&s.ChannelsLast, &s.Transposed} {
		if *flag, err = d.flag(); err != nil {
			return err
		}
	}
	if s.Groups, err = d.count("the number of groups"); err != nil {
		return err
	}
	for _, list := range []*[]int64{&s.X, &s.W, &s.Y, &s.Stride, &s.Dilation} {
		if *list, err = d.dims("a size"); err != nil {
			return err
		}
	}
	if a.Bytes, err = d.bytes(); err == nil && !search {
		d.rec.Answers = append(d.rec.Answers, a)
	}
	if err == nil && search {
		found := int64(0)
		if found, err = d.bytes(); err == nil {
			d.rec.Searches = append(d.rec.Searches, Search{a, found})
		}
	}
	return err
}

// open reads the bracket that a list opens with.
func (d *decoder) open() error {
	if k := d.json.PeekKind(); k != '[' && k != 0 {
		return d.fail("wanted a list")
	}
	_, err := d.json.ReadToken()
	return err
}

func (d *decoder) frame() error {
	parent, err := d.id(len(d.rec.Frames), "frame")
	if err != nil {
		return err
	}
	file, err := d.name()
	if err != nil {
		return err
	}
	line, err := d.small("a line")
	if err != nil {
		return err
	}
	function, err := d.name()
	if err != nil {
		return err
	}
	d.rec.Frames = append(d.rec.Frames, Frame{parent, line, d.rec.Texts[file], d.rec.Texts[function]})
	return nil
}

func (d *decoder) module() error {
	parent, err := d.id(len(d.rec.Modules), "module")
	if err != nil {
		return err
	}
	name, err := d.name()
	if err != nil {
		return err
	}
	class, err := d.name()
	if err != nil {
		return err
	}
	d.rec.Modules = append(d.rec.Modules, Module{parent, d.rec.Texts[name], d.rec.Texts[class]})
	return nil
}
