package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// placeFolded gives the convolution that was emitted last its own module, that of its weight: its node has the place of
// the batch norm which was folded into it. The line that called it is lost; what the norm's line reads is the name that
// its result has: out = self.bn1(out), where the line before was out = self.conv1(...). A line that calls both has both,
// self.bn1(self.conv1(x)).
func (b *recovery) placeFolded(weight string) {
	c := &b.prog.Calls[len(b.prog.Calls)-1]
	k := strings.LastIndexByte(weight, '.')
	if b.prog.Lines.Modules(c.Stack) == 0 || k < 0 || shallow(weight[:k]) != weight[:k] {
		return
	}
	b.called[weight[:k]] = true
	own := b.scope(weight[:k])
	around := b.prog.CommonScope(own, c.Scope)
	if own == c.Scope || around < 0 {
		return
	}
	norm := b.prog.Scopes[c.Scope].Name
	at := b.prog.Lines.At(c.Stack, b.prog.Depth(around))
	if c.Scope, c.Stack = own, at; at == 0 {
		return
	}
	within := func(path string) string {
		return strings.TrimPrefix(strings.TrimPrefix(path, b.prog.Scopes[around].Name), ".")
	}
	conv, says := within(weight[:k]), b.prog.Lines[at-1].Says
	if says.CallsModule(conv) || !says.CallsModule(within(norm)) || len(says.Reads) == 0 {
		return // the line calls both, or a function that does
	}
	if last := len(b.prog.Calls) - 2; last >= 0 { // a function that began with the call before, x = self.f(x), goes on
		f := b.prog.Lines.At(b.prog.Calls[last].Stack, b.prog.Depth(around))
		if f > 0 && b.prog.Lines[f-1].Up == b.prog.Lines[at-1].Up && slices.Equal(b.prog.Lines[f-1].Says.Targets, says.Reads[:1]) &&
			!b.prog.Lines[f-1].Says.CallsModule(within(b.prog.Scopes[b.prog.Calls[last].Scope].Name)) {
			c.Stack = f
			return
		}
	}
	key := lostLine{at, conv}
	if b.lostLines[key] == 0 {
		before := b.prog.Lines[at-1]
		before.Says = &program.Statement{Kind: program.Binding, Targets: says.Reads[:1], Calls: []string{conv}}
		b.prog.Lines = append(b.prog.Lines, before)
		n := int32(len(b.prog.Lines))
		b.prog.Lines[n-1].Forward = n
		b.lostLines[key] = n
	}
	c.Stack = b.lostLines[key]
}

// A lostLine is that of the call of a module before another line.
type lostLine struct {
	before int32
	path   string
}
