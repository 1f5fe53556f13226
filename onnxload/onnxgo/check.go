package onnxgo

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/owulveryck/onnx-go"
)

// A Report says what Check compared.
type Report struct {
	Graphs int  // the main graph and its subgraphs, at any depth
	Nodes  int  // nodes that both readers gave
	Calls  int  // calls of functions, which onnx-go knows by name only; their bodies were compared once inlined
	File   bool // onnx-go was given the file's own bytes; a stream is gone, so it gets what onnxload made of it
}

// A Difference is an error of one of the two readers.
type Difference struct {
	Node string // where: "node 12 \"conv\"", in a subgraph after the node that has it
	Msg  string
}

// Error says where the two readers differ, and how.
func (d *Difference) Error() string { return "onnx-go reads another model: " + d.Node + ": " + d.Msg }

// Check has onnx-go decode the model that onnxload has read, and compares them
// node by node: operator, inputs and outputs in order, attributes with their
// values where onnx-go has them, in the main graph and in every subgraph.
//
// onnx-go cannot take every model, so it is given skeletons: the file's bytes
// without weights, types and attributes that it fails on, a model for each graph.
// The error is a *Difference when the readers disagree.
func Check(m *onnxload.Model) (Report, error) {
	c := checker{m: m}
	r, size := m.Input()
	if r != nil {
		s := stripper{r: r, size: size}
		k, err := s.model()
		if err != nil {
			return c.rep, fmt.Errorf("cross-check: %w", err)
		}
		c.rep.File = true
		if err := c.graph(k, m.Graph, ""); err != nil {
			return c.rep, err
		}
	}
	if r == nil || m.Functions > 0 { // the bodies of functions
		c.inlined = true
		if r != nil {
			c.rep.Graphs, c.rep.Nodes = 0, 0
		}
		if err := c.graph(encodeGraph(m, m.Graph), m.Graph, ""); err != nil {
			return c.rep, err
		}
	}
	return c.rep, nil
}

type checker struct {
	m       *onnxload.Model
	inlined bool // the skeleton has the nodes of functions where the file has calls
	rep     Report
}

// graph compares a graph with its skeleton; where leads to it.
func (c *checker) graph(k *skeleton, g *onnxload.Graph, where string) error {
	c.rep.Graphs++
	var ours []int // nodes of the file itself
	for i := range g.Nodes {
		if c.inlined || g.Nodes[i].Scope() == "" {
			ours = append(ours, i)
		}
	}
	if len(k.nodes) == 0 { // onnx-go refuses a graph without nodes
		if len(ours) > 0 {
			return &Difference{where + c.label(g, ours[0]), "not in the file"}
		}
		return nil
	}
	var b Backend
	if err := Decode(onnx.NewModel(&b), k.model); err != nil {
		return fmt.Errorf("cross-check: %s%w", where, err)
	}
	if len(b.ops) != len(k.nodes) {
		return &Difference{where + "graph", fmt.Sprintf("%d nodes, onnxload %d", len(b.ops), len(k.nodes))}
	}
	byOutput := map[string]int{}
	for _, i := range ours {
		if name := c.key(&g.Nodes[i]); name != "" {
			byOutput[name] = i
		}
	}
	inlined := map[string]bool{} // outputs of functions' nodes
	if !c.inlined && c.m.Functions > 0 {
		for i := range g.Nodes {
			for _, id := range g.Nodes[i].Out {
				if g.Nodes[i].Scope() != "" && id != onnxload.NoValue {
					inlined[c.name(id)] = true
				}
			}
		}
	}
	seen := make([]bool, len(g.Nodes))
	matched, next := 0, 0
	for i := range b.ops {
		op, n := &b.ops[i], &k.nodes[i]
		at := -1
		if key := outputKey(op, n); key != "" {
			if j, ok := byOutput[key]; ok {
				at = j
			}
		}
		for next < len(ours) && seen[ours[next]] {
			next++
		}
		if at < 0 && next < len(ours) && c.key(&g.Nodes[ours[next]]) == "" {
			at = ours[next] // without outputs there is only the order
		}
		if at < 0 {
			// A call of a function: onnxload has its outputs from the function's nodes. One for nothing has none.
			if key := outputKey(op, n); inlined[key] || key == "" && !c.inlined && c.m.Functions > 0 {
				c.rep.Calls++
				continue
			}
			return &Difference{where + fmt.Sprintf("node %d %q (%q)", i, n.name, n.op), "onnxload does not have it"}
		}
		if seen[at] {
			return &Difference{where + c.label(g, at), "there twice"}
		}
		seen[at] = true
		matched++
		if msg := c.node(op, n, &g.Nodes[at]); msg != "" {
			return &Difference{where + c.label(g, at), msg}
		}
		for _, sub := range n.subs {
			if err := c.sub(sub, &g.Nodes[at], where+c.label(g, at)+", "); err != nil {
				return err
			}
		}
	}
	c.rep.Nodes += matched
	if matched != len(ours) {
		for _, i := range ours {
			if !seen[i] {
				return &Difference{where + c.label(g, i), "onnx-go does not have it"}
			}
		}
	}
	return nil
}

