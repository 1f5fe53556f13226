package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// An op is everything this package knows about one operator from one version on.
// An operator whose rule changed with a version has a row for each, and the row
// with the largest since that is not above the node's version is the one in force.
//
// infer runs first, and for every node. eval runs after it when all given
// inputs may be constants and every output is a tensor of known, small size
// without a value; it does nothing when an input turns out to have no value. An
// operator whose result does not need its inputs' values, such as Shape, calls outConst in infer.
type op struct {
	name  string
	since int64       // first version of the domain for which the row holds
	infer func(*call) // sets the types of the outputs
	eval  func(*call) // sets the outputs' values, see call.outConst; may be nil
}

// A family is operators of one domain that belong together: those of a file.
type family struct {
	domain string // "" is ai.onnx
	ops    []op
}

// A call is one node as a rule sees it: its inputs' types and values on one
// side, its outputs' on the other. Index errors cannot happen: an input that is
// absent or omitted has the zero Type, and setting an absent output does nothing.
type call struct {
	node *onnxload.Node
	inf  *inferer // for subgraphs, constants and notes

	ins     []Type
	outs    []Type
	results []*Const // values of the outputs that eval computed
	misfit  error    // the first attribute of a wrong type
}

// A refusal is what a rule panics with where a node breaks it.
type refusal struct{ error }

// follow runs a rule and returns why the node breaks it.
func (c *call) follow(rule func(*call)) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			if r.error != errNoValue {
				err = r.error
			}
		default:
			panic(r)
		}
	}()
	rule(c)
	return nil
}

// fail ends the rule: the node breaks it.
func (c *call) fail(format string, args ...any) { panic(refusal{fmt.Errorf(format, args...)}) }

// check ends the rule if there is an error.
func (c *call) check(err error) {
	if err != nil {
		panic(refusal{err})
	}
}

// checked returns v, or ends the rule if there is an error.
func checked[T any](v T, err error) T {
	if err != nil {
		panic(refusal{err})
	}
	return v
}

// reset makes c the call of node n.
func (c *call) reset(n *onnxload.Node) {
	c.node, c.misfit = n, nil
	c.ins, c.outs, c.results = c.ins[:0], c.outs[:0], c.results[:0]
	for _, id := range n.In {
		c.ins = append(c.ins, c.inf.typeOf(id))
	}
	for range n.Out {
		c.outs = append(c.outs, Type{})
		c.results = append(c.results, nil)
	}
}

// worthEval reports whether the outputs can be computed: there are some, all inputs may be constants, and all outputs
// are small tensors that have no value yet.
func (c *call) worthEval() bool {
	for _, id := range c.node.In {
		if id != onnxload.NoValue && !c.inf.known(id) {
			return false
		}
	}
	for i, id := range c.node.Out {
		if id == onnxload.NoValue {
			continue
		}
		n, ok := Product(c.outs[i].Shape.Dims...).Int()
		if !ok || n > maxConst || !c.outs[i].Shape.Ranked || c.results[i] != nil {
			return false
		}
	}
	return len(c.results) > 0
}

// has reports whether input i is given.
func (c *call) has(i int) bool {
	return i >= 0 && i < len(c.node.In) && c.node.In[i] != onnxload.NoValue
}

// hasOut reports whether output i is asked for.
func (c *call) hasOut(i int) bool {
	return i < len(c.node.Out) && c.node.Out[i] != onnxload.NoValue
}

// in returns the type of input i: the zero Type when it is absent or unknown.
func (c *call) in(i int) Type {
	if i < len(c.ins) {
		return c.ins[i]
	}
	return Type{}
}

// elem returns the element type of input i.
func (c *call) elem(i int) onnxload.DType { return c.in(i).Elem }

// shape returns the shape of input i, unranked when unknown.
func (c *call) shape(i int) Shape { return c.in(i).Shape }

// dims returns the dimensions of input i, and whether its rank is known.
func (c *call) dims(i int) ([]Dim, bool) {
	s := c.in(i).Shape
	return s.Dims, s.Ranked
}

// set gives output i its type.
func (c *call) set(i int, t Type) {
	if c.hasOut(i) {
		c.outs[i] = t
	}
}

// out makes output i a tensor.
func (c *call) out(i int, elem onnxload.DType, s Shape) { c.set(i, Tensor(elem, s)) }

// outConst makes output i a tensor with this value.
func (c *call) outConst(i int, v *Const) {
	if c.hasOut(i) {
		c.results[i] = v
		c.outs[i] = Tensor(v.Elem, OfInts(v.Shape...))
	}
}

// constant returns the value of input i, or nil when it is absent or unknown.
// Integer elements may be open.
func (c *call) constant(i int) *Const {
	if !c.has(i) {
		return nil
	}
	return c.inf.constant(c.node.In[i])
}

