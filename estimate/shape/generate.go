package shape

import (
	"errors"
	"fmt"
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

// generateFamily has the operators that make tensors from a shape, a range or an attribute.
var generateFamily = family{"", []op{
	{"ConstantOfShape", 9, constantOfShape, constantOfShapeEval},
	{"Range", 11, rangeOp, rangeEval},
	{"EyeLike", 9, eyeLike, nil},
	{"RandomNormal", 1, random, nil},
	{"RandomUniform", 1, random, nil},
	{"RandomNormalLike", 1, randomLike, nil},
	{"RandomUniformLike", 1, randomLike, nil},
	{"Bernoulli", 15, randomLike, nil},
	{"Multinomial", 7, multinomial, nil},
}}

// constantOfShape fills a shape with the attribute value, one element, by default a float32 0.
func constantOfShape(c *call) error {
	if err := c.needInts(1, 0); err != nil {
		return err
	}
	elem := onnxload.Float32
	if a := c.node.Attr("value"); a != nil && len(a.Tensors) == 1 {
		elem = a.Tensors[0].DType
	}
	target, ok := c.ints(0)
	if !ok {
		s := Shape{}
		if n, ok := c.length(0); ok {
			s = Of(unknowns(n)...)
		}
		c.out(0, elem, s)
		return nil
	}
	s, err := shapeOf(target)
	if err != nil {
		return err
	}
	c.out(0, elem, s)
	return nil
}

func constantOfShapeEval(c *call) error {
	shape, n, ok := c.outSize()
	if !ok {
		return nil
	}
	t, fill := c.attrTensor("value")
	if t == nil {
		fill = zeros(onnxload.Float32, []int64{1}, 1)
	}
	if fill == nil || fill.Len() != 1 {
		return nil
	}
	out := fill.like(shape, n)
	for i := range n {
		out.copyElem(i, fill, 0)
	}
	c.outConst(0, out)
	return nil
}

// rangeOp counts from start to limit, which is left out, by delta: max(0, ⌈(limit-start)/delta⌉)
// elements.
func rangeOp(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	n, err := c.rangeLength()
	if err != nil {
		return err
	}
	c.out(0, c.commonElem(0, 1, 2), Of(n))
	return nil
}

func (c *call) rangeLength() (Dim, error) {
	var f [3]float64
	var d [3]Dim
	isFloat := false
	for i := range d {
		v := c.constant(i)
		if v == nil {
			return unknownSize, nil
		}
		if v.Len() != 1 {
			return Dim{}, fmt.Errorf("input %d has %d elements, a scalar is wanted", i, v.Len())
		}
		if v.isFloat() {
			isFloat = true
			f[i] = v.Floats[0]
		} else {
			d[i] = v.Ints[0]
		}
	}
	if isFloat {
		n := math.Ceil((f[1] - f[0]) / f[2])
		switch {
		case f[2] == 0:
			return Dim{}, errors.New("delta is 0")
		case math.IsNaN(n):
			return unknownSize, nil
		case n >= math.MaxInt64:
			return Dim{}, fmt.Errorf("a range of %g elements", n)
		}
		return N(int64(max(n, 0))), nil
	}
	delta, ok := d[2].Int()
	switch {
	case ok && delta == 0:
		return Dim{}, errors.New("delta is 0")
	case !ok:
		return unknownSize, nil
	}
	span := Sub(d[1], d[0])
	if delta < 0 {
		span = Sub(d[0], d[1])
		delta = -max(delta, -math.MaxInt64)
	}
	return positive(CeilDiv(span, N(delta))), nil
}

func rangeEval(c *call) error {
	in, ok := c.operands(3)
	shape, n, okOut := c.outSize()
	if !ok || !okOut || in[0] == nil || in[1] == nil || in[2] == nil || !sameKind(in...) {
		return nil
	}
	out := in[0].like(shape, n)
	for i := range n {
		if out.isFloat() {
			out.Floats[i] = in[0].Floats[0] + float64(i)*in[2].Floats[0]
		} else {
			out.Ints[i] = Add(in[0].Ints[0], Mul(N(int64(i)), in[2].Ints[0]))
		}
	}
	settle(out)
	c.outConst(0, out)
	return nil
}

// eyeLike has the shape of a matrix, and its type unless dtype names one.
func eyeLike(c *call) error {
	if dims, ok := c.dims(0); ok && len(dims) != 2 {
		return fmt.Errorf("%v is no matrix", c.shape(0))
	}
	if err := randomLike(c); err != nil {
		return err
	}
	return eyeLikeValue(c)
}

// eyeLikeValue needs the input's shape alone, not its value.
func eyeLikeValue(c *call) error {
	shape, n, ok := c.outSize()
	elem := onnxload.Undefined
	if ok {
		elem = c.outs[0].Elem
	}
	if !ok || len(shape) != 2 || !elem.IsInt() && !elem.IsFloat() && elem != onnxload.Bool {
		return nil
	}
	k := min(max(c.attrInt("k", 0), -shape[0]), shape[1])
	out := zeros(elem, shape, n)
	for i := range n {
		if int64(i)%shape[1]-int64(i)/shape[1] != k {
			continue
		}
		if out.isFloat() {
			out.Floats[i] = 1
		} else {
			out.Ints[i] = N(1)
		}
	}
	c.outConst(0, out)
	return nil
}

// random has its shape in an attribute and is of float32 unless dtype says otherwise.
func random(c *call) error {
	ints, err := c.wantInts("shape")
	if err != nil {
		return err
	}
	elem, err := c.attrElem("dtype", onnxload.Float32)
	if err != nil {
		return err
	}
	s, err := shapeOf(toDims(ints))
	if err != nil {
		return err
	}
	c.out(0, elem, s)
	return nil
}

// randomLike has the shape of the input, and its type unless dtype says otherwise.
func randomLike(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	elem, err := c.attrElem("dtype", c.elem(0))
	if err != nil {
		return err
	}
	c.out(0, elem, c.shape(0))
	return nil
}

// multinomial draws sample_size times for each row of [batch, classes]; int32 unless dtype
// says otherwise.
func multinomial(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	elem, err := c.attrElem("dtype", onnxload.Int32)
	if err != nil {
		return err
	}
	n, err := checkDim(N(c.attrInt("sample_size", 1)), "sample_size")
	if err != nil {
		return err
	}
	batch := unknownSize
	if dims, ok := c.dims(0); ok {
		if len(dims) != 2 {
			return fmt.Errorf("%v is no matrix of [batch, classes]", c.shape(0))
		}
		batch = dims[0]
	}
	c.out(0, elem, Of(batch, n))
	return nil
}
