package onnxload

import (
	"fmt"
	"slices"
	"strconv"
)

// A function is a model-local function: a name for a graph.
type function struct {
	domain, name, overload string
	in, out                []ValueID // numbers of names in body.names
	attrs                  []string  // attributes without a default
	defaults               []Attr
	opsets                 map[string]int64
	body                   *rawGraph

	calls  []int // functions that the body calls, subgraphs included; filled by link
	weight int64 // of the body without what it calls
	done   bool  // of link's search
	height int   // calls below this one, at most

	scope *scope // tables for a call: no function is called within itself, so one will do
}

type functionKey struct{ domain, name, overload string }

func (f *function) key() functionKey { return functionKey{f.domain, f.name, f.overload} }

func (k functionKey) String() string {
	s := k.name
	if k.domain != "" {
		s = k.domain + "." + s
	}
	if k.overload != "" {
		s += ":" + k.overload
	}
	return fmt.Sprintf("%q", s)
}

// maxCalls is how deep functions may call each other: onnx.checker's limit.
const maxCalls = 100

// A library is the functions of a model.
type library struct {
	funcs []*function
	byKey map[functionKey]int
	subs  []*rawGraph
	size  []int64 // what a call unfolds to: see weight
}

// link finds the calls between functions and refuses a function that reaches
// itself, a chain of calls that is too deep, and a main graph or body whose calls
// unfold to more than limit nodes.
func link(main *rawGraph, funcs []*function, subs []*rawGraph, limit int64) (*library, error) {
	l := &library{funcs: funcs, subs: subs, byKey: map[functionKey]int{}, size: make([]int64, len(funcs))}
	for i, f := range funcs {
		if f.name == "" {
			return nil, fmt.Errorf("function %d has no name", i)
		}
		if _, dup := l.byKey[f.key()]; dup {
			return nil, fmt.Errorf("function %v is declared twice", f.key())
		}
		l.byKey[f.key()] = i
	}
	for _, f := range funcs {
		f.calls, f.weight = l.gather(f.body)
	}
	for i := range funcs {
		if err := l.search(i, nil, limit); err != nil {
			return nil, err
		}
	}
	calls, total := l.gather(main)
	for _, k := range calls {
		if total += l.size[k]; total > limit {
			return nil, fmt.Errorf("calls of functions unfold to more than %d nodes, which is the limit", limit)
		}
	}
	return l, nil
}

// callee returns the function that a node calls, or -1.
func (l *library) callee(g *rawGraph, i int) int {
	if len(l.funcs) == 0 {
		return -1
	}
	n := &g.nodes[i]
	if k, ok := l.byKey[functionKey{n.Domain, n.Op, g.overloads[i]}]; ok {
		return k
	}
	return -1
}

// gather lists the functions that g and its subgraphs call, and adds up what
// its nodes weigh.
func (l *library) gather(g *rawGraph) (calls []int, weight int64) {
	if len(l.funcs) == 0 {
		return nil, 0
	}
	work := []*rawGraph{g}
	for len(work) > 0 {
		g := work[len(work)-1]
		work = work[:len(work)-1]
		weight += int64(len(g.inits) + len(g.inputs) + len(g.outputs) + len(g.infos))
		for i := range g.nodes {
			n := &g.nodes[i]
			if k := l.callee(g, i); k >= 0 {
				calls = append(calls, k)
			}
			// An ordinary node weighs one; long lists take memory of their own.
			weight += 1 + int64(len(n.In)+len(n.Out))/16 + int64(len(n.Attrs)+len(n.Meta()))/4
			for _, a := range n.Attrs {
				if a.Type == AttrGraph || a.Type == AttrGraphs {
					for _, s := range a.Ints {
						work = append(work, l.subs[s])
					}
				}
			}
		}
	}
	return calls, weight
}

// search adds up what the calls below function i unfold to. path is the calls above it.
func (l *library) search(i int, path []int, limit int64) error {
	f := l.funcs[i]
	if f.done {
		return nil
	}
	if at := slices.Index(path, i); at >= 0 {
		var names []string
		for _, k := range path[at:] {
			names = append(names, l.funcs[k].key().String())
		}
		return fmt.Errorf("recursive function: %s", around(names))
	}
	path = append(path, i)
	own := f.weight
	for _, k := range f.calls {
		if len(path) <= maxCalls {
			if err := l.search(k, path, limit); err != nil {
				return err
			}
			f.height = max(f.height, 1+l.funcs[k].height)
		}
		if len(path) > maxCalls || f.height > maxCalls {
			return fmt.Errorf("functions call each other more than %d deep: from %v on", maxCalls, l.funcs[path[0]].key())
		}
		if own += l.size[k]; own > limit {
			return fmt.Errorf("function %v unfolds to more than %d nodes, which is the limit", f.key(), limit)
		}
	}
	l.size[i] = own
	f.done = true
	return nil
}

// A call is one use of a function while it is being inlined.
type call struct {
	fn    *function
	node  *Node               // the calling node, resolved
	attrs map[string]*Attr    // by name: given, or the default
	path  string              // scope of the body's nodes
	said  *More               // of a node of the body without metadata of its own
	outs  map[ValueID]ValueID // by the name of a formal output: the value that the caller takes it as

	graphs map[*Attr]bool // attributes that are graphs and have been used
}

