package onnxload

import (
	"fmt"
	"strconv"
)

// unbound stands in a scope's tables for a name that no value has. That of a function's formal input that the call
// leaves out has NoValue, and so has the empty name.
const unbound ValueID = -1

// A resolver turns raw graphs into graphs: names into values, calls of functions
// into their nodes, and nodes into topological order.
type resolver struct {
	m     *Model
	lib   *library
	lim   Limits
	odd   *notes
	nodes int64

	inlined int64 // bytes of the names that inlined values have

	unversioned bool // it is noted that the model imports no version of ai.onnx
	main        *table

	// by ValueID
	owner    []int32 // the graph, or call of a function, that the value belongs to
	producer []int32 // the index of its node there; -1 when none
	number   []int32 // of its name, in the table of the scope that produces it
	graphs   int32   // owners so far
	used     map[string]bool
	calls    map[string]int // by path: the calls beyond the first that have it

	ids pool[ValueID]
}

func (r *resolver) newValue(name string, owner int32) ValueID {
	r.m.Values = append(r.m.Values, Value{Name: name})
	r.owner = append(r.owner, owner)
	r.producer = append(r.producer, -1)
	r.number = append(r.number, -1)
	return ValueID(len(r.m.Values) - 1)
}

// valueName returns the name of a new value: in a call, the call's path comes
// before, which makes it unique.
func (r *resolver) valueName(s *scope, name int32) string {
	n := s.names.strs[name]
	if s.call == nil {
		return n
	}
	base := r.inside(s.call.path, n)
	n = base
	taken := func(name string) bool {
		_, given := r.main.ids[name]
		return given || r.used[name]
	}
	for taken(n) {
		r.calls[base]++ // never try a number twice
		n = base + "_" + strconv.Itoa(r.calls[base])
	}
	r.used[n] = true
	return n
}

// inside names something in the body of a call: the call's path, then its own name. Each call writes these names anew,
// so one that is longer than any known export's is cut, and all are weighed.
func (r *resolver) inside(path, name string) string {
	if long := len(path) + 1 + len(name); long > maxInlined {
		const kept = maxInlined / 4
		path, name = path[:min(len(path), kept)], name[max(0, len(name)-kept):]
		path += "…"
	}
	s := path + "/" + name
	r.inlined += int64(len(s))
	return s
}

// A place is one graph being resolved.
type place struct {
	raw   *rawGraph
	scope *scope
	owner int32
	inner bool // not the main graph: outer values can be captured

	nodes    []Node
	captures []ValueID // values of graphs around that this one reads
	deps     []capture // of those, what subgraphs of a node read from this graph
	sorted   bool
}

type capture struct {
	node int32
	id   ValueID
}

// graph resolves a graph or subgraph. captures are the outer values it reads.
func (r *resolver) graph(raw *rawGraph, s *scope, inner bool) (g *Graph, captures []ValueID, err error) {
	r.graphs++
	p := &place{raw: raw, scope: s, owner: r.graphs, inner: inner}
	if inner {
		outer, mark := s.nested, len(s.undo)
		s.nested = true
		defer func() {
			s.end(mark)
			s.nested = outer
		}()
	}
	g = &Graph{Name: raw.name}
	if len(raw.inits) > 0 {
		g.Inits = make([]ValueID, 0, len(raw.inits))
	}
	for _, in := range raw.inits {
		if id := s.late[in.name]; id != unbound && r.owner[id] == p.owner {
			return nil, nil, fmt.Errorf("initializer %q is there twice", in.t.Name)
		}
		id := r.newValue(r.valueName(s, in.name), p.owner)
		r.m.Values[id].Init = in.t
		s.declare(in.name, id, true)
		g.Inits = append(g.Inits, id)
	}
	for i, v := range raw.inputs {
		if v.name == 0 {
			return nil, nil, fmt.Errorf("input %d of the graph has no name", i)
		}
		if id := s.late[v.name]; id != unbound && r.owner[id] == p.owner {
			if r.m.Values[id].Init == nil || r.m.Values[id].Declared != nil {
				return nil, nil, fmt.Errorf("input %q of the graph is there twice", s.names.strs[v.name])
			}
			r.m.Values[id].Declared = v.typ // the default of an input: IR < 4 lists every initializer
			continue
		}
		id := r.newValue(r.valueName(s, v.name), p.owner)
		r.m.Values[id].Declared = v.typ
		s.declare(v.name, id, true)
		g.Inputs = append(g.Inputs, id)
	}
	if err := r.body(p); err != nil {
		return nil, nil, err
	}
	for i, v := range raw.outputs {
		if v.name == 0 {
			return nil, nil, fmt.Errorf("output %d of the graph has no name", i)
		}
		id := s.lookup(ValueID(v.name))
		if id == unbound || id == NoValue {
			return nil, nil, fmt.Errorf("output %q of the graph is produced by nothing", s.names.strs[v.name])
		}
		if r.owner[id] == p.owner {
			r.declareType(id, v.typ)
		} else {
			p.captures = append(p.captures, id)
		}
		g.Outputs = append(g.Outputs, id)
	}
	g.Nodes = p.nodes
	return g, p.captures, nil
}

