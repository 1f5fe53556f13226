package shape

import "math"

// sliceFamily has the operator that cuts a piece out of a tensor.
var sliceFamily = family{"", []op{
	{"Slice", 1, sliceAttr, sliceEval},
	{"Slice", 10, sliceInput, sliceEval},
}}

// A cut is one axis of a Slice.
type cut struct {
	axis             int
	start, end, step Dim
}

func sliceAttr(c *call) {
	if c.node.Attr("starts") == nil && c.has(1) {
		sliceInput(c) // later writers stamped the old opset
	}
	for _, name := range []string{"starts", "ends"} {
		c.wantInts(name)
	}
	c.slice()
}

func sliceInput(c *call) {
	c.needInts(3, 1, 2, 3, 4)
	c.slice()
}

// slice sets the output's type. Where a cut is not known the axis keeps at most its size.
func (c *call) slice() {
	dims, ok := c.likeInput(0)
	if !ok {
		return
	}
	cuts, axes := c.cuts(len(dims))
	out := append([]Dim{}, dims...)
	if cuts == nil {
		for i, d := range out {
			if axes == nil || axes[i] {
				out[i] = bounded(d)
			}
		}
	}
	for _, k := range cuts {
		n, ok := k.length(dims[k.axis])
		if !ok {
			n = bounded(k.atMost(dims[k.axis]))
		}
		out[k.axis] = n
	}
	c.out(0, c.elem(0), Of(out...))
}

// cuts returns the cuts, or nil when they are not known; then axes marks the axes that are
// cut, or is nil when not even that is known.
func (c *call) cuts(rank int) (cuts []cut, axes []bool) {
	list := func(name string, i int) ([]Dim, bool) {
		if v, ok := c.attrInts(name); ok {
			return toDims(v), true
		}
		return c.ints(i)
	}
	starts, okStarts := list("starts", 1)
	ends, okEnds := list("ends", 2)
	steps, okSteps := list("steps", 4)
	where, okAxes := list("axes", 3)
	if c.node.Attr("axes") == nil && !c.has(3) {
		okAxes = okStarts || okEnds
		for i := range max(len(starts), len(ends)) {
			where = append(where, N(int64(i)))
		}
	}
	if !okAxes {
		return nil, nil
	}
	at := make([]int64, len(where))
	for i, d := range where {
		var ok bool
		if at[i], ok = d.Int(); !ok {
			return nil, nil
		}
	}
	axes = checked(axisSet(at, rank))
	if !okStarts || !okEnds || c.has(4) && !okSteps {
		return nil, axes
	}
	if len(starts) != len(at) || len(ends) != len(at) || okSteps && len(steps) != len(at) {
		c.fail("%d starts, %d ends and %d steps for %d axes", len(starts), len(ends), len(steps),
			len(at))
	}
	cuts = []cut{}
	for i := range at {
		k := cut{start: starts[i], end: ends[i], step: N(1)}
		k.axis, _ = axis(at[i], rank)
		if okSteps {
			k.step = steps[i]
		}
		if n, ok := k.step.Int(); ok && n == 0 {
			c.fail("the step along axis %d is 0", k.axis)
		}
		cuts = append(cuts, k)
	}
	return cuts, axes
}

// length returns the number of elements that the cut leaves of d, and whether it can be told.
func (k cut) length(d Dim) (Dim, bool) {
	most, okMost := k.at(d, Dim.Most)
	fewest, okFewest := k.at(d, Dim.Fewest)
	if !okMost || !okFewest {
		return Dim{}, false
	}
	if !d.Open() && !k.start.Open() && !k.end.Open() {
		return N(most), true
	}
	_, hi := d.bounds()
	return Dim{x: &open{hi: hi, sized: true, most: most, fewest: fewest}}, true
}

// at returns the length where data decides for one end of what it can.
func (k cut) at(d Dim, end func(Dim) (int64, bool)) (int64, bool) {
	step, okStep := k.step.Int()
	n, okN := end(d)
	from, okFrom := end(k.start)
	to, okTo := end(k.end)
	if !okStep || !okN || !okFrom || !okTo {
		return 0, false
	}
	_, length := cutNumbers(n, from, to, step)
	return length, true
}

// atMost returns a limit of the length where it cannot be told: what lies between start and end, wherever
// they are. One that counts from the end of d beside one that counts from its beginning leaves less.
func (k cut) atMost(d Dim) Dim {
	step, ok := k.step.Int()
	span, known := Sub(k.end, k.start).Int()
	if !ok || !known || step < 1 {
		return d
	}
	return atMost(CeilDiv(N(max(span, 0)), N(step)), d)
}

// cutNumbers is a cut of n elements where all is known: the first index and the length.
func cutNumbers(n, start, end, step int64) (first, length int64) {
	place := func(x, lo, hi int64) int64 {
		if x < 0 {
			x += n
		}
		return min(max(x, lo), hi)
	}
	if step > 0 {
		start, end = place(start, 0, n), place(end, 0, n)
		if end <= start {
			return start, 0
		}
		return start, (end-start-1)/step + 1
	}
	if n == 0 {
		return 0, 0
	}
	if end < -n {
		end = -n - 1 // before the first
	}
	start, end = place(start, 0, n-1), place(end, -1, n-1)
	if end >= start {
		return start, 0
	}
	if step == math.MinInt64 {
		return start, 1
	}
	return start, (start-end-1)/-step + 1
}

// atMost is the smaller of x and d, written as one of them where sizes from 1 on allow it.
func atMost(x, d Dim) Dim {
	switch {
	case notNegative(Sub(d, x)):
		return x
	case notNegative(Sub(x, d)):
		return d
	}
	return Min(x, d)
}

// positive is the larger of x and 0, likewise.
func positive(x Dim) Dim {
	if notNegative(x) {
		return x
	}
	return Max(x, N(0))
}

func sliceEval(c *call) {
	v := c.value(0)
	shape, n := c.outSize()
	cuts, _ := c.cuts(len(v.Shape))
	if cuts == nil {
		return
	}
	step, start := strides(v.Shape), 0
	for _, k := range cuts {
		s, okS := k.start.Int()
		e, okE := k.end.Int()
		st, okT := k.step.Int()
		if !okS || !okE || !okT {
			return
		}
		first, length := cutNumbers(v.Shape[k.axis], s, e, st)
		if length != shape[k.axis] {
			return
		}
		start += int(first) * step[k.axis]
		if length > 1 { // then the step is smaller than the axis
			step[k.axis] *= int(st)
		}
	}
	c.outConst(0, v.pick(shape, n, start, step))
}
