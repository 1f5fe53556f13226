package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// findHost decides which values Python computes: those that come from shapes and constants
// alone and go nowhere but to such slots.
func (b *recovery) findHost() {
	b.fixed = make([]bool, len(b.of))
	fixed := b.fixed
	for i := range fixed {
		fixed[i] = b.m.Values[i].Init != nil && !b.ofModule(onnxload.ValueID(i))
	}
	for i, n := range b.nodes {
		f := b.facts[i]
		ok := f.GivesShape() || n.Op == "Constant"
		if !ok && len(n.In) > 0 {
			ok = true
			for j := range n.In {
				v := b.in(n, j)
				ok = ok && (v == onnxload.NoValue || fixed[v] || f.Type(j))
			}
			if f.Has(module.RunsGraph) {
				ok = false
			}
		}
		for _, v := range n.Out {
			if v != onnxload.NoValue {
				fixed[v] = ok
			}
		}
	}
	for i := len(b.nodes) - 1; i >= -1; i-- {
		var outs []onnxload.ValueID
		if i >= 0 {
			outs = b.nodes[i].Out
		}
		for _, v := range outs {
			if v != onnxload.NoValue {
				b.host[v] = fixed[v] && !b.out[v] && b.onlyHostUses(v)
			}
		}
	}
	for i := range b.host {
		id := onnxload.ValueID(i)
		if b.made[i] < 0 && fixed[i] && b.m.Values[i].Init != nil {
			b.host[i] = b.onlyHostUses(id)
		}
	}
	// What is one number is a Python number wherever it goes.
	for i := range b.host {
		if !fixed[i] || b.host[i] || b.out[i] {
			continue
		}
		if s, ok := b.types.Type(onnxload.ValueID(i)).Shape.Ints(); ok && program.Numel(s) == 1 && len(s) == 0 {
			b.host[i] = true
		}
	}
}

func (b *recovery) onlyHostUses(v onnxload.ValueID) bool {
	for _, u := range b.usesOf(v) {
		n := b.nodes[u]
		f := b.facts[u]
		hostOut := true
		for _, o := range n.Out {
			hostOut = hostOut && (o == onnxload.NoValue || b.host[o])
		}
		if hostOut && len(n.Out) > 0 {
			continue
		}
		for j := range n.In {
			if b.in(n, j) == v && !f.Number(j) {
				return false
			}
		}
	}
	return true
}

// hostNode reports whether a node's outputs are all Python's.
func (b *recovery) hostNode(n *onnxload.Node) bool {
	if b.isName(n) {
		return true
	}
	for _, v := range n.Out {
		if v != onnxload.NoValue && !b.host[v] {
			return false
		}
	}
	return true
}

// ofModule reports whether a value is a parameter or a buffer of the module, whether the file lists it or has it in a
// Constant node.
func (b *recovery) ofModule(id onnxload.ValueID) bool {
	return b.src.Kinds[id] == program.Parameter || b.src.Kinds[id] == program.Buffer
}

// keepsWeight reports whether a node is a Constant that holds a parameter or a buffer: nothing runs there.
func (b *recovery) keepsWeight(n *onnxload.Node) bool {
	return n.Op == "Constant" && b.ofModule(n.Output(0))
}
