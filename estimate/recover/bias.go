package recover

import (
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// isBiasOfHeads reports whether a constant without a module's name has a matrix over the places of a window for every
// head that is added to what a softmax then takes, at once or with a mask: what folding left of table[index].view(N,
// N, heads).permute(2, 0, 1), by which window attention looks its relative position bias up. The table is trained;
// what positions alone give is alike for all heads.
func (b *recovery) isBiasOfHeads(id onnxload.ValueID) bool {
	if b.m.Values[id].Init == nil || b.src.Kinds[id] == program.Parameter || b.elem(id) != program.Float32 ||
		strings.Contains(b.m.NameOf(id), ".") {
		return false
	}
	d := b.m.Values[id].Init.Dims
	last := len(d) - 1
	if last == 1 {
		return b.isLookedUp(id, d[0], d[1])
	}
	if last < 2 || last > 3 || d[last] != d[last-1] || d[last-2] < 2 || last == 3 && d[0] != 1 || side(d[last]) == 0 {
		return false
	}
	for _, u := range b.usesOf(id) {
		n := b.nodes[u]
		if n.Op != "Add" || n.Output(0) == onnxload.NoValue {
			return false
		}
		if soft, _ := b.user(n.Output(0), "Softmax"); soft != nil {
			continue
		}
		for _, w := range b.usesOf(b.id(n.Output(0))) { // with a mask
			if sum := b.nodes[w]; sum.Op != "Add" {
				return false
			} else if soft, _ := b.user(sum.Output(0), "Softmax"); soft == nil {
				return false
			}
		}
	}
	return len(b.usesOf(id)) > 0
}

// isLookedUp is isBiasOfHeads for what folding left of table[index] alone: a row of all heads for each pair of places.
func (b *recovery) isLookedUp(id onnxload.ValueID, pairs, heads int64) bool {
	places := int64(math.Sqrt(float64(pairs)))
	if places*places != pairs || side(places) == 0 || heads < 2 {
		return false
	}
	for _, u := range b.usesOf(id) {
		r := b.nodes[u]
		if r.Op != "Reshape" || !b.sized(r.Output(0)) || !slices.Equal(b.dims(r.Output(0)), []int64{places, places, heads}) {
			return false
		}
		if t, _ := b.user(r.Output(0), "Transpose"); t == nil || !slices.Equal(attrInts(t, "perm"), []int64{2, 0, 1}) {
			return false
		}
	}
	return len(b.usesOf(id)) > 0
}

// side returns the side of a square window of so many places, 0 when it is none.
func side(places int64) int64 {
	const widest = 1 << 8
	if w := int64(math.Sqrt(float64(places))); w > 1 && w <= widest && w*w == places {
		return w
	}
	return 0
}

// lookUpBias emits the look-up that a bias of heads was folded from, of a table of (2w-1)^2 rows, once for each
// reader: those of several modules are merged where their tables begin alike.
func (b *recovery) lookUpBias(id onnxload.ValueID) program.ValueID {
	d, f := b.m.Values[id].Init.Dims, program.Float32
	heads, places := d[len(d)-1], int64(0)
	if len(d) == 2 {
		places = int64(math.Sqrt(float64(d[0])))
	} else {
		heads, places = d[len(d)-3], d[len(d)-1]
	}
	rows := 2*side(places) - 1
	state := func(name string, kind program.ValueKind, t program.DType, shape ...int64) program.ValueID {
		v := b.add(program.Value{Name: b.places[b.at].Module + ".restored_" + name, Kind: kind, DType: t, Shape: shape})
		b.prog.State = append(b.prog.State, v)
		return v
	}
	v := b.temp("index", program.Args{Shape: []int64{places * places, heads}}, f, []int64{places * places, heads},
		state("table", program.Parameter, f, rows*rows, heads), state("index", program.Buffer, program.Int64, places*places))
	if len(d) == 2 {
		return v
	}
	turned := []int64{heads, places, places}
	v = b.temp("reshape", program.Args{Shape: []int64{places, places, heads}}, f, []int64{places, places, heads}, v)
	v = b.temp("permute", program.Args{Dims: []int{2, 0, 1}}, f, turned, v)
	v = b.temp("contiguous", program.Args{}, f, turned, v)
	if len(d) == 4 {
		v = b.temp("reshape", program.Args{Shape: d}, f, d, v)
	}
	return v
}
