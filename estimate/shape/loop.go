package shape

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

const (
	// maxUnroll is how many nodes a loop may visit for all its iterations to be followed.
	maxUnroll = 1 << 13

	// maxFixpoint is how often a body is inferred before its carried shapes are
	// given up.
	maxFixpoint = 8
)

// inferLoop is Loop: trip count and condition, both optional, then the carried
// values. Its body takes the iteration number and the condition before them and
// returns the next condition, the carried values and one slice of each scan output.
func inferLoop(c *call) {
	f := c.inf
	carried := len(c.node.In) - 2
	scans := len(c.node.Out) - carried
	if carried < 0 || scans < 0 {
		c.fail("%d inputs and %d outputs, wanted a trip count, a condition and as many outputs as "+
			"carried values or more", len(c.node.In), len(c.node.Out))
	}
	g := c.body("body", 2+carried, 1+carried+scans)
	l := &loop{c: c, attr: "body", g: g, carried: carried}
	l.ins = append(l.ins, Tensor(onnxload.Int64, f.scalarOf(g.Inputs[0])), Tensor(onnxload.Bool, f.scalarOf(g.Inputs[1])))
	for i := range carried {
		l.ins = append(l.ins, c.in(2+i))
	}

	trips, certain := Dim{}, false
	if v, ok := c.ints(0); ok && len(v) == 1 {
		trips, certain = v[0], true
		if n, ok := trips.Int(); ok && n < 0 {
			trips = N(0)
		}
	}
	if branch, known := f.condition(c.node.Input(1)); known && branch == 1 {
		trips, certain = N(0), true
	}
	if l.unroll(trips, certain) {
		return
	}

	always := l.fixpoint(!c.has(1))
	switch {
	case !certain:
		trips = unknownSize
		c.note("the number of iterations is not known")
	case !always:
		c.note("the number of iterations is not known, at most %v", trips)
		trips = bounded(trips)
	}
	n, known := trips.Int()
	for i := range carried {
		switch out := f.typeOf(g.Outputs[1+i]); {
		case known && n == 0:
			c.set(i, c.in(2+i))
		case known:
			c.set(i, out)
		default:
			c.set(i, f.union(l.ins[2+i], out))
		}
	}
	for i := range scans {
		c.set(carried+i, stacked(f.typeOf(g.Outputs[1+carried+i]), 0, trips))
	}
	f.runs(c.node, g)
}

// scalarOf is the shape of a body's iteration number or condition. They are scalars; bodies that declare a
// vector of one, and compute with it, get one, as ONNX Runtime gives it to them (LoopImpl::Initialize).
func (f *inferer) scalarOf(id onnxload.ValueID) Shape {
	if t := f.m.Values[id].Type(); t.HasRank && len(t.Dims) == 1 && t.Dims[0].Known && t.Dims[0].Size == 1 {
		return Of(N(1))
	}
	return Of()
}

// one is a value of one element, of a type that has one.
func one(t Type, v Dim) *Const {
	shape := make([]int64, len(t.Shape.Dims))
	for i := range shape {
		shape[i] = 1
	}
	return &Const{Elem: t.Elem, Shape: shape, Ints: []Dim{v}}
}

// stacked returns the type of tensors stacked along a new axis.
func stacked(t Type, at int, n Dim) Type {
	if t.Kind == onnxload.TensorType && t.Shape.Ranked && at <= len(t.Shape.Dims) {
		t.Shape = Of(slices.Insert(slices.Clone(t.Shape.Dims), at, n)...)
		return t
	}
	return Tensor(t.Elem, Shape{})
}

// A loop is a body that is inferred more than once.
type loop struct {
	c       *call
	attr    string
	g       *onnxload.Graph
	ins     []Type // of the body: for a Loop the iteration, the condition and the carried values
	carried int
}

