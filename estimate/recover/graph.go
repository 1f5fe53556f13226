package recover

import (
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// flatten lists the nodes that run, in order: in the place of an If those of the branch that is taken, while the bodies
// of loops stay with their nodes.
func (b *recovery) flatten(g *onnxload.Graph) error {
	b.nodes = slices.Grow(b.nodes, len(g.Nodes))
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if !slices.ContainsFunc(n.Out, func(v onnxload.ValueID) bool { return v != onnxload.NoValue }) {
			continue // whatever it computes, nobody gets it
		}
		if b.keepsWeight(n) {
			continue
		}
		if n.Op == "If" && n.Domain == "" {
			if body := b.types.Body(n); body != nil {
				if err := b.flatten(body); err != nil {
					return err
				}
				for j, id := range n.Out {
					if id != onnxload.NoValue && j < len(body.Outputs) {
						b.same[id] = b.id(body.Outputs[j])
					}
				}
				continue
			}
		}
		b.nodes = append(b.nodes, n)
	}
	return nil
}

// id follows a value through If outputs and Identity to the value that it is.
func (b *runs) id(v onnxload.ValueID) onnxload.ValueID {
	for b.same[v] != v {
		v = b.same[v]
	}
	return v
}

// in returns input i of n, NoValue when it is not there.
func (b *runs) in(n *onnxload.Node, i int) onnxload.ValueID {
	if i >= len(n.In) {
		return onnxload.NoValue
	}
	return b.id(n.In[i])
}

func (b *recovery) index() {
	for _, n := range b.nodes {
		if b.isName(n) && n.Input(0) != onnxload.NoValue && n.Output(0) != onnxload.NoValue {
			b.same[n.Output(0)] = b.id(n.Input(0)) // the nodes are in order: chains stay short
		}
	}
	b.done = make([]bool, len(b.nodes))
	b.emit = make([]func(), len(b.nodes))
	b.places = make([]*located, len(b.nodes))
	b.facts, b.rows = make([]*module.Facts, len(b.nodes)), make([]*operator, len(b.nodes))
	reads := make([]read, 0, 2*len(b.nodes))
	var from *module.Place // what the node before was placed by
	last := &located{Place: new(module.Place)}
	for i, n := range b.nodes {
		row, f := b.rowOf(n)
		b.rows[i], b.facts[i] = row, f
		if f.Has(module.RunsGraph) {
			for _, id := range b.captured(n) {
				b.out[id] = true // patterns leave it alone
			}
		}
		// neighbours are of one module as a rule
		if at := b.src.Place(n); at != from || i == 0 {
			if from = at; *at != *last.Place || i == 0 {
				if at.Module != last.Module {
					b.modules++
				}
				last = &located{Place: at}
				b.isCalled(*at)
			}
		}
		b.places[i] = last
		for j := range n.In {
			// Asking for a shape or a type is no use of the data, and another name no use at all.
			if v := b.in(n, j); v != onnxload.NoValue && !b.isName(n) && !f.Shape(j) && !f.Type(j) {
				reads = append(reads, read{int32(v), int32(i)})
			}
		}
		for _, v := range n.Out {
			if v != onnxload.NoValue && !b.isName(n) {
				b.made[v] = int32(i)
			}
		}
	}
	for _, v := range b.m.Graph.Outputs {
		if v != onnxload.NoValue {
			b.out[b.id(v)] = true
		}
	}
	b.uses = indexReads(reads, len(b.of))
	b.placeUnnamed()
	b.findClones()
	b.scopes, b.layers = make(map[string]int32, b.modules), make(map[string]int32, b.modules)
	b.prog.Scopes, b.prog.Layers = make([]program.Scope, 0, b.modules+1), make([]string, 0, b.modules)
	b.scope("")
}

// A located is a place that some nodes share, with what they have in the program.
type located struct {
	*module.Place
	scope, layer int32 // one more than the index; 0 until it is asked for
}

// A read is a slot of a node, or of a call, that reads a value.
type read struct{ value, node int32 }

// reads are the nodes that read each value: those of value v from first[v] to first[v+1].
type reads struct {
	first []int32
	nodes []int32
}

// indexReads sorts reads by value.
func indexReads(list []read, values int) reads {
	r := reads{make([]int32, values+1), make([]int32, len(list))}
	for _, e := range list {
		r.first[e.value]++
	}
	sum := int32(0)
	for v, n := range r.first { // where those of the next value begin, from which they are filled in backwards
		sum += n
		r.first[v] = sum
	}
	for i := len(list) - 1; i >= 0; i-- {
		e := list[i]
		r.first[e.value]--
		r.nodes[r.first[e.value]] = e.node
	}
	return r
}

