package diff

import (
	"iter"
	"strconv"
	"strings"
	"unique"

	"github.com/memestimate/memestimate/estimate/recover/module"
)

// A pair is a layer of the base and the layer of the head that it became, as indices; -1
// stands for none.
type pair struct{ base, head int }

// What two layers that become each other are worth to the alignment. A structure without its name is worth
// more than a name without its structure, since names such as "features.7" and "/Relu_3" count layers: one
// that is inserted shifts the names of all after it.
const (
	worthBoth      = 6
	worthStructure = 4
	worthName      = 3
)

// maxCells bounds the table of one alignment: 4 bytes each.
const maxCells = 16 << 20

// match pairs the layers of two models, in the head's order, what was removed where it was.
//
// Layers are aligned in execution order as two texts are, by the alignment of the largest worth. What that leaves
// over, since it moved, is matched by name, and then by structure where that is unique.
func match(base, head []module.Layer) iter.Seq[pair] {
	m := &matcher{base: base, head: head, to: make([]int, len(base)), from: make([]int, len(head))}
	for i := range m.to {
		m.to[i] = -1
	}
	for j := range m.from {
		m.from[j] = -1
	}
	m.kb, m.kh = keys(base), keys(head)
	m.align(0, len(base), 0, len(head))
	moved(m, func(k *key) [2]unique.Handle[string] { return [2]unique.Handle[string]{k.name, k.op} })
	moved(m, func(k *key) unique.Handle[string] { return k.structure })
	m.kb, m.kh = nil, nil // the pairs need them no more
	return m.pairs
}

// A matcher holds the state of one match.
type matcher struct {
	base, head []module.Layer
	kb, kh     []key
	to         []int // by base layer: its head layer, or -1
	from       []int // by head layer: its base layer, or -1
}

func (m *matcher) join(i, j int) { m.to[i], m.from[j] = j, i }

// worth says what it is worth that base layer i becomes head layer j.
func (m *matcher) worth(i, j int) int32 {
	a, b := &m.kb[i], &m.kh[j]
	if a.op != b.op {
		return 0
	}
	name, structure := a.sameName(b), a.structure == b.structure
	switch {
	case name && structure:
		return worthBoth
	case structure:
		return worthStructure
	case name:
		return worthName
	}
	return 0
}

// align pairs base[b0:b1] with head[h0:h1]. Equal ends cost nothing; a middle too large for a table is left to what
// names and structures tell.
func (m *matcher) align(b0, b1, h0, h1 int) {
	for b0 < b1 && h0 < h1 && m.worth(b0, h0) == worthBoth {
		m.join(b0, h0)
		b0, h0 = b0+1, h0+1
	}
	for b0 < b1 && h0 < h1 && m.worth(b1-1, h1-1) == worthBoth {
		b1, h1 = b1-1, h1-1
		m.join(b1, h1)
	}
	if b0 == b1 || h0 == h1 {
		return
	}
	if int64(b1-b0)*int64(h1-h0) <= maxCells {
		m.table(b0, b1, h0, h1)
	}
}

// table aligns by dynamic programming: best[i][j] is the worth of the best alignment of
// what is left from i and j on.
func (m *matcher) table(b0, b1, h0, h1 int) {
	n, w := b1-b0, h1-h0+1
	best := make([]int32, (n+1)*w)
	for i := n - 1; i >= 0; i-- {
		for j := w - 2; j >= 0; j-- {
			v := max(best[(i+1)*w+j], best[i*w+j+1])
			if x := m.worth(b0+i, h0+j); x > 0 {
				v = max(v, x+best[(i+1)*w+j+1])
			}
			best[i*w+j] = v
		}
	}
	for i, j := 0, 0; i < n && j < w-1; {
		here := best[i*w+j]
		x := m.worth(b0+i, h0+j)
		switch {
		case x > 0 && here == x+best[(i+1)*w+j+1]:
			m.join(b0+i, h0+j)
			i, j = i+1, j+1
		case here == best[i*w+j+1]:
			j++
		default:
			i++
		}
	}
}

