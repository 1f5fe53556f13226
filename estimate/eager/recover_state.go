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
	// Values that the graph does not have, restored ones, stay at the end of their modules.
	ids := make([]int32, len(b.prog.Values))
	for v := range ids {
		ids[v] = int32(len(b.of))
	}
	for i, v := range b.of {
		if v >= 0 {
			ids[v] = min(ids[v], int32(i))
		}
	}
	state := slices.Clone(b.prog.State)
	slices.SortStableFunc(state, func(x, y ValueID) int { return int(ids[x] - ids[y]) })
	t := moduleTree{at: make(map[string]int32, len(state)/2), modules: make([]treeModule, 1, len(state)/2+1)}
	moved, home := make([]ValueID, 0, len(state)), make([]int32, 0, len(state)) // and the module of each
	last := "\x00"                                                              // the module of the value before
	for _, v := range state {
		kind, up, name := b.prog.Values[v].Kind, "", b.prog.Values[v].Name
		if i := strings.LastIndexByte(name, '.'); i >= 0 && !strings.ContainsAny(name, ":/") {
			up = shallow(name[:i])
		}
		m := int32(0)
		if up == last {
			m = home[len(home)-1]
		} else {
			m = t.enter(up)
		}
		last = up
		moved, home = append(moved, v), append(home, m)
		if kind == Buffer && strings.HasSuffix(name, "running_var") && b.m.Producer == "pytorch" {
			counter := b.add(Value{Name: up + ".num_batches_tracked", Kind: Buffer, DType: onnxload.Int64, Shape: []int64{}})
			moved, home = append(moved, counter), append(home, m)
		}
	}
	// What a module moves comes after what its children do: its parameters, then its buffers.
	t.walk(0)
	from := make([]int32, 2*len(t.modules)+1)
	place := func(i int) int32 {
		k := 2 * t.modules[home[i]].rank
		if b.prog.Values[moved[i]].Kind != Parameter {
			k++
		}
		return k
	}
	for i := range moved {
		from[place(i)+1]++
	}
	for k := 1; k < len(from); k++ {
		from[k] += from[k-1]
	}
	order := make([]ValueID, len(moved))
	for i, v := range moved {
		k := place(i)
		order[from[k]] = v
		from[k]++
	}
	b.prog.State = order
}

// A moduleTree is the tree of modules that have parameters and buffers, the first module its root.
type moduleTree struct {
	at      map[string]int32 // by path
	modules []treeModule
	ranked  int32
}

type treeModule struct {
	first, last, next int32 // its first child and its last, and its parent's next; 0 for none
	rank              int32 // how many come before it in the order in which they move
}

// enter returns the module with this path, which is put into the tree with those that it is in.
func (t *moduleTree) enter(path string) int32 {
	if path == "" {
		return 0
	}
	if m, ok := t.at[path]; ok {
		return m
	}
	m := int32(len(t.modules))
	t.modules = append(t.modules, treeModule{})
	t.at[path] = m
	up := int32(0)
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		up = t.enter(path[:i])
	}
	if last := t.modules[up].last; last > 0 {
		t.modules[last].next = m
	} else {
		t.modules[up].first = m
	}
	t.modules[up].last = m
	return m
}

// walk ranks a module and those in it; paths bound how deep they nest.
func (t *moduleTree) walk(m int32) {
	for c := t.modules[m].first; c > 0; c = t.modules[c].next {
		t.walk(c)
	}
	t.modules[m].rank = t.ranked
	t.ranked++
}