// declareType keeps the better of two declared types: one with dimensions.
func (r *resolver) declareType(id ValueID, t *Type) {
	v := &r.m.Values[id]
	if t != nil && (t.HasRank || !v.Type().HasRank) {
		v.Declared = t
	}
}

// body resolves the nodes of p and sets p.nodes: in order, calls inlined.
func (r *resolver) body(p *place) error {
	s := p.scope
	nodes := p.raw.nodes
	if s.call != nil { // a body may be used again
		nodes = append([]Node(nil), nodes...)
	}
	for i := range nodes {
		if err := r.declareOutputs(p, nodes, i); err != nil {
			return err
		}
	}
	for _, v := range p.raw.infos {
		if v.name == 0 {
			continue
		}
		if id := s.late[v.name]; id != unbound && r.owner[id] == p.owner {
			r.declareType(id, v.typ)
			if t := r.m.Values[id].Init; t != nil {
				t.Spec, t.Folded = v.spec, v.folded
			}
		}
	}
	p.sorted = true
	for i := range nodes {
		if err := r.node(p, nodes, i); err != nil {
			return err
		}
	}
	order, err := r.order(p, nodes)
	if err != nil {
		return err
	}
	if order != nil {
		where := "the nodes of a subgraph"
		if !p.inner && s.call == nil {
			where = "the graph's nodes"
		}
		r.odd.add("order", "%s are not in topological order: sorted", where)
	}
	return r.inline(p, nodes, order)
}

// declareOutputs gives the outputs of node i their values.
func (r *resolver) declareOutputs(p *place, nodes []Node, i int) error {
	s := p.scope
	n := &nodes[i]
	if s.call != nil {
		n.Out = r.ids.copy(n.Out)
	}
	for j, name := range n.Out {
		if name == NoValue {
			continue
		}
		if id := s.late[name]; id != unbound && (!p.inner || r.owner[id] == p.owner) {
			if !r.shadows(p, id) {
				return r.duplicate(p, nodes, i, int32(name), id)
			}
			r.odd.add("shadowed initializers",
				"%s produces %q, which is an initializer too: nodes up to it read the initializer, later ones its result",
				nodeLabel(i, n), s.names.strs[name])
		}
		var id ValueID
		var outer bool // it is the caller's value for a formal output
		if s.call != nil && !p.inner {
			id, outer = s.call.outs[name]
		}
		if outer {
			r.owner[id] = p.owner
		} else {
			id = r.newValue(r.valueName(s, int32(name)), p.owner)
		}
		r.producer[id] = int32(i)
		r.number[id] = int32(name)
		s.declare(int32(name), id, false)
		n.Out[j] = id
	}
	return r.bounded()
}

// bounded is the error about more nodes than are allowed. The name that a value gets in a call of a function is new in
// each call: it weighs a node for each nameWeight bytes.
func (r *resolver) bounded() error {
	if r.nodes+r.inlined/nameWeight <= r.lim.Nodes {
		return nil
	}
	return fmt.Errorf("more than %d nodes once functions are inlined, which is the limit (%d bytes of an inlined "+
		"value's name count as one)",
		r.lim.Nodes, nameWeight)
}