// usesOf returns the nodes that read a value, once for each slot.
func (b *runs) usesOf(v onnxload.ValueID) []int32 { return b.uses.of(int32(v)) }

// of returns the nodes that read a value, once for each slot.
func (r *reads) of(v int32) []int32 { return r.nodes[r.first[v]:r.first[v+1]] }

// findClones marks the turned tensors that torch.export copied at once: contiguous() is a clone in its graph, of which
// the export leaves an Identity of that name. Where it has one it has all, since what drops them drops each. So is a
// reshape that could not be a view where the graph was traced, followed by _unsafe_view: whether it can be one here
// the strides tell.
func (b *recovery) findClones() {
	reads := make([]int32, len(b.of))
	reshaped := map[onnxload.ValueID]bool{}
	for _, n := range b.nodes {
		for _, v := range n.In {
			if v != onnxload.NoValue {
				reads[v]++
			}
		}
		if n.Op == "Reshape" && len(n.In) > 0 && n.Input(0) != onnxload.NoValue &&
			strings.HasPrefix(b.m.NameOf(n.Output(0)), "_unsafe_view") {
			reshaped[n.Input(0)] = true
		}
	}
	for i, n := range b.nodes {
		if n.Op != "Identity" || !b.isName(n) || n.Input(0) == onnxload.NoValue ||
			!strings.HasPrefix(b.m.NameOf(n.Output(0)), "clone") {
			continue
		}
		b.clones = true
		if p := b.places[i]; strings.Contains(p.Class, "Dropout") ||
			strings.Contains(p.Module[strings.LastIndexByte(p.Module, '.')+1:], "drop") {
			continue // a dropout of nothing, which the decomposition clones and PyTorch returns as it is
		}
		if x := n.Input(0); b.made[x] >= 0 && reads[x] == 1 && !reshaped[n.Output(0)] {
			op := b.nodes[b.made[x]].Op
			b.cloned[x] = op == "Transpose" || op == "Unsqueeze" || op == "Reshape"
		}
	}
}

// isCalled takes note of the modules whose forwards run around a node. Where only the module's path is known, its
// parents are taken to be what calls it.
func (b *locations) isCalled(p module.Place) {
	if p.Around != "" {
		end := 0
		for part := range strings.SplitSeq(p.Around, "/") {
			end += len(part)
			b.called[p.Module[:end]] = true
		}
		return
	}
	for m := p.Module; m != ""; m = m[:max(strings.LastIndexByte(m, '.'), 0)] {
		b.called[m] = true
	}
}

// dims returns the sizes of a value, data-dependent ones at their bound.
func (b *recovery) dims(id onnxload.ValueID) []int64 {
	if id == onnxload.NoValue {
		b.fail("node %q (%q) lacks an input or an output that it needs", b.nodes[b.at].Name, b.nodes[b.at].Op)
		return nil
	}
	if k := b.shapes[id]; k > 0 {
		return b.kept[k-1]
	}
	s := b.types.Type(id).Shape
	if !s.Ranked {
		b.fail("value %q has no shape", b.m.NameOf(id))
		return nil
	}
	var room [8]int64
	out := room[:0]
	for i, d := range s.Dims {
		n, ok := b.settled(d)
		if !ok {
			b.fail("dimension %d of %q is not known", i, b.m.NameOf(id))
		}
		out = append(out, n)
	}
	return b.keepDims(id, out)
}

// settled puts a number in the place of what depends on data: the most that it can be, or one.
func (b *recovery) settled(d shape.Dim) (int64, bool) {
	if b.src.Fewest {
		return d.Fewest()
	}
	return d.Most()
}

// keepDims keeps a copy of the sizes of a value. Values of the same sizes share them, unless others came between.
func (b *recovery) keepDims(id onnxload.ValueID, dims []int64) []int64 {
	last := &b.latest[program.HashDims(0, dims)%uint64(len(b.latest))]
	if *last == 0 || !slices.Equal(b.kept[*last-1], dims) {
		b.kept = append(b.kept, append(make([]int64, 0, len(dims)), dims...))
		*last = int32(len(b.kept))
	}
	b.shapes[id] = *last
	return b.kept[*last-1]
}