// moved pairs what is left over by a property that one layer on each side has. What the shorter side has is counted:
// the longer one may have a hundred thousand others.
func moved[K comparable](m *matcher, of func(*key) K) {
	type place struct{ last, n [2]int32 } // of the base and of the head
	sides := [2]struct {
		keys []key
		to   []int
	}{{m.kb, m.to}, {m.kh, m.from}}
	shorter := 0
	if len(m.kh) < len(m.kb) {
		shorter = 1
	}
	left := map[K]place{}
	for _, side := range []int{shorter, 1 - shorter} {
		for i, to := range sides[side].to {
			if to >= 0 {
				continue
			}
			k := of(&sides[side].keys[i])
			p, ok := left[k]
			if !ok && side != shorter {
				continue
			}
			p.last[side] = int32(i)
			p.n[side]++
			left[k] = p
		}
	}
	for _, p := range left {
		if p.n == [2]int32{1, 1} {
			m.join(int(p.last[0]), int(p.last[1]))
		}
	}
}

// pairs ranges over the match in the head's order; a removed layer comes after the layer that it
// followed.
func (m *matcher) pairs(yield func(pair) bool) {
	i := 0
	removed := func(to int) bool {
		for ; i < to; i++ {
			if m.to[i] < 0 && !yield(pair{i, -1}) {
				return false
			}
		}
		return true
	}
	for j, b := range m.from {
		if b >= i {
			if !removed(b) {
				return
			}
			i = b + 1
		}
		if !yield(pair{b, j}) {
			return
		}
	}
	removed(len(m.base))
}

// A key is what a layer is matched by. Its texts are handles, so that comparing two keys takes no longer for long
// names.
type key struct {
	name, op  unique.Handle[string]
	module    unique.Handle[string] // of "" where there is none
	nth       int32                 // among the module's layers with this operator
	structure unique.Handle[string] // see structure
}

// none is the module of layers that have none.
var none = unique.Make("")

// keys returns the keys of the layers of a model.
func keys(layers []module.Layer) []key {
	out := make([]key, len(layers))
	type call struct{ module, op unique.Handle[string] }
	seen := map[call]int32{}
	for i := range layers {
		l := &layers[i]
		k := key{name: unique.Make(nameOf(l)), op: unique.Make(l.Op), module: unique.Make(l.Module),
			structure: unique.Make(structure(l))}
		c := call{k.module, k.op}
		k.nth = seen[c]
		seen[c]++
		out[i] = k
	}
	return out
}

// nameOf returns a layer's name to the byte.
func nameOf(l *module.Layer) string {
	if l.NameBytes != nil {
		return string(*l.NameBytes)
	}
	return l.Name
}

// sameName reports whether two layers of the same operator have one name: their own, or, since exporters
// number the nodes of a whole graph, that of their module and their turn in it.
func (k *key) sameName(o *key) bool {
	return k.name == o.name || k.module != none && k.module == o.module && k.nth == o.nth
}

// sameName reports whether nobody would call two layers renamed: the name that is shown, which is the
// module's where there is one, stays.
func sameName(a, b *module.Layer) bool {
	if a.Module != "" && a.Module == b.Module && !strings.HasPrefix(a.Name, "/") {
		return true
	}
	return nameOf(a) == nameOf(b)
}

// structure writes all of a layer that takes memory: its operator, its outputs and its parameters.
func structure(l *module.Layer) string {
	b := append(make([]byte, 0, 64), l.Op...)
	b = append(b, 0)
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ' ') }
	number(l.Params)
	number(l.ParamBytes)
	number(l.Activation)
	b = strconv.AppendBool(b, l.InPlace)
	for _, t := range l.Outputs {
		b = append(b, ' ')
		b = append(b, t.DType...)
		if t.Shape == nil {
			b = append(b, '?')
			continue
		}
		b = append(b, '[')
		for _, n := range t.Shape {
			number(n)
		}
	}
	return string(b)
}