// newCall binds the attributes of a call.
func newCall(f *function, n *Node, path string) (*call, error) {
	if len(n.In) > len(f.in) {
		return nil, fmt.Errorf("call of function %v has %d inputs, want at most %d", f.key(), len(n.In), len(f.in))
	}
	if len(n.Out) > len(f.out) {
		return nil, fmt.Errorf("call of function %v has %d outputs, want at most %d", f.key(), len(n.Out), len(f.out))
	}
	c := &call{fn: f, node: n, path: path, said: &More{n.Meta(), path},
		attrs: map[string]*Attr{}, outs: make(map[ValueID]ValueID, len(n.Out))}
	for i := range f.defaults {
		c.attrs[f.defaults[i].Name] = &f.defaults[i]
	}
	for i := range n.Attrs {
		c.attrs[n.Attrs[i].Name] = &n.Attrs[i]
	}
	for k, id := range n.Out {
		if _, twice := c.outs[f.out[k]]; id != NoValue && !twice {
			c.outs[f.out[k]] = id
		}
	}
	return c, nil
}

// bind replaces references among a body node's attributes by what the call gives.
// A reference to an attribute that has no value leaves the attribute out.
func (c *call) bind(attrs []Attr) ([]Attr, error) {
	out := make([]Attr, 0, len(attrs))
	for _, a := range attrs {
		if a.Type&refBit == 0 {
			out = append(out, a)
			continue
		}
		if v := c.attrs[a.Str]; v != nil {
			b := *v
			b.Name = a.Name
			if b.Graphs != nil { // its values can have one producer only
				if c.graphs[v] {
					return nil, fmt.Errorf("function %v uses the graph of attribute %q twice", c.fn.key(), v.Name)
				}
				if c.graphs == nil {
					c.graphs = map[*Attr]bool{}
				}
				c.graphs[v] = true
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// more returns what few nodes have, of a node of the body: its own metadata, and what that does not say, the call's.
func (c *call) more(own *More) *More {
	if own == nil {
		return c.said
	}
	out := append([]Entry(nil), own.Meta...)
	for _, e := range c.said.Meta {
		if !slices.ContainsFunc(own.Meta, func(o Entry) bool { return o.Key == e.Key }) {
			out = append(out, e)
		}
	}
	return &More{out, c.path}
}

// inline sets p.nodes: the nodes in this order (nil: as they are) with calls of
// functions replaced by the nodes of their bodies.
func (r *resolver) inline(p *place, nodes []Node, order []int32) error {
	calls := false
	for i := range nodes {
		calls = calls || r.lib.callee(p.raw, i) >= 0
	}
	if order == nil && !calls {
		p.nodes = nodes
		return nil
	}
	out := make([]Node, 0, len(nodes))
	for k := range nodes {
		i := k
		if order != nil {
			i = int(order[k])
		}
		f := r.lib.callee(p.raw, i)
		if f < 0 {
			out = append(out, nodes[i])
			continue
		}
		body, err := r.expand(p, r.lib.funcs[f], i, &nodes[i])
		if err != nil {
			return err
		}
		out = append(out, body...)
	}
	p.nodes = out
	return nil
}

// expand returns the nodes that a call stands for.
func (r *resolver) expand(p *place, f *function, i int, n *Node) ([]Node, error) {
	c, err := newCall(f, n, r.scopePath(p, i, n))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nodeLabel(i, n), err)
	}
	r.graphs++
	if f.scope == nil {
		f.scope = newScope(f.body.names, nil)
	}
	f.scope.call, f.scope.nested = c, true
	defer f.scope.end(0)
	in := &place{raw: f.body, scope: f.scope, owner: r.graphs}
	for k, name := range f.in {
		if name == NoValue {
			return nil, fmt.Errorf("function %v: input %d has no name", f.key(), k)
		}
		if in.scope.late[name] != unbound {
			return nil, fmt.Errorf("function %v: input %q is there twice", f.key(), f.body.names.strs[name])
		}
		id := NoValue
		if k < len(n.In) {
			id = n.In[k]
		}
		in.scope.declare(int32(name), id, true)
	}
	if err := r.body(in); err != nil {
		return nil, fmt.Errorf("function %v, called by %s: %w", f.key(), nodeLabel(i, n), err)
	}
	nodes := in.nodes
	for k, id := range n.Out {
		if id == NoValue {
			continue
		}
		got := in.scope.lookup(f.out[k])
		if got == unbound || got == NoValue {
			return nil, fmt.Errorf("function %v: output %d is produced by nothing", f.key(), k)
		}
		if got == id {
			continue
		}
		// A formal input handed through, or an output listed twice: the value needs a producer.
		copyNode := Node{Op: "Identity", In: []ValueID{got}, Out: []ValueID{id}, Version: LatestOpset,
			More: &More{Scope: c.path}}
		if v, ok := r.imported(in, ""); ok {
			copyNode.Version = v
		}
		nodes = append(nodes, copyNode)
	}
	return nodes, nil
}

// scopePath names a call, uniquely: the caller's path, then the node's name,
// or its operator and index when it has none.
func (r *resolver) scopePath(p *place, i int, n *Node) string {
	s := n.Name
	if s == "" {
		s = n.Op + "_" + strconv.Itoa(i)
	}
	if p.scope.call != nil {
		s = r.inside(p.scope.call.path, s)
	}
	base := s
	for r.used[s] {
		r.calls[base]++ // names need not be unique: never try a number twice
		s = base + "#" + strconv.Itoa(1+r.calls[base])
	}
	r.used[s] = true
	return s
}
