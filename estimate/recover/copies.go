package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// copied reports whether a turned tensor is copied at once, x.permute(0, 2, 1).contiguous(), where that is known: the
// file has the copies, or the line of the call, whose name torch.export gives its result, has all of it.
func (b *recovery) copied(n *onnxload.Node) (copied, known bool) {
	out := n.Output(0)
	if b.cloned[out] || b.clones {
		return b.cloned[out], true
	}
	name, _, _ := strings.Cut(b.m.NameOf(out), "_")
	if n.Stack <= 0 || name != "permute" && name != "transpose" {
		return false, false
	}
	line, calls := b.prog.Sources.Lines[n.Stack-1], strings.Count(b.prog.Sources.Frames[n.Stack-1].Source, name+"(")
	with := 0
	for _, called := range line.Copied {
		if called == name {
			with++
		}
	}
	switch {
	case calls == 0:
		return false, false
	case with == calls:
		return true, true
	}
	return false, with == 0 && !line.Open
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
	if b.looked[b.in(r, 0)] {
		return true
	}
	g, _ := b.producer(b.in(r, 0))
	if g == nil || g.Op != "Gather" && g.Op != "GatherND" {
		return false
	}
	d := b.dims(b.in(g, 1)) // one row of places, which GatherND has in a column
	return len(d) == 1 || g.Op == "GatherND" && len(d) == 2 && d[1] == 1
}

// isMapOfTokens recognises tokens that become a picture for a convolution, x.reshape(B, H, W, C).permute(0, 3, 1,
// 2).contiguous(), as vision transformers with stages write it; the exporters drop the copy. A head may flatten the
// picture of each stage again (SegformerStage and SegformerLinearProjection in transformers).
func (b *recovery) isMapOfTokens(n *onnxload.Node, perm []int) bool {
	if !slices.Equal(perm, []int{0, 3, 1, 2}) {
		return false
	}
	r, _ := b.producer(b.in(n, 0))
	if r == nil || r.Op != "Reshape" || len(b.dims(b.in(r, 0))) != 3 {
		return false
	}
	used := false
	for _, u := range b.usesOf(b.id(n.Output(0))) {
		switch b.nodes[u].Op {
		case "Conv", "Reshape":
			used = true
		case "Shape":
		default:
			return false
		}
	}
	return used
}

// isClipOfTokens recognises tokens that become a clip of video for a convolution or a pool, x.transpose(2,
// 3).reshape(B * N, C, T, H, W).contiguous(), as multiscale vision transformers write it (Pool in
// torchvision/models/video/mvit.py; attention_pool of PyTorchVideo copies too). The TorchScript exporter drops the
// copy; torch.export's graph has it: see findClones.
func (b *recovery) isClipOfTokens(n *onnxload.Node) bool {
	o := b.id(n.Output(0))
	t, _ := b.producer(b.in(n, 0))
	if t == nil || t.Op != "Transpose" || !slices.Equal(attrInts(t, "perm"), []int64{0, 1, 3, 2}) ||
		len(b.dims(o)) != 5 || len(b.usesOf(o)) == 0 {
		return false
	}
	for _, u := range b.usesOf(o) {
		if op := b.nodes[u].Op; op != "Conv" && op != "MaxPool" && op != "AveragePool" {
			return false
		}
	}
	return true
}
