package onnxload

import (
	"fmt"
	"strings"
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
	state  uint8 // of link's search
	height int   // calls below this one, at most
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
	size  []int64 // nodes of a call when everything in it is inlined
}

// link finds the calls between functions and refuses a function that reaches
// itself, a chain of calls that is too deep, and bodies that unfold to more than limit nodes.
func link(funcs []*function, subs []*rawGraph, limit int64) (*library, error) {
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
		l.gather(f.body, &f.calls, nil)
	}
	for i := range funcs {
		if err := l.search(i, limit); err != nil {
			return nil, err
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

// gather lists the functions that g and its subgraphs call, and counts other nodes.
func (l *library) gather(g *rawGraph, calls *[]int, count *int64) {
	work := []*rawGraph{g} // nesting is bounded by Limits.Depth, but a list costs no more
	for len(work) > 0 {
		g := work[len(work)-1]
		work = work[:len(work)-1]
		for i := range g.nodes {
			if k := l.callee(g, i); k >= 0 {
				if calls != nil {
					*calls = append(*calls, k)
				}
			} else if count != nil {
				*count++
			}
			for _, a := range g.nodes[i].Attrs {
				if a.Type == AttrGraph || a.Type == AttrGraphs {
					for _, s := range a.Ints {
						work = append(work, l.subs[s])
					}
				}
			}
		}
	}
}

// search walks the calls below function i without recursion: 0 unseen, 1 on the
// path, 2 done.
func (l *library) search(i int, limit int64) error {
	type frame struct{ fn, next int }
	if l.funcs[i].state == 2 {
		return nil
	}
	path := []frame{{fn: i}}
	l.funcs[i].state = 1
	for len(path) > 0 {
		top := &path[len(path)-1]
		f := l.funcs[top.fn]
		if top.next < len(f.calls) {
			k := f.calls[top.next]
			top.next++
			switch l.funcs[k].state {
			case 0:
				l.funcs[k].state = 1
				path = append(path, frame{fn: k})
			case 1:
				var names []string
				for j := len(path) - 1; j >= 0; j-- {
					names = append(names, l.funcs[path[j].fn].key().String())
					if path[j].fn == k {
						break
					}
				}
				for a, b := 0, len(names)-1; a < b; a, b = a+1, b-1 {
					names[a], names[b] = names[b], names[a]
				}
				names = append(names, l.funcs[k].key().String())
				if len(names) > 10 {
					names = append(append(names[:5:5], "..."), names[len(names)-4:]...)
				}
				return fmt.Errorf("recursive function: %s", strings.Join(names, " -> "))
			}
			continue
		}
		var own int64
		l.gather(f.body, nil, &own)
		for _, k := range f.calls {
			if f.height = max(f.height, 1+l.funcs[k].height); f.height > maxCalls {
				return fmt.Errorf("functions call each other more than %d deep: from %v on", maxCalls, f.key())
			}
			if own += l.size[k]; own > limit {
				return fmt.Errorf("function %v unfolds to more than %d nodes, which is the limit", f.key(), limit)
			}
		}
		l.size[top.fn] = own
		f.state = 2
		path = path[:len(path)-1]
	}
	return nil
}

// A call is one use of a function while it is being inlined.
type call struct {
	fn    *function
	node  *Node            // the calling node, resolved
	attrs map[string]*Attr // by name: given, or the default
	path  string           // scope of the body's nodes
}

// newCall binds the attributes of a call.
func newCall(f *function, n *Node, path string) (*call, error) {
	if len(n.In) > len(f.in) {
		return nil, fmt.Errorf("call of function %v has %d inputs, want at most %d", f.key(), len(n.In), len(f.in))
	}
	if len(n.Out) > len(f.out) {
		return nil, fmt.Errorf("call of function %v has %d outputs, want at most %d", f.key(), len(n.Out), len(f.out))
	}
	c := &call{fn: f, node: n, path: path, attrs: map[string]*Attr{}}
	for i := range f.defaults {
		c.attrs[f.defaults[i].Name] = &f.defaults[i]
	}
	for i := range n.Attrs {
		c.attrs[n.Attrs[i].Name] = &n.Attrs[i]
	}
	return c, nil
}

// bind replaces references among a body node's attributes by what the call gives.
// A reference to an attribute that has no value leaves the attribute out.
func (c *call) bind(attrs []Attr) []Attr {
	out := make([]Attr, 0, len(attrs))
	for _, a := range attrs {
		if a.Type&refBit == 0 {
			out = append(out, a)
			continue
		}
		if v := c.attrs[a.Str]; v != nil {
			b := *v
			b.Name = a.Name
			out = append(out, b)
		}
	}
	return out
}

// meta returns the metadata of a body node: its own, and what it does not say
// itself, the call's.
func (c *call) meta(own []Entry) []Entry {
	if len(c.node.Meta) == 0 {
		return own
	}
	out := append([]Entry(nil), own...)
	for _, e := range c.node.Meta {
		has := false
		for _, o := range own {
			has = has || o.Key == e.Key
		}
		if !has {
			out = append(out, e)
		}
	}
	return out
}
