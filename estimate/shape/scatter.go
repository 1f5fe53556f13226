package shape

// scatterFamily has the operators that write elements at places given by a tensor.
var scatterFamily = family{"", []op{
	{"Scatter", 9, scatterElements, scatterElementsEval},
	{"ScatterElements", 11, scatterElements, scatterElementsEval},
	{"ScatterND", 11, scatterND, scatterNDEval},
}}

// scatterElements keeps the shape of the data; indices and updates have its rank.
func scatterElements(c *call) {
	c.needInts(3, 1)
	indices := c.elementIndices()
	if _, err := mergeShape(indices, c.shape(2)); err != nil {
		c.fail("indices and updates: %w", err)
	}
	unary(c)
}

// update returns how an update meets the element that it replaces, by the attribute reduction.
func (c *call) update(out *Const) func(at int, from *Const, i int) {
	fns := map[string]binaryFn{
		"add": {plain(Add), func(a, b float64) float64 { return a + b }},
		"mul": {plain(Mul), func(a, b float64) float64 { return a * b }},
		"max": {plain(Max), func(a, b float64) float64 { return max(a, b) }},
		"min": {plain(Min), func(a, b float64) float64 { return min(a, b) }},
	}
	f, ok := fns[c.attrStr("reduction", "none")]
	return func(at int, from *Const, i int) {
		switch {
		case !ok:
			out.copyElem(at, from, i)
		case out.isFloat():
			out.Floats[at] = f.floats(out.Floats[at], from.Floats[i])
		default:
			out.Ints[at] = f.ints(c, out.Ints[at], from.Ints[i])
		}
	}
}

func scatterElementsEval(c *call) {
	in := c.values(3)
	proceedIf(sameKind(in[0], in[2]) && in[1].Len() == in[2].Len())
	ax := c.axisAttr(0, len(in[0].Shape))
	out := in[0].pick(in[0].Shape, in[0].Len(), 0, strides(in[0].Shape))
	set := c.update(out)
	c.along(in[0], in[1], ax, func(i, at int) { set(at, in[2], i) })
	settle(out)
	c.outConst(0, out)
}

// scatterND keeps the shape of the data; the updates have the shape that GatherND with the
// same indices would give.
func scatterND(c *call) {
	c.needInts(3, 1)
	data, indices, updates := c.shape(0), c.shape(1), c.shape(2)
	if data.Ranked && indices.Ranked && len(indices.Dims) > 0 {
		q := len(indices.Dims) - 1
		if width, ok := indices.Dims[q].Int(); ok {
			if width > int64(len(data.Dims)) {
				c.fail("indices of %d coordinates for data %v", width, data)
			}
			want := append([]Dim{}, indices.Dims[:q]...)
			want = append(want, data.Dims[width:]...)
			if _, err := mergeShape(Of(want...), updates); err != nil {
				c.fail("updates: %w", err)
			}
		}
	}
	unary(c)
}

func scatterNDEval(c *call) {
	in := c.values(3)
	proceedIf(sameKind(in[0], in[2]))
	out := in[0].pick(in[0].Shape, in[0].Len(), 0, strides(in[0].Shape))
	set := c.update(out)
	eachRow(in[0], in[1], func(i, at, size int) {
		for j := range size {
			if k := i*size + j; k < in[2].Len() {
				set(at+j, in[2], k)
			}
		}
	})
	settle(out)
	c.outConst(0, out)
}
