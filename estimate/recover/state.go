package recover

import (
	"maps"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// orderState puts parameters and buffers in the order in which Module._apply moves them:
// a module's children first, in the order in which they were registered, then its
// parameters, then its buffers. Exporters list parameters in that order of modules.
// Module.parameters, which an optimizer is made of, has a module's own before those of its children.
// Each batch norm has a counter of batches, an int64 that no export keeps.
func (b *recovery) orderState() {
	for i := range b.m.Values { // parameters that no call reads still move
		if id := onnxload.ValueID(i); b.ofModule(id) && b.of[i] == program.NoValue {
			b.value(id)
		}
	}
	// Values that the graph does not have, restored ones, stay at the end of their modules.
	ids := make([]int32, len(b.prog.Values))
	for v := range ids {
		ids[v] = int32(len(b.of))
	}
	for i, v := range b.of {
		if v != program.NoValue {
			ids[v] = min(ids[v], int32(i))
		}
	}
	state := slices.Clone(b.prog.State)
	slices.SortStableFunc(state, func(x, y program.ValueID) int { return int(ids[x] - ids[y]) })
	tables := b.tiedTables()
	state = b.placed(state, tables)
	t, moved, home := b.byModule(state, tables)
	t.walk(0)
	b.prog.State = arranged(moved, 2*len(t.modules), func(i int) int32 {
		k := 2 * t.modules[home[i]].moves
		if b.prog.Values[moved[i]].Kind != program.Parameter {
			k++
		}
		return k
	})
	b.prog.Params = arranged(moved, len(t.modules), func(i int) int32 {
		if b.prog.Values[moved[i]].Kind != program.Parameter {
			return -1
		}
		return t.modules[home[i]].named
	})
}

// byModule returns the tree of modules that own parameters and buffers, these with the counters of batches that norms
// have and exporters leave out, and the module of each.
func (b *recovery) byModule(state []program.ValueID, tables tied) (t moduleTree, moved []program.ValueID, home []int32) {
	t = moduleTree{at: make(map[string]int32, len(state)/2), modules: make([]treeModule, 1, len(state)/2+1)}
	moved, home = make([]program.ValueID, 0, len(state)), make([]int32, 0, len(state))
	last := "\x00"                      // the module of the value before
	counted := make([]bool, len(state)) // running variances of norms that count their batches
	for _, i := range module.BatchCounters(b.m.Producer, len(state), func(i int) (string, bool) {
		return b.prog.Values[state[i]].Name, b.prog.Values[state[i]].Kind == program.Buffer
	}) {
		counted[i] = true
	}
	for i, v := range state {
		up, name := "", b.prog.Values[v].Name
		if i := strings.LastIndexByte(name, '.'); i >= 0 && !strings.ContainsAny(name, ":/") {
			up = shallow(name[:i])
		}
		if path, ok := tables.module[v]; ok {
			up = shallow(path)
		}
		m := int32(0)
		if up == last {
			m = home[len(home)-1]
		} else {
			m = t.enter(up)
		}
		last = up
		moved, home = append(moved, v), append(home, m)
		if counted[i] {
			counter := b.add(program.Value{Name: up + ".num_batches_tracked", Kind: program.Buffer, DType: program.Int64,
				Shape: []int64{}})
			moved, home = append(moved, counter), append(home, m)
		}
	}
	return t, moved, home
}

// tied are tables of embeddings whose weight has another module's name.
type tied struct {
	module map[program.ValueID]string          // the path of the embedding
	before map[program.ValueID]program.ValueID // the next parameter that a call reads
}

// tiedTables returns the weights that an nn.Embedding shares with a layer behind it, as most language models do: an
// export has one name for both, as a rule the last layer's. Module._apply and Module.named_parameters take a shared
// parameter where they meet it first, at the embedding. An nn.Embedding is a module with that one call.
func (b *recovery) tiedTables() tied {
	t := tied{map[program.ValueID]string{}, map[program.ValueID]program.ValueID{}}
	calls := make([]int, len(b.prog.Scopes))
	for i := range b.prog.Calls {
		calls[b.prog.Calls[i].Scope]++
	}
	read := make([]bool, len(b.prog.Values))
	var waiting []program.ValueID
	for i := range b.prog.Calls {
		c := &b.prog.Calls[i]
		if w := c.In; program.Of(c.Op).Is(program.Table) && calls[c.Scope] == 1 && !read[w[0]] && b.elsewhere(w[0], c.Scope) {
			t.module[w[0]] = b.prog.Scopes[c.Scope].Name
			waiting = append(waiting, w[0])
		}
		for _, v := range c.In {
			if v == program.NoValue || b.prog.Values[v].Kind != program.Parameter {
				continue
			}
			read[v] = true
			if t.module[v] != "" {
				continue
			}
			for _, w := range waiting {
				t.before[w] = v
			}
			waiting = waiting[:0]
		}
	}
	return t
}

// elsewhere reports whether a parameter has the name of another module than the one that reads it.
func (b *recovery) elsewhere(v program.ValueID, scope int32) bool {
	path := b.prog.Scopes[scope].Name
	return b.prog.Values[v].Kind == program.Parameter && path != "" && !strings.HasPrefix(b.prog.Values[v].Name, path+".")
}

// placed returns parameters and buffers with each tied table where its module is: before the module beside it that runs
// next.
func (b *recovery) placed(state []program.ValueID, t tied) []program.ValueID {
	list := slices.DeleteFunc(slices.Clone(state), func(v program.ValueID) bool { _, moves := t.before[v]; return moves })
	for _, w := range slices.Backward(slices.Sorted(maps.Keys(t.before))) {
		next := b.prog.Values[t.before[w]].Name
		same := 0 // how much of the two paths is one
		for i := 0; i < min(len(next), len(t.module[w])) && next[i] == t.module[w][i]; i++ {
			if next[i] == '.' {
				same = i + 1
			}
		}
		beside := next
		if i := strings.IndexByte(next[same:], '.'); i >= 0 {
			beside = next[:same+i+1]
		}
		at := slices.IndexFunc(list, func(v program.ValueID) bool { return strings.HasPrefix(b.prog.Values[v].Name, beside) })
		list = slices.Insert(list, at, w)
	}
	return list
}

// arranged returns the values by the places, of n, that place gives the i-th; those of one place stay in their order,
// and those without a place, -1, are left out.
func arranged(values []program.ValueID, n int, place func(i int) int32) []program.ValueID {
	from := make([]int32, n+1)
	for i := range values {
		if k := place(i); k >= 0 {
			from[k+1]++
		}
	}
	for k := 1; k < len(from); k++ {
		from[k] += from[k-1]
	}
	order := make([]program.ValueID, from[n])
	for i, v := range values {
		if k := place(i); k >= 0 {
			order[from[k]] = v
			from[k]++
		}
	}
	return order
}

// A moduleTree is the tree of modules that have parameters and buffers, the first module its root.
type moduleTree struct {
	at      map[string]int32 // by path
	modules []treeModule
	moved   int32
	named   int32
}

type treeModule struct {
	first, last, next int32 // its first child and its last, and its parent's next; 0 for none
	moves             int32 // how many come before it in the order in which they move: its children do
	named             int32 // how many come before it in the order of Module.named_modules: its parents do
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
	t.modules[m].named = t.named
	t.named++
	for c := t.modules[m].first; c > 0; c = t.modules[c].next {
		t.walk(c)
	}
	t.modules[m].moves = t.moved
	t.moved++
}
