package module

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// Restore returns a model in which the copies are that the optimiser of torch.onnx.export dropped. Each node says of
// which call of torch.export's graph it was translated, with what that call read, "args = (%x, %clone_1)": where a node
// reads another value than that, the copy between the two was an Identity that went. A copy of a view is a copy
// (contiguous, reshape), and an Identity again. A copy of anything else is what an export in evaluation mode makes of
// dropout (native_dropout's decomposition clones what it would drop of), and a Dropout again, unless the graph was
// exported for training, where dropout of nothing is such a copy. The texts: torch/onnx/_internal/exporter/_core.py.
func Restore(m *onnxload.Model, operators Operators) *onnxload.Model {
	g := m.Graph
	r := restorer{m: m, maker: make([]int32, len(m.Values)), known: map[string]bool{}}
	calls := map[string][]int32{} // the nodes of each
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if call := n.MetaValue(onnxload.CallKey); call != "" {
			if _, ok := calls[call]; !ok {
				r.calls = append(r.calls, call)
			}
			calls[call] = append(calls[call], int32(i))
		}
		for _, v := range n.Out {
			if v != onnxload.NoValue {
				r.maker[v] = int32(i) + 1
			}
		}
		_, norm := BatchNorm(n, n.MetaValue(namespaceKey))
		r.trains = r.trains || n.Op == "Dropout" || norm
	}
	if len(r.calls) == 0 {
		return m
	}
	for i := range m.Values {
		if strings.HasPrefix(m.Values[i].Name, copyName) {
			r.known[m.Values[i].Name] = true
		}
	}
	for _, call := range r.calls {
		r.find(calls[call])
	}
	r.copies = slices.DeleteFunc(r.copies, func(c dropped) bool { return c.of == onnxload.NoValue })
	if len(r.copies) == 0 {
		return m
	}
	return r.restored(operators)
}

// copyName is how torch.export names what aten.clone makes: clone, clone_1 and so on.
const copyName = "clone"

// restoredKey marks the nodes that Restore put back.
const restoredKey = "memestimate.restored"

// IsRestored reports whether Restore put a node back.
func IsRestored(n *onnxload.Node) bool { return n.MetaValue(restoredKey) != "" }

// A dropped copy is one that no node makes.
type dropped struct {
	name  string
	of    onnxload.ValueID // what it copies; NoValue where nodes disagree
	reads [][2]int32       // nodes, and which of their inputs
}

type restorer struct {
	m      *onnxload.Model
	maker  []int32  // by value: one more than the node that makes it
	calls  []string // the texts of those that read a copy, in order
	known  map[string]bool
	trains bool // the graph shows that it was exported for training
	copies []dropped
	at     map[string]int // by name: in copies
}

