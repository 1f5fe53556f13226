package shape

import (
	"math"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// reduceFamily has the reductions. Their axes were an attribute first and became input 1,
// for ReduceSum at opset 13, for the others at 18; either is taken at any version.
var reduceFamily = family{"", []op{
	{"ReduceSum", 1, reduceSum, sumEval},
	{"ReduceMean", 1, reduce, averageEval},
	{"ReduceProd", 1, reduce, prodEval},
	{"ReduceMax", 1, reduce, largestEval},
	{"ReduceMin", 1, reduce, smallestEval},
	{"ReduceL1", 1, reduce, nil},
	{"ReduceL2", 1, reduce, nil},
	{"ReduceLogSum", 1, reduce, nil},
	{"ReduceLogSumExp", 1, reduce, nil},
	{"ReduceSumSquare", 1, reduce, nil},

	{"ArgMax", 1, argReduce, argEval(func(a, b Dim) (bool, bool) { return less(b, a) },
		func(a, b float64) bool { return a > b })},
	{"ArgMin", 1, argReduce, argEval(less, func(a, b float64) bool { return a < b })},
}}

var (
	sumEval      = reduceEval(binaryFn{plain(Add), func(a, b float64) float64 { return a + b }}, 0, true)
	prodEval     = reduceEval(binaryFn{plain(Mul), func(a, b float64) float64 { return a * b }}, 1, true)
	largestEval  = reduceEval(binaryFn{plain(Max), math.Max}, 0, false)
	smallestEval = reduceEval(binaryFn{plain(Min), math.Min}, 0, false)
)

func reduce(c *call) {
	c.needInts(1, 1)
	s, _ := c.reduced()
	c.out(0, c.elem(0), s)
}

// reduceSum counts what a mask has set, as PyTorch's exporter does where x[mask] = y gives each such element a value
// (aten_index_put_bool in onnxscript): no more than the mask has.
func reduceSum(c *call) {
	reduce(c)
	if !c.inf.masks[c.node.In[0]] || c.constant(0) != nil {
		return
	}
	s, gone := c.reduced()
	if dims, ok := c.dims(0); ok && gone != nil && !slices.Contains(gone, false) {
		out := zeros(c.elem(0), make([]int64, len(s.Dims)), 1)
		for i := range out.Shape {
			out.Shape[i] = 1
		}
		out.Ints[0] = bounded(Product(dims...))
		c.outConst(0, out)
	}
}

// reduced returns the shape that is left and which axes go; the latter is nil when not known.
// Without axes, or with none in the list, all go, unless noop_with_empty_axes
// says that none does.
func (c *call) reduced() (Shape, []bool) {
	dims, ok := c.dims(0)
	if !ok {
		return Shape{}, nil
	}
	keep := c.attrInt("keepdims", 1) != 0
	axes, given, known := c.axesOf(1)
	if given && !known {
		// Which axes go is not known; how many do may be.
		if n, ok := c.length(1); ok && n > 0 && !keep && n <= len(dims) {
			return Of(unknowns(len(dims) - n)...), nil
		} else if keep {
			return Of(unknowns(len(dims))...), nil
		}
		return Shape{}, nil
	}
	gone := checked(axisSet(axes, len(dims)))
	if len(axes) == 0 && c.attrInt("noop_with_empty_axes", 0) == 0 {
		for i := range gone {
			gone[i] = true
		}
	}
	return reduceDims(dims, gone, keep), gone
}

// reduceDims drops the dimensions that are gone, or keeps them as 1.
func reduceDims(dims []Dim, gone []bool, keep bool) Shape {
	out := make([]Dim, 0, len(dims))
	for i, d := range dims {
		switch {
		case !gone[i]:
			out = append(out, d)
		case keep:
			out = append(out, N(1))
		}
	}
	return Of(out...)
}

// argReduce is the rule of ArgMax and ArgMin: one axis goes, and the result is its indices.
func argReduce(c *call) {
	c.need(1)
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, onnxload.Int64, Shape{})
		return
	}
	if len(dims) == 0 {
		c.out(0, onnxload.Int64, Of()) // numpy and PyTorch take a scalar as a vector of one
		return
	}
	ax := c.axisAttr(0, len(dims))
	gone := make([]bool, len(dims))
	gone[ax] = true
	c.out(0, onnxload.Int64, reduceDims(dims, gone, c.attrInt("keepdims", 1) != 0))
}