// isParameter reports whether a value is a parameter of the module.
func (b *recovery) isParameter(id onnxload.ValueID) bool {
	return b.src.Kinds[b.id(id)] == program.Parameter
}

// producer returns the node that makes a value, if it runs on data.
func (b *runs) producer(id onnxload.ValueID) (*onnxload.Node, int) {
	if i := b.made[b.id(id)]; i >= 0 {
		return b.nodes[i], int(i)
	}
	return nil, -1
}

// producedBy returns the node that makes a value when it is of this operator and no
// pattern has it.
func (b *recovery) producedBy(id onnxload.ValueID, op string) (*onnxload.Node, int) {
	n, i := b.producer(id)
	if n == nil || n.Op != op || b.done[i] {
		return nil, -1
	}
	return n, i
}

// single reports whether exactly one slot reads a value.
func (b *runs) single(id onnxload.ValueID) bool {
	id = b.id(id)
	return id != onnxload.NoValue && len(b.usesOf(id)) == 1 && !b.out[id]
}

// user returns the only node that reads a value, when it is of this operator.
func (b *recovery) user(id onnxload.ValueID, op string) (*onnxload.Node, int) {
	id = b.id(id)
	if !b.single(id) {
		return nil, -1
	}
	i := int(b.usesOf(id)[0])
	if b.nodes[i].Op != op || b.done[i] {
		return nil, -1
	}
	return b.nodes[i], i
}

// users calls f for every node of this operator that reads a value.
func (b *recovery) users(id onnxload.ValueID, op string, f func(n *onnxload.Node, i int)) {
	if id = b.id(id); id == onnxload.NoValue {
		return
	}
	for _, i := range b.usesOf(id) {
		if b.nodes[i].Op == op && !b.done[i] {
			f(b.nodes[i], int(i))
		}
	}
}

// number returns the value of a constant of one element.
func (b *recovery) number(id onnxload.ValueID) (float64, bool) {
	for range 8 {
		if id = b.id(id); id == onnxload.NoValue {
			return 0, false
		}
		n, _ := b.producer(id)
		if n == nil || n.Op != "CastLike" && n.Op != "Cast" || len(n.In) == 0 {
			break
		}
		id = n.Input(0)
	}
	if id = b.id(id); id == onnxload.NoValue {
		return 0, false
	}
	c := b.types.Value(id)
	if c == nil || c.Len() != 1 {
		return 0, false
	}
	if c.Floats != nil {
		return c.Floats[0], true
	}
	if len(c.Ints) == 0 {
		return 0, false
	}
	k, ok := c.Ints[0].Int()
	return float64(k), ok
}

// isNumber reports whether a value is this number, to the precision of float32.
func (b *recovery) isNumber(id onnxload.ValueID, want float64) bool {
	x, ok := b.number(id)
	return ok && math.Abs(x-want) <= 1e-4*math.Max(1, math.Abs(want))
}

// other returns the input of a node of two that is not id.
func (b *runs) other(n *onnxload.Node, id onnxload.ValueID) onnxload.ValueID {
	if b.in(n, 0) == b.id(id) {
		return b.in(n, 1)
	}
	return b.in(n, 0)
}

// placeUnnamed places the nodes that say nothing of where they are from. The TorchScript exporter names
// what a module's forward calls by the module, "/layer1/conv/Conv", but the nodes of some
// decompositions by a number alone, "Range_3501": they are from the innermost module around both the
// node before and the node after them.
func (b *recovery) placeUnnamed() {
	unknown := func(i int) bool {
		return !strings.HasPrefix(b.nodes[i].Name, "/") && *b.places[i].Place == (module.Place{})
	}
	for i := 0; i < len(b.nodes); i++ {
		if !unknown(i) {
			continue
		}
		end := i
		for end < len(b.nodes) && unknown(end) {
			end++
		}
		var before, after string
		if i > 0 {
			before = b.places[i-1].Module
		}
		if end < len(b.nodes) {
			after = b.places[end].Module
		}
		here := &located{Place: &module.Place{Module: commonModule(before, after)}}
		for k := i; k < end; k++ {
			b.places[k] = here
		}
		i = end
	}
}

// commonModule returns the innermost module around both.
func commonModule(a, b string) string {
	for a != b && a != "" {
		if strings.HasPrefix(b, a+".") {
			return a
		}
		a = a[:max(strings.LastIndexByte(a, '.'), 0)]
	}
	return a
}