// ints returns the elements of the constant integer input i in order, open ones
// included, and whether they are known.
func (c *call) ints(i int) ([]Dim, bool) {
	v := c.constant(i)
	if v == nil || v.Ints == nil {
		return nil, false
	}
	return v.Ints, true
}

// int64s returns the elements of the constant integer input i, and whether all
// are known numbers.
func (c *call) int64s(i int) ([]int64, bool) {
	ds, ok := c.ints(i)
	if !ok {
		return nil, false
	}
	out := make([]int64, len(ds))
	for j, d := range ds {
		if out[j], ok = d.Int(); !ok {
			return nil, false
		}
	}
	return out, true
}

// floats returns the elements of the constant floating-point input i.
func (c *call) floats(i int) ([]float64, bool) {
	v := c.constant(i)
	if v == nil || v.Floats == nil {
		return nil, false
	}
	return v.Floats, true
}

// attr returns the attribute of that name, or nil. One of another type than the
// operator gives it counts as absent here, and fails the node in the end.
func (c *call) attr(name string, want onnxload.AttrType) *onnxload.Attr {
	a := c.node.Attr(name)
	if a == nil || a.Type == want {
		return a
	}
	if c.misfit == nil {
		c.misfit = fmt.Errorf("attribute %s is of type %v, wanted %v", name, a.Type, want)
	}
	return nil
}

// attrInt returns an integer attribute, or def when it is absent.
func (c *call) attrInt(name string, def int64) int64 {
	if a := c.attr(name, onnxload.AttrInt); a != nil {
		return a.Int
	}
	return def
}

// attrInts returns an integer list attribute, and whether it is there.
func (c *call) attrInts(name string) ([]int64, bool) {
	if a := c.attr(name, onnxload.AttrInts); a != nil {
		return a.Ints, true
	}
	return nil, false
}

// attrStr returns a string attribute, or def when it is absent.
func (c *call) attrStr(name, def string) string {
	if a := c.attr(name, onnxload.AttrString); a != nil {
		return a.Str
	}
	return def
}

// attrFloat returns a float attribute, or def when it is absent.
func (c *call) attrFloat(name string, def float64) float64 {
	if a := c.attr(name, onnxload.AttrFloat); a != nil {
		return float64(a.Float)
	}
	return def
}

// attrTensor returns a tensor attribute and its value; the value is nil when it is too
// large, stripped from the file or not of numbers, both when there is no such attribute.
func (c *call) attrTensor(name string) (*onnxload.Tensor, *Const) {
	a := c.node.Attr(name)
	if a == nil || len(a.Tensors) != 1 {
		return nil, nil
	}
	return a.Tensors[0], c.inf.read(a.Tensors[0])
}

// note records something about the node that the user should know.
func (c *call) note(format string, args ...any) { c.inf.note(c.node, format, args...) }

// axis brings an axis that may count from the end into 0..rank-1.
func axis(a int64, rank int) (int, error) {
	if a < -int64(rank) || a >= int64(rank) {
		return 0, fmt.Errorf("axis %d is outside a tensor of rank %d", a, rank)
	}
	if a < 0 {
		a += int64(rank)
	}
	return int(a), nil
}

// likeInput is the rule of operators whose only output has the type of input 0.
func likeInput(c *call) {
	c.set(0, c.in(0))
}

// broadcast returns the shape that numpy's rules give these shapes together:
// ranks align at the end, 1 stretches. It is unranked when any of them is.
func broadcast(shapes ...Shape) (Shape, error) {
	rank := 0
	for _, s := range shapes {
		if !s.Ranked {
			return Shape{}, nil
		}
		rank = max(rank, len(s.Dims))
	}
	out := make([]Dim, rank)
	for i := range out {
		d := N(1)
		for _, s := range shapes {
			j := i - (rank - len(s.Dims))
			if j < 0 {
				continue
			}
			var err error
			if d, err = broadcastDim(d, s.Dims[j]); err != nil {
				return Shape{}, err
			}
		}
		out[i] = d
	}
	return Of(out...), nil
}

func broadcastDim(a, b Dim) (Dim, error) {
	x, okA := a.Int()
	y, okB := b.Int()
	switch {
	case okA && x == 1:
		return b, nil
	case okB && y == 1, a.Equal(b):
		return a, nil
	case okA && okB:
		return Dim{}, fmt.Errorf("%d and %d do not broadcast", x, y)
	case okA:
		return a, nil // b is 1 or x, and the result is x either way
	case okB:
		return b, nil
	}
	return Max(a, b), nil // one of them is 1, or they are equal
}