// shadows reports whether a node may produce a name that stands for id already. ONNX wants each name once, but
// torch.export writes a buffer "t" beside the result "t" of a transposition. An initializer that is listed as an input
// too, as it is before IR version 4, has a declared type by now.
func (r *resolver) shadows(p *place, id ValueID) bool {
	return r.owner[id] == p.owner && r.producer[id] < 0 && r.m.Values[id].Init != nil &&
		r.m.Values[id].Declared == nil
}

// node resolves the inputs, version and subgraphs of node i.
func (r *resolver) node(p *place, nodes []Node, i int) error {
	s := p.scope
	n := &nodes[i]
	if s.call != nil {
		n.In = r.ids.copy(n.In)
		attrs, err := s.call.bind(n.Attrs)
		if err != nil {
			return fmt.Errorf("%s: %w", nodeLabel(i, n), err)
		}
		n.Attrs = attrs
		if n.Stack == 0 {
			n.Stack = s.call.node.Stack
		}
		n.More = s.call.more(n.More)
	}
	for j, name := range n.In {
		if name == NoValue {
			continue
		}
		id := s.lookup(name)
		if id == unbound {
			return fmt.Errorf("%s reads %q, which nothing produces", nodeLabel(i, n), s.names.strs[name])
		}
		n.In[j] = id
		if id == NoValue {
			continue
		}
		if r.owner[id] != p.owner {
			if p.inner {
				p.captures = append(p.captures, id)
			}
		} else if r.producer[id] >= int32(i) {
			p.sorted = false
		}
	}
	for j := range n.Attrs {
		if err := r.attr(p, i, n, j); err != nil {
			return err
		}
	}
	for _, id := range n.Out {
		s.bound[r.number[id]] = id
	}
	if r.lib.callee(p.raw, i) < 0 {
		n.Version = r.version(p, n)
		r.nodes++
		return r.bounded()
	}
	return nil
}

// attr resolves the subgraphs of an attribute.
func (r *resolver) attr(p *place, i int, n *Node, j int) error {
	a := &n.Attrs[j]
	if a.Type&refBit != 0 {
		return fmt.Errorf("%s: attribute %q refers to %q, but only functions have attributes to refer to", nodeLabel(i, n),
			a.Name, a.Str)
	}
	if a.Type != AttrGraph && a.Type != AttrGraphs || a.Graphs != nil {
		return nil
	}
	subs := a.Ints
	a.Ints = nil
	a.Graphs = make([]*Graph, len(subs))
	for k, sub := range subs {
		g, captures, err := r.graph(r.lib.subs[sub], p.scope, true)
		if err != nil {
			return fmt.Errorf("attribute %q of %s: %w", a.Name, nodeLabel(i, n), err)
		}
		a.Graphs[k] = g
		for _, id := range captures {
			if r.owner[id] == p.owner {
				if r.producer[id] >= 0 {
					p.deps = append(p.deps, capture{int32(i), id})
					if r.producer[id] >= int32(i) {
						p.sorted = false
					}
				}
			} else if p.inner {
				p.captures = append(p.captures, id)
			}
		}
	}
	return nil
}

// imported returns the version of an operator set that a function or else the model imports.
func (r *resolver) imported(p *place, domain string) (version int64, ok bool) {
	if c := p.scope.call; c != nil {
		if version, ok = c.fn.opsets[domain]; ok {
			return version, true
		}
	}
	version, ok = r.m.Opsets[domain]
	return version, ok
}

// version returns the version of the operator set that is in force for a node.
func (r *resolver) version(p *place, n *Node) int64 {
	if v, ok := r.imported(p, n.Domain); ok {
		return v
	}
	if n.Domain != "" || r.m.IRVersion < 3 {
		return 1 // before IR version 3 there was one operator set
	}
	// ONNX wants an import. Without one ONNX Runtime takes the newest it knows (Model::Model).
	if !r.unversioned {
		r.unversioned = true
		r.odd.add("opset_import", "the model imports no version of ai.onnx (opset_import): its operators are "+
			"read as of opset %d",
			LatestOpset)
	}
	return LatestOpset
}
