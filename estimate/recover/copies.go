package recover

import (
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// copied reports whether a turned tensor is copied at once, x.permute(0, 2, 1).contiguous(): the file has the copies, or
// the line of the call, whose name torch.export gives its result, says so of each such call that it has.
func (b *recovery) copied(n *onnxload.Node) bool {
	out := n.Output(0)
	if b.cloned[out] || b.clones {
		return b.cloned[out]
	}
	name, _, _ := strings.Cut(b.m.NameOf(out), "_")
	if n.Stack <= 0 || name != "permute" && name != "transpose" {
		return false
	}
	line := &b.prog.Lines[n.Stack-1]
	calls := strings.Count(line.Source, name+"(")
	with := 0
	for _, called := range line.Says.Copied {
		if called == name {
			with++
		}
	}
	return calls > 0 && with == calls
}