// find looks for the copies that the nodes of one call read. They read each other's results as well, and constants have
// other names than the call's parameters. A node that reads all of the copies reads them in the order of the call's
// arguments. Where no node does, as in attention that is written out, copies are numbered as they were made, and what
// they copy was made in that order too: "attention(q.contiguous(), k.contiguous(), v.contiguous())".
func (r *restorer) find(nodes []int32) {
	call := r.m.Graph.Nodes[nodes[0]].MetaValue(onnxload.CallKey)
	args := readBy(call)
	var copies []string
	for _, a := range args {
		if operatorOf(a) == copyName && !r.known[a] && !slices.Contains(copies, a) {
			copies = append(copies, a)
		}
	}
	if len(copies) == 0 || len(args) > mostRead {
		return
	}
	var all []onnxload.ValueID // what the call does not name
	ofOne := 0                 // how much of it one node reads at most
	for _, i := range nodes {
		var reads []onnxload.ValueID
		n := &r.m.Graph.Nodes[i]
		if len(n.In) > mostRead {
			return
		}
		for _, v := range n.In {
			if v == onnxload.NoValue || r.m.Values[v].Init != nil || slices.Contains(args, r.m.NameOf(v)) ||
				slices.Contains(reads, v) {
				continue
			}
			if made := r.maker[v] - 1; made >= 0 && r.m.Graph.Nodes[made].MetaValue(onnxload.CallKey) == call {
				continue
			}
			if reads = append(reads, v); !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		if ofOne = max(ofOne, len(reads)); len(all) > len(copies) {
			return
		}
	}
	if len(all) != len(copies) {
		return
	}
	if ofOne < len(copies) {
		slices.SortStableFunc(all, func(a, b onnxload.ValueID) int { return cmp.Compare(r.maker[a], r.maker[b]) })
		slices.SortFunc(copies, func(a, b string) int {
			_, first := CallOf(a)
			_, second := CallOf(b)
			return cmp.Compare(first, second)
		})
	}
	for _, i := range nodes {
		for k, v := range r.m.Graph.Nodes[i].In {
			if at := slices.Index(all, v); v != onnxload.NoValue && at >= 0 {
				r.reads(copies[at], v, i, int32(k))
			}
		}
	}
}

func (r *restorer) reads(name string, v onnxload.ValueID, node, slot int32) {
	k, ok := r.at[name]
	if !ok {
		if r.at == nil {
			r.at = map[string]int{}
		}
		k = len(r.copies)
		r.at[name] = k
		r.copies = append(r.copies, dropped{name: name, of: v})
	}
	c := &r.copies[k]
	if c.of != v {
		c.of = onnxload.NoValue
	}
	c.reads = append(c.reads, [2]int32{node, slot})
}

// restored puts the copies back, each right behind what it copies.
func (r *restorer) restored(operators Operators) *onnxload.Model {
	out, g := *r.m, *r.m.Graph
	out.Graph, out.Values = &g, slices.Clone(r.m.Values)
	behind := map[int32][]onnxload.Node{}
	g.Nodes = slices.Clone(g.Nodes)
	for _, c := range r.copies {
		made := r.maker[c.of] - 1
		id := onnxload.ValueID(len(out.Values))
		out.Values = append(out.Values, onnxload.Value{Name: c.name})
		first := &r.m.Graph.Nodes[c.reads[0][0]]
		n := onnxload.Node{Op: "Identity", Name: "node_" + c.name, Version: first.Version, In: []onnxload.ValueID{c.of},
			Out: []onnxload.ValueID{id}, Stack: first.Stack,
			More: &onnxload.More{Meta: []onnxload.Entry{{Key: restoredKey, Value: "yes"}}}}
		if first.Domain != "" {
			n.Version = r.m.Opsets[""]
		}
		if !r.trains && r.isDropout(c, operators) {
			n.Op = "Dropout"
		}
		if made >= 0 {
			p := &r.m.Graph.Nodes[made]
			n.Stack = r.between(p.Stack, first.Stack)
			n.More.Meta = append(n.More.Meta, onnxload.Entry{Key: namespaceKey,
				Value: within(p.MetaValue(namespaceKey), first.MetaValue(namespaceKey)) + c.name + ": aten.clone.default"})
		}
		behind[made] = append(behind[made], n)
		for _, at := range c.reads {
			u := &g.Nodes[at[0]]
			u.In = slices.Clone(u.In)
			u.In[at[1]] = id
		}
	}
	nodes := slices.Clone(behind[-1])
	for i := range g.Nodes {
		nodes = append(nodes, g.Nodes[i])
		nodes = append(nodes, behind[int32(i)]...)
	}
	g.Nodes = nodes
	return &out
}

// isDropout reports whether a copy is what dropout came to: what it copies lies row by row, so that nothing else than
// x.clone() would copy it. Of a view that may not, a turned tensor or a part of one, it is if it is not for a further
// view, as reshape's is, nor for attention, and no line asks for it, as x.transpose(1, 2).contiguous() does.
func (r *restorer) isDropout(c dropped, operators Operators) bool {
	dense := true
	for v, left := c.of, mostViews; r.maker[v] > 0 && left > 0; left-- {
		n := &r.m.Graph.Nodes[r.maker[v]-1]
		f := operators.Of(n.Domain, n.Op)
		if dense = !f.Has(View) && !isPart(n); dense || isPart(n) || len(n.In) == 0 {
			break
		}
		v = n.Input(0)
	}
	if t := r.m.Values[c.of].Type(); t.Elem != onnxload.Undefined && !t.Elem.IsFloat() {
		return false
	}
	says := func(n *onnxload.Node, what string) bool {
		f, ok := r.m.Frame(n.Stack)
		return ok && strings.Contains(f.Source, what)
	}
	nodes := r.m.Graph.Nodes
	if made := r.maker[c.of] - 1; made >= 0 {
		if n := &nodes[made]; says(n, ".clone()") || !dense && says(n, "contiguous(") {
			return false
		}
	}
	for _, at := range c.reads {
		n := &nodes[at[0]]
		if says(n, ".clone()") || !dense && (says(n, "contiguous(") || wantsRows(n.MetaValue(onnxload.CallKey))) {
			return false
		}
	}
	return true
}

// wantsRows reports whether a call is one that programs make copies for: a view, or attention, whose kernels want what
// they read row by row. "%select : [...] = call_function[target=torch.ops.aten.select.int](args".
func wantsRows(call string) bool {
	_, op, _ := strings.Cut(call, "[target=torch.ops.aten.")
	op, _, _ = strings.Cut(op, ".")
	return views[op] || op == "scaled_dot_product_attention"
}

// What is looked at of a hostile file: how much a call and its nodes read, and how many views lie one upon another.
const mostRead, mostViews = 256, 64

// isPart reports whether a view is of another order than what it is of, or leaves gaps in it.
func isPart(n *onnxload.Node) bool {
	return n.Op == "Transpose" || n.Op == "Slice" || n.Op == "Split" || n.Op == "Expand"
}

// between returns the call that a copy was made in, which no node has: the innermost that both the call before it and
// the one behind it were in. Where these are two lines of one function it is the first of the two, as
// "x = dropout(x)" stands behind what made x and gives it the same name.
func (r *restorer) between(before, after int32) int32 {
	above := func(s int32) (all []int32) {
		for len(all) < 1<<10 {
			f, ok := r.m.Frame(s)
			if !ok {
				break
			}
			all = append(all, s)
			s = f.Up
		}
		slices.Reverse(all)
		return all
	}
	a, b := above(before), above(after)
	k := 0
	for k < len(a) && k < len(b) && a[k] == b[k] {
		k++
	}
	if k < len(a) && k < len(b) {
		f, _ := r.m.Frame(a[k])
		if g, _ := r.m.Frame(b[k]); f.File == g.File && f.Func == g.Func {
			return a[k]
		}
	}
	if k == 0 {
		return 0
	}
	return a[k-1]
}

// within is what two namespaces begin with, the modules alone: "net: Net/block: Block/".
func within(a, b string) string {
	end := 0
	for i := 0; i < len(a) && i < len(b) && a[i] == b[i]; i++ {
		if a[i] == '/' {
			end = i + 1
		}
	}
	return a[:end]
}

// readBy is what a call reads by its text: "%add : [...] = call_function[target=...](args = (%x, %clone_1), ...".
func readBy(call string) (names []string) {
	_, rest, _ := strings.Cut(call, " ")
	for {
		_, after, ok := strings.Cut(rest, "%")
		if !ok {
			return names
		}
		end := strings.IndexFunc(after, func(c rune) bool {
			return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
		})
		if end < 0 {
			end = len(after)
		}
		names, rest = append(names, after[:end]), after[end:]
	}
}