// unroll follows a Loop iteration by iteration, as long as it is short and its
// conditions are known; the carried shapes and values are then exact. It reports
// false when it cannot.
func (l *loop) unroll(trips Dim, certain bool) bool {
	c, f := l.c, l.c.inf
	limit, ok := int64(maxUnroll), true
	if certain {
		limit, ok = trips.Int()
	}
	cond, condKnown := 0, true
	if c.has(1) {
		cond, condKnown = f.condition(c.node.Input(1))
	}
	if !ok || !condKnown || c.has(0) && !certain || f.tired() {
		return false
	}
	maxTrips := int64(maxUnroll / (len(l.g.Nodes) + 1))
	if certain && limit > 1 && limit > maxTrips {
		return false
	}
	scans := len(c.node.Out) - l.carried
	types, values := slices.Clone(l.ins), make([]*Const, len(l.ins))
	for i := range l.carried {
		values[2+i] = c.constant(2 + i)
	}
	var stack []Type
	m := f.mark()
	n := int64(0)
	for ; n < limit && cond == 0; n++ {
		if n > 0 {
			f.rewind(m)
			m = f.mark()
			if n > maxTrips || f.tired() {
				return false
			}
		}
		values[0], values[1] = one(l.ins[0], N(n)), one(l.ins[1], N(1))
		c.check(f.run(l.attr, l.g, types, values))
		if cond, condKnown = f.condition(l.g.Outputs[0]); !condKnown {
			f.rewind(m)
			return false
		}
		for i := range l.carried {
			id := l.g.Outputs[1+i]
			types[2+i], values[2+i] = f.typeOf(id), f.constant(id)
		}
		for i := range scans {
			t := f.typeOf(l.g.Outputs[1+l.carried+i])
			if n == 0 {
				stack = append(stack, t)
			} else {
				stack[i] = f.union(stack[i], t)
			}
		}
	}
	if n == limit && !certain && cond == 0 {
		f.rewind(m)
		return false // longer than anybody follows
	}
	if n == 0 {
		// The body does not run; it is inferred for the slices' types alone.
		_ = f.run(l.attr, l.g, l.ins, nil)
		f.rewind(m)
		for i := range scans {
			stack = append(stack, f.typeOf(l.g.Outputs[1+l.carried+i]))
		}
	}
	for i := range l.carried {
		c.set(i, types[2+i])
		c.results[i] = values[2+i]
	}
	for i := range scans {
		c.set(l.carried+i, stacked(stack[i], 0, N(n)))
	}
	f.runs(c.node, l.g)
	return true
}

// fixpoint infers the body until the types of its carried values hold for every
// iteration. first tells where they begin among the inputs and outputs of the body.
// It reports whether the condition of a Loop stays true once it is.
func (l *loop) fixpoint(condTrue bool) (always bool) {
	f := l.c.inf
	if _, known := f.condition(l.c.node.Input(1)); known {
		condTrue = true
	}
	values := make([]*Const, len(l.ins))
	values[0] = one(l.ins[0], unknownValue)
	if condTrue {
		values[1] = one(l.ins[1], N(1))
	}
	l.settle(2, 1, values)
	branch, known := f.condition(l.g.Outputs[0])
	return condTrue && known && branch == 0
}

// settle infers the body until the carried types come to rest. They are the body's inputs
// from in on, and its outputs from out on.
func (l *loop) settle(in, out int, values []*Const) {
	f := l.c.inf
	if f.tired() {
		for i := range l.carried {
			l.ins[in+i].Shape = Shape{}
		}
		l.c.check(f.run(l.attr, l.g, l.ins, values))
		return
	}
	m := f.mark()
	for round := 0; ; round++ {
		l.c.check(f.run(l.attr, l.g, l.ins, values))
		rest := true
		for i := range l.carried {
			t := f.union(l.ins[in+i], f.typeOf(l.g.Outputs[out+i]))
			if round >= maxFixpoint || f.tired() {
				t.Shape = Shape{}
			}
			if !sameType(t, l.ins[in+i]) {
				l.ins[in+i], rest = t, false
			}
		}
		if rest || round > maxFixpoint {
			return
		}
		f.rewind(m)
		m = f.mark()
	}
}
