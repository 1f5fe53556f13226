package shape

import (
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
func constantOfShape(c *call) {
	c.needInts(1, 0)
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
		return
	}
	s := checked(shapeOf(target))
	c.out(0, elem, s)
}

func constantOfShapeEval(c *call) {
	shape, n := c.outSize()
	t, fill := c.attrTensor("value")
	if t == nil {
		fill = zeros(onnxload.Float32, []int64{1}, 1)
	}
	proceedIf(fill != nil && fill.Len() == 1)
	out := fill.like(shape, n)
	for i := range n {
		out.copyElem(i, fill, 0)
	}
	c.outConst(0, out)
}

// rangeOp counts from start to limit, which is left out, by delta: max(0, ⌈(limit-start)/delta⌉)
// elements.
func rangeOp(c *call) {
	c.need(3)
	n := c.rangeLength()
	c.out(0, c.commonElem(0, 1, 2), Of(n))
}

func (c *call) rangeLength() Dim {
	var f [3]float64
	var d [3]Dim
	isFloat := false
	for i := range d {
		v := c.constant(i)
		if v == nil {
			return unknownSize
		}
		if v.Len() != 1 {
			c.fail("input %d has %d elements, a scalar is wanted", i, v.Len())
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
			c.fail("delta is 0")
		case math.IsNaN(n):
			return unknownSize
		case n >= math.MaxInt64:
			c.fail("a range of %g elements", n)
		}
		return N(int64(max(n, 0)))
	}
	delta, ok := d[2].Int()
	switch {
	case ok && delta == 0:
		c.fail("delta is 0")
	case !ok:
		return unknownSize
	}
	span := Sub(d[1], d[0])
	if delta < 0 {
		span = Sub(d[0], d[1])
		delta = -max(delta, -math.MaxInt64)
	}
	return positive(CeilDiv(span, N(delta)))
}

func rangeEval(c *call) {
	in := c.values(3)
	shape, n := c.outSize()
	proceedIf(sameKind(in...))
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
}

// eyeLike has the shape of a matrix, and its type unless dtype names one.
func eyeLike(c *call) {
	if dims, ok := c.dims(0); ok && len(dims) != 2 {
		c.fail("%v is no matrix", c.shape(0))
	}
	randomLike(c)
	eyeLikeValue(c)
}

// eyeLikeValue needs the input's shape alone, not its value.
func eyeLikeValue(c *call) {
	shape, n := c.outSize()
	elem := c.outs[0].Elem
	proceedIf(len(shape) == 2 && (elem.IsInt() || elem.IsFloat() || elem == onnxload.Bool))
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
}

// random has its shape in an attribute and is of float32 unless dtype says otherwise.
func random(c *call) {
	ints := c.wantInts("shape")
	elem := c.attrElem("dtype", onnxload.Float32)
	s := checked(shapeOf(toDims(ints)))
	c.out(0, elem, s)
}

// randomLike has the shape of the input, and its type unless dtype says otherwise.
func randomLike(c *call) {
	c.need(1)
	elem := c.attrElem("dtype", c.elem(0))
	c.out(0, elem, c.shape(0))
}

// multinomial draws sample_size times for each row of [batch, classes]; int32 unless dtype
// says otherwise.
func multinomial(c *call) {
	c.need(1)
	elem := c.attrElem("dtype", onnxload.Int32)
	n := checked(checkDim(N(c.attrInt("sample_size", 1)), "sample_size"))
	batch := unknownSize
	if dims, ok := c.dims(0); ok {
		if len(dims) != 2 {
			c.fail("%v is no matrix of [batch, classes]", c.shape(0))
		}
		batch = dims[0]
	}
	c.out(0, elem, Of(batch, n))
}

// constantFamily has the operator whose value is written into the file.
var constantFamily = family{"", []op{
	{name: "Constant", since: 1, infer: inferConstant},
}}

// inferConstant takes the value from the one attribute that has it. Tensors are read when
// somebody asks for their value.
func inferConstant(c *call) {
	for i := range c.node.Attrs {
		a := &c.node.Attrs[i]
		one := len(a.Tensors) == 1
		switch {
		case a.Name == "value" && one, a.Name == "sparse_value" && one:
			t := a.Tensors[0]
			c.out(0, t.DType, OfInts(t.Dims...))
			if c.hasOut(0) {
				c.results[0] = &Const{stored: t}
			}
			return
		case a.Name == "value_int":
			c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{}, Ints: []Dim{N(a.Int)}})
			return
		case a.Name == "value_ints":
			c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{int64(len(a.Ints))}, Ints: toDims(a.Ints)})
			return
		case a.Name == "value_float":
			c.outConst(0, &Const{Elem: onnxload.Float32, Shape: []int64{}, Floats: []float64{float64(a.Float)}})
			return
		case a.Name == "value_floats":
			c.outConst(0, &Const{Elem: onnxload.Float32, Shape: []int64{int64(len(a.Floats))},
				Floats: toFloats(a.Floats)})
			return
		case a.Name == "value_string":
			c.out(0, onnxload.String, Of())
			return
		case a.Name == "value_strings":
			c.out(0, onnxload.String, OfInts(int64(len(a.Strs))))
			return
		}
	}
	c.fail("no attribute has the value, wanted %q or one like it", "value")
}
