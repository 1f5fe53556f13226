package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// copied reports whether a turned tensor is copied at once, x.permute(0, 2, 1).contiguous(), where that is known: the
// file has the copies, or the line of the call, whose name torch.export gives its result, says so of each such call that
// it has.
func (b *recovery) copied(n *onnxload.Node) (copied, known bool) {
	out := n.Output(0)
	if b.cloned[out] || b.clones {
		return b.cloned[out], true
	}
	name, _, _ := strings.Cut(b.m.NameOf(out), "_")
	if n.Stack <= 0 || name != "permute" && name != "transpose" {
		return false, false
	}
	line := &b.prog.Lines[n.Stack-1]
	calls := strings.Count(line.Source, name+"(")
	with := 0
	for _, called := range line.Says.Copied {
		if called == name {
			with++
		}
	}
	return calls > 0 && with == calls, calls > 0 && (with == calls || with == 0)
}

// isBiasTable recognises the end of table[index].view(N, N, heads).permute(2, 0, 1).contiguous(), by which window
// attention looks its relative position bias up; the exporters drop the copy.
func (b *recovery) isBiasTable(n *onnxload.Node, perm []int) bool {
	if !slices.Equal(perm, []int{2, 0, 1}) {
		return false
	}
	r, _ := b.producer(b.in(n, 0))
	if r == nil || r.Op != "Reshape" {
		return false
	}
	g, _ := b.producer(b.in(r, 0))
	if g == nil || g.Op != "Gather" && g.Op != "GatherND" {
		return false
	}
	d := b.dims(b.in(g, 1)) // one row of places, which GatherND has in a column
	return len(d) == 1 || g.Op == "GatherND" && len(d) == 2 && d[1] == 1
}
