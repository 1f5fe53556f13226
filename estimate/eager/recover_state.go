package eager

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// orderState puts parameters and buffers in the order in which Module._apply moves them:
// a module's children first, in the order in which they were registered, then its
// parameters, then its buffers. Exporters list parameters in that order of modules.
// Each batch norm has a counter of batches, an int64 that no export keeps.
func (b *recovery) orderState() {
	for i := range b.m.Values { // parameters that no call reads still move
		if k := b.src.Kinds[i]; (k == Parameter || k == Buffer) && b.m.Values[i].Init != nil && b.of[i] == unset {
			b.host[i] = false
			b.value(onnxload.ValueID(i))
		}
	}
	type module struct {
		children []string
		params   []ValueID
		buffers  []ValueID
	}
	tree := map[string]*module{"": {}}
	var enter func(path string) *module
	enter = func(path string) *module {
		if m := tree[path]; m != nil {
			return m
		}
		up := ""
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			up = path[:i]
		}
		m := &module{}
		tree[path] = m
		p := enter(up)
		p.children = append(p.children, path)
		return m
	}
	// Values that the graph does not have, restored ones, stay at the end of their modules.
	ids := make([]int, len(b.prog.Values))
	for v := range ids {
		ids[v] = len(b.of)
	}
	for i, v := range b.of {
		if v >= 0 {
			ids[v] = min(ids[v], i)
		}
	}
	place := func(v ValueID) int { return ids[v] }
	state := slices.Clone(b.prog.State)
	slices.SortStableFunc(state, func(x, y ValueID) int { return place(x) - place(y) })
	for _, v := range state {
		name := b.prog.Values[v].Name
		up := ""
		if i := strings.LastIndexByte(name, '.'); i >= 0 && !strings.ContainsAny(name, ":/") {
			up = shallow(name[:i])
		}
		m := enter(up)
		if b.prog.Values[v].Kind == Parameter {
			m.params = append(m.params, v)
			continue
		}
		m.buffers = append(m.buffers, v)
		if strings.HasSuffix(name, "running_var") && b.m.Producer == "pytorch" {
			m.buffers = append(m.buffers, b.add(Value{Name: up + ".num_batches_tracked", Kind: Buffer, DType: onnxload.Int64, Shape: []int64{}}))
		}
	}
	var order []ValueID
	var walk func(path string)
	walk = func(path string) {
		m := tree[path]
		for _, c := range m.children {
			walk(c)
		}
		order = append(append(order, m.params...), m.buffers...)
	}
	walk("")
	b.prog.State = order
}
