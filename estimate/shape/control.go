package shape

import (
	"fmt"
	"maps"

	"github.com/memestimate/memestimate/onnxload"
)

// controlFamily has the operators whose bodies are graphs.
var controlFamily = family{"", []op{
	{name: "If", since: 1, infer: inferIf},
	{name: "Loop", since: 1, infer: inferLoop},
	{name: "Scan", since: 8, infer: oldScan},
	{name: "Scan", since: 9, infer: inferScan},
}}

// body returns a graph attribute after checking how many inputs and outputs it has;
// -1 stands for any number.
func (c *call) body(attr string, ins, outs int) *onnxload.Graph {
	a := c.node.Attr(attr)
	if a == nil || len(a.Graphs) != 1 || a.Graphs[0] == nil {
		c.fail("attribute %q is missing, wanted a graph", attr)
	}
	g := a.Graphs[0]
	if ins >= 0 && len(g.Inputs) != ins {
		c.fail("%s has %d inputs, wanted %d", attr, len(g.Inputs), ins)
	}
	if outs >= 0 && len(g.Outputs) != outs {
		c.fail("%s has %d outputs, wanted %d", attr, len(g.Outputs), outs)
	}
	return g
}

// run infers a body. The types and values of its inputs are those given; nil
// values are unknown.
func (f *inferer) run(attr string, g *onnxload.Graph, ins []Type, values []*Const) error {
	if f.depth >= maxDepth {
		return fmt.Errorf("%s: graphs nest more than %d deep", attr, maxDepth)
	}
	for i, id := range g.Inputs {
		f.setType(id, f.settle(id, ins[i]))
		f.consts[id] = nil
		if values != nil {
			f.consts[id] = values[i]
		}
	}
	f.depth++
	err := f.graph(g)
	f.depth--
	if err != nil {
		return fmt.Errorf("%s: %w", attr, err)
	}
	return nil
}

// tired reports whether bodies were inferred so often that it must end: a loop
// in a loop in a loop multiplies the work, and the file says how deep they nest.
func (f *inferer) tired() bool { return f.visits > 1<<16+8*len(f.m.Values) }

// A mark is the state of what inference collects, to go back to when a body is
// inferred again or its branch is not taken.
type mark struct {
	notes          notes
	contradictions int
	unknown        map[opKey]int
}

func (f *inferer) mark() mark { return mark{f.notes, len(f.contradictions), maps.Clone(f.unknown)} }

func (f *inferer) rewind(m mark) {
	f.notes = m.notes
	f.notes.list = f.notes.list[:len(f.notes.list):len(f.notes.list)]
	f.contradictions = f.contradictions[:m.contradictions]
	f.unknown = m.unknown
}

// inferIf takes the branch that the condition names. Without a known condition it
// infers both and takes the one that makes and reads more bytes, which it notes.
func inferIf(c *call) {
	f := c.inf
	var branches [2]*onnxload.Graph
	for i, attr := range branchNames {
		g := c.body(attr, 0, len(c.node.Out))
		branches[i] = g
	}
	if taken, known := f.condition(c.node.Input(0)); known {
		// The other branch is inferred for its types alone: it may well be
		// impossible for these shapes.
		m := f.mark()
		_ = f.run(branchNames[1-taken], branches[1-taken], nil, nil)
		f.rewind(m)
		c.check(f.run(branchNames[taken], branches[taken], nil, nil))
		for i, id := range branches[taken].Outputs {
			c.set(i, f.typeOf(id))
			c.results[i] = f.constant(id)
		}
		f.runs(c.node, branches[taken])
		return
	}

	before := f.mark()
	err0 := f.run(branchNames[0], branches[0], nil, nil)
	between := f.mark()
	if err0 != nil {
		f.rewind(before)
		between = f.mark()
	}
	err1 := f.run(branchNames[1], branches[1], nil, nil)
	taken := 0
	switch {
	case err0 != nil && err1 != nil:
		c.check(err0)
	case err0 != nil:
		taken = 1
		c.note("the condition is not known; the then branch cannot be: %v", err0)
	case err1 != nil:
		f.rewind(between)
		c.note("the condition is not known; the else branch cannot be: %v", err1)
	default:
		if f.larger(branches[1], branches[0]) {
			taken = 1
		}
		c.note("the condition is not known; the %s is taken, the larger one", branchNames[taken])
	}
	for i, id := range branches[taken].Outputs {
		t := f.typeOf(id)
		if err0 == nil && err1 == nil {
			t = f.either(t, f.typeOf(branches[1-taken].Outputs[i]))
		}
		c.set(i, t)
	}
	f.runs(c.node, branches[taken])
}

var branchNames = [2]string{"then_branch", "else_branch"}

// condition returns 0 when a bool value is known to be true, 1 when it is known to be false.
func (f *inferer) condition(id onnxload.ValueID) (branch int, known bool) {
	v := f.constant(id)
	if v == nil || len(v.Ints) != 1 {
		return 0, false
	}
	n, ok := v.Ints[0].Int()
	if n == 0 {
		branch = 1
	}
	return branch, ok
}

// larger reports whether a makes and reads more bytes than b, or, with as many, has more nodes. What a branch puts out
// says nothing of what it takes: both put out the same as a rule.
func (f *inferer) larger(a, b *onnxload.Graph) bool {
	diff, ok := Sub(f.bits(a, map[onnxload.ValueID]bool{}), f.bits(b, map[onnxload.ValueID]bool{})).Int()
	if !ok || diff == 0 {
		return len(a.Nodes) > len(b.Nodes)
	}
	return diff > 0
}

// bits returns the size in bits, as far as it is known, of what a graph's nodes and those of its subgraphs make, and of
// the weights that they read.
func (f *inferer) bits(g *onnxload.Graph, seen map[onnxload.ValueID]bool) Dim {
	sum := N(0)
	add := func(id onnxload.ValueID) {
		t := f.typeOf(id)
		if seen[id] || !t.Shape.Ranked || t.Of != nil {
			return
		}
		seen[id] = true
		if n, ok := Mul(N(t.Elem.Bits()), Product(t.Shape.Dims...)).Most(); ok {
			sum = Add(sum, N(n))
		} else {
			sum = unknownSize
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for _, id := range n.Out {
			add(id)
		}
		for _, id := range n.In {
			if f.m.Values[id].Init != nil {
				add(id)
			}
		}
		for _, a := range n.Attrs {
			for _, body := range a.Graphs {
				sum = Add(sum, f.bits(body, seen))
			}
		}
	}
	return sum
}

// runs records which of its graphs a node runs.
func (f *inferer) runs(n *onnxload.Node, g *onnxload.Graph) {
	if f.bodies == nil {
		f.bodies = map[*onnxload.Node]*onnxload.Graph{}
	}
	f.bodies[n] = g
}
