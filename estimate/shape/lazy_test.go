package shape

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload"
)

// A bench builds a graph one value at a time.
type bench struct {
	t     *testing.T
	f     *inferer
	nodes []*onnxload.Node // on the heap: a value that waits keeps its node
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, f: newInferer(&onnxload.Model{Values: make([]onnxload.Value, 1)}, Options{})}
}

func (c *bench) value(typ Type, v *Const) onnxload.ValueID {
	c.f.m.Values = append(c.f.m.Values, onnxload.Value{})
	c.f.types = append(c.f.types, &typ)
	c.f.consts = append(c.f.consts, v)
	return onnxload.ValueID(len(c.f.types) - 1)
}

func (c *bench) scalar(n int64) onnxload.ValueID {
	return c.value(Tensor(onnxload.Int64, Of()), &Const{Elem: onnxload.Int64, Shape: []int64{}, Ints: []Dim{N(n)}})
}

// node infers an operator with one output, which it returns.
func (c *bench) node(op string, in ...onnxload.ValueID) onnxload.ValueID {
	c.t.Helper()
	out := c.value(Type{}, nil)
	n := &onnxload.Node{Op: op, Version: 21, In: in, Out: []onnxload.ValueID{out}}
	c.nodes = append(c.nodes, n)
	if err := c.f.node(&call{inf: c.f}, n); err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *bench) numbers(from, to int64) onnxload.ValueID {
	return c.node("Range", c.scalar(from), c.scalar(to), c.scalar(1))
}

func TestLongValuesWait(t *testing.T) {
	c := newBench(t)
	plus := c.node("Add", c.numbers(0, 1000), c.scalar(5))
	if c.f.consts[plus].pending == nil {
		t.Fatal("a value of 1000 elements was computed before anything asked for it")
	}
	if c.f.elems != 0 {
		t.Errorf("%d elements were computed, wanted none", c.f.elems)
	}
	last := c.node("Gather", plus, c.scalar(-1))
	out := c.node("ConstantOfShape", c.node("Reshape", last,
		c.value(Tensor(onnxload.Int64, OfInts(1)), &Const{Elem: onnxload.Int64, Shape: []int64{1}, Ints: []Dim{N(1)}})))
	if got := c.f.typeOf(out).Shape.String(); got != "[1004]" {
		t.Errorf("shape %s, wanted [1004]", got)
	}
}

func TestPendingDepth(t *testing.T) {
	c := newBench(t)
	short, long := c.numbers(0, 100), c.numbers(0, 100)
	one := c.scalar(1)
	for range maxPending / 2 {
		short = c.node("Add", short, one)
	}
	for range 2 * maxPending {
		long = c.node("Add", long, one)
	}
	if v := c.f.constant(short); v == nil || !v.Ints[99].Equal(N(99+maxPending/2)) {
		t.Errorf("a chain of %d values was not computed", maxPending/2)
	}
	if v := c.f.constant(long); v != nil {
		t.Errorf("a chain of %d values was computed, wanted an unknown value", 2*maxPending)
	}
}

func TestValuesAreBounded(t *testing.T) {
	c := newBench(t)
	const tables = 2 * maxElems / maxConst
	unknown := 0
	for range tables {
		if c.f.constant(c.numbers(0, maxConst)) == nil {
			unknown++
		}
	}
	if limit := maxElems + maxElemsPerValue*len(c.f.m.Values); c.f.elems > limit {
		t.Errorf("%d elements were computed, the limit is %d", c.f.elems, limit)
	}
	if unknown == 0 || unknown == tables {
		t.Errorf("%d of %d tables are unknown, wanted some", unknown, tables)
	}
}

// A value that cannot be computed is unknown, and does not fail the model whose shapes do not
// depend on it.
func TestBrokenValueIsUnknown(t *testing.T) {
	c := newBench(t)
	far := c.node("Gather", c.numbers(0, 100), c.numbers(90, 190))
	if v := c.f.constant(far); v != nil {
		t.Error("indices outside the axis gave a value")
	}
	if got := c.f.typeOf(far).Shape.String(); got != "[100]" {
		t.Errorf("shape %s, wanted [100]", got)
	}
}
