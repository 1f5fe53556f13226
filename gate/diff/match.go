package diff

import (
	"iter"
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
