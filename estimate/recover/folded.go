package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/recover/pysource"
	"github.com/memestimate/memestimate/onnxload"
)

// placeFolded gives the convolution that was emitted last its own place: its node has that of the batch norm which
// was folded into it. Its module is that of its weight. The line that called it is lost; what the norm's line reads
// is the name that its result has: out = self.bn1(out), where the line before was out = self.conv1(...). A line that
// calls both has both, self.bn1(self.conv1(x)).
func (b *recovery) placeFolded(n *onnxload.Node) {
	s := b.prog.Sources
	norm, last := n.Stack, len(b.prog.Calls)-1
	weight := b.m.NameOf(b.in(n, 1))
	k := strings.LastIndexByte(weight, '.')
	if s.Modules(norm) == 0 || k < 0 || shallow(weight[:k]) != weight[:k] {
		return
	}
	path := weight[:k]
	c := &b.prog.Calls[last]
	b.called[path] = true
	own := b.scope(path)
	around := b.prog.CommonScope(own, c.Scope)
	if own == c.Scope || around < 0 {
		return
	}
	if before := b.prog.CommonScope(own, b.prog.Calls[max(last-1, 0)].Scope); last > 0 &&
		b.prog.Depth(before) > b.prog.Depth(around) {
		// The norm is not of the module that the convolution is of, but what came before is: their lines are the
		// same, as far as known.
		c.Scope, c.Stack = own, s.At(b.prog.Calls[last-1].Stack, b.prog.Depth(before))
		return
	}
	level := b.prog.Depth(around)
	at := s.At(norm, level)
	c.Scope, c.Stack = own, 0
	if at == 0 {
		return
	}
	within := func(path string) string {
		return strings.TrimPrefix(strings.TrimPrefix(path, b.prog.Scopes[around].Name), ".")
	}
	line := s.Lines[at-1]
	i := line.Names(within(b.places[b.at].Module))
	if i < 0 || line.Names(within(path)) >= 0 { // a function of the program calls both, or the line does
		c.Stack = at
		return
	}
	st := pysource.Statement{Kind: pysource.Part, Sites: []pysource.Site{{Path: within(path)}}}
	if reads := line.Statements[i].Reads; len(reads) > 0 {
		st.Kind, st.Targets = pysource.Binding, reads[:1]
	}
	// a function that began with the call before, bottleneck = self.bn_function(x), may go on
	if last > 0 && len(st.Targets) > 0 {
		before := &b.prog.Calls[last-1]
		if f := s.At(before.Stack, level); f > 0 && s.At(before.Stack, level-1) == s.At(norm, level-1) &&
			b.prog.CommonScope(before.Scope, around) == around {
			if l := s.Lines[f-1]; l.Names(within(b.prog.Scopes[before.Scope].Name)) < 0 && len(l.Statements) == 1 &&
				len(l.Statements[0].Sites) > 0 && slices.Equal(l.Statements[0].Targets, st.Targets) {
				c.Stack = f
				return
			}
		}
	}
	c.Stack = s.Add(at, st)
}