// groups returns, for every element of v in order, the number of the result's element
// that it belongs to.
func (v *Const) groups(gone []bool) []int {
	out := make([]int, v.Len())
	step := make([]int, len(v.Shape))
	n := 1
	for i := len(v.Shape) - 1; i >= 0; i-- {
		if !gone[i] {
			step[i] = n
			n *= int(max(v.Shape[i], 1))
		}
	}
	odometer(v.Shape, len(out), 0, step, func(i, at int) { out[i] = at })
	return out
}

// reduceEval folds with f. A fold over nothing gives neutral where there is one.
func reduceEval(f binaryFn, neutral int64, hasNeutral bool) func(*call) {
	return func(c *call) {
		v := c.value(0)
		shape, n := c.outSize()
		_, gone := c.reduced()
		proceedIf(gone != nil && (v.Len() > 0 || hasNeutral))
		out := v.like(shape, n)
		seen := make([]bool, n)
		for i := range n {
			if hasNeutral {
				seen[i] = true
				if v.isFloat() {
					out.Floats[i] = float64(neutral)
				} else {
					out.Ints[i] = N(neutral)
				}
			}
		}
		for i, g := range v.groups(gone) {
			switch {
			case !seen[g]:
				out.copyElem(g, v, i)
				seen[g] = true
			case v.isFloat():
				out.Floats[g] = f.floats(out.Floats[g], v.Floats[i])
			default:
				out.Ints[g] = f.ints(c, out.Ints[g], v.Ints[i])
			}
		}
		settle(out)
		c.outConst(0, out)
	}
}

// averageEval is the sum divided by the number of elements summed.
func averageEval(c *call) {
	sumEval(c)
	if c.results[0].Len() == 0 {
		return
	}
	sum, count := c.results[0], c.constant(0).Len()/c.results[0].Len()
	mean := sum.like(sum.Shape, sum.Len())
	for i := range mean.Len() {
		if sum.isFloat() {
			mean.Floats[i] = sum.Floats[i] / float64(count)
		} else {
			mean.Ints[i] = truncDiv(c, sum.Ints[i], N(int64(count)))
		}
	}
	settle(mean)
	c.outConst(0, mean)
}

// argEval finds the place of the best element along the axis; of equal ones the first, or the
// last with select_last_index. Where sizes do not decide it, there is no value.
func argEval(better comparison, betterFloat func(a, b float64) bool) func(*call) {
	return func(c *call) {
		v := c.value(0)
		shape, n := c.outSize()
		proceedIf(len(v.Shape) > 0 && n > 0)
		ax := c.axisAttr(0, len(v.Shape))
		last := c.attrInt("select_last_index", 0) != 0
		out := zeros(onnxload.Int64, shape, n)
		outer, mid, inner := split3(v.Shape, ax)
		for o := range outer {
			for i := range inner {
				best := 0
				for k := 1; k < mid; k++ {
					at, old := (o*mid+k)*inner+i, (o*mid+best)*inner+i
					won, lost, decided := false, false, true
					if v.isFloat() {
						won, lost = betterFloat(v.Floats[at], v.Floats[old]), betterFloat(v.Floats[old], v.Floats[at])
						decided = !math.IsNaN(v.Floats[at]) && !math.IsNaN(v.Floats[old])
					} else {
						var d bool
						won, decided = better(v.Ints[at], v.Ints[old])
						lost, d = better(v.Ints[old], v.Ints[at])
						decided = decided && d
					}
					proceedIf(decided)
					if won || last && !lost {
						best = k
					}
				}
				out.Ints[o*inner+i] = N(int64(best))
			}
		}
		c.outConst(0, out)
	}
}