func (c *checker) sub(s subskeleton, n *onnxload.Node, where string) error {
	for i := range n.Attrs {
		a := &n.Attrs[i]
		if safe(a.Name) == s.attr && s.index < len(a.Graphs) {
			return c.graph(s.g, a.Graphs[s.index], where+s.attr+": ")
		}
	}
	return &Difference{where + s.attr, "onnxload has no such subgraph"}
}

func (c *checker) name(id onnxload.ValueID) string { return safe(c.m.NameOf(id)) }

// key is the first output that has a name.
func (c *checker) key(n *onnxload.Node) string {
	for _, id := range n.Out {
		if id != onnxload.NoValue {
			return c.name(id)
		}
	}
	return ""
}

func outputKey(op *operation, n *skeletonNode) string {
	if n.outs == 0 {
		return ""
	}
	for _, x := range op.out {
		if s := nodeName(x); s != "" {
			return s
		}
	}
	return ""
}

func (c *checker) label(g *onnxload.Graph, i int) string {
	n := &g.Nodes[i]
	s := fmt.Sprintf("node %d %q (%q)", i, n.Name, n.Op)
	if scope := n.Scope(); scope != "" {
		s += fmt.Sprintf(" in %q", scope)
	}
	return s
}

// node compares a node as onnx-go gave it with onnxload's; "" when they agree.
func (c *checker) node(op *operation, s *skeletonNode, n *onnxload.Node) string {
	if op.name != safe(n.Op) {
		return fmt.Sprintf("operator %q, onnxload has %q", op.name, n.Op)
	}
	if d := strings.TrimPrefix(s.domain, "ai.onnx"); d != safe(n.Domain) && s.domain != safe(n.Domain) {
		return fmt.Sprintf("domain %q, onnxload has %q", s.domain, n.Domain)
	}
	var in, out, theirIn, theirOut []string
	for _, id := range n.In {
		in = append(in, c.name(id))
	}
	for _, id := range n.Out {
		out = append(out, c.name(id))
	}
	for _, x := range op.in {
		theirIn = append(theirIn, nodeName(x))
	}
	for _, x := range op.out {
		theirOut = append(theirOut, nodeName(x))
	}
	if len(in) == 0 && len(theirIn) == 1 && theirIn[0] == s.name+"/input" {
		theirIn = nil // onnx-go invents an input for those without
	}
	if s.outs == 0 && len(theirOut) == 1 && strings.HasPrefix(theirOut[0], noOutput) {
		theirOut = nil
	}
	if !slices.Equal(in, theirIn) {
		return fmt.Sprintf("inputs %q, onnxload has %q", theirIn, in)
	}
	if !slices.Equal(out, theirOut) {
		return fmt.Sprintf("outputs %q, onnxload has %q", theirOut, out)
	}
	if len(op.attrs) != len(n.Attrs) {
		return fmt.Sprintf("%d attributes, onnxload has %d", len(op.attrs), len(n.Attrs))
	}
	for i := range n.Attrs {
		a := &n.Attrs[i]
		v, ok := op.attrs[safe(a.Name)]
		if !ok {
			return fmt.Sprintf("no attribute %q, which onnxload has", a.Name)
		}
		if !sameAttr(v, a) {
			return fmt.Sprintf("attribute %q is %.60v, onnxload has another value", a.Name, v)
		}
	}
	return ""
}

// sameAttr compares the value of an attribute where the skeleton has it.
func sameAttr(v any, a *onnxload.Attr) bool {
	switch v := v.(type) {
	case float32:
		return a.Type == onnxload.AttrFloat && math.Float32bits(v) == math.Float32bits(a.Float)
	case int64:
		return a.Type == onnxload.AttrInt && v == a.Int
	case string:
		return a.Type == onnxload.AttrString && v == a.Str || v == replaced
	case []int64:
		return a.Type == onnxload.AttrInts && slices.Equal(v, a.Ints)
	case []string:
		return a.Type == onnxload.AttrStrings && slices.Equal(v, a.Strs)
	case []float32:
		return a.Type == onnxload.AttrFloats && slices.EqualFunc(v, a.Floats,
			func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
	}
	return true // no type in the file, or a tensor: onnx-go has no value to compare
}
