package eager

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// placeFolded gives the convolution that was emitted last its own place: its node has that of the batch norm which was folded into it.
// Its module is that of its weight. The line that called it is lost; what the norm's line reads is the name that its
// result has: out = self.bn1(out), where the line before was out = self.conv1(...). A line that calls both has both, self.bn1(self.conv1(x)).
func (b *recovery) placeFolded(n *onnxload.Node) {
	s := b.prog.sources
	norm, last := n.Stack, len(b.prog.Calls)-1
	weight := b.m.Values[b.in(n, 1)].Name
	k := strings.LastIndexByte(weight, '.')
	if s.modules(norm) == 0 || k < 0 || shallow(weight[:k]) != weight[:k] {
		return
	}
	path := weight[:k]
	c := &b.prog.Calls[last]
	b.called[path] = true
	own := b.scope(path)
	around := b.prog.commonScope(own, c.Scope)
	if own == c.Scope || around < 0 {
		return
	}
	if before := b.prog.commonScope(own, b.prog.Calls[max(last-1, 0)].Scope); last > 0 && b.prog.depth(before) > b.prog.depth(around) {
		// The norm is not of the module that the convolution is of, but what came before is: their lines are the same, as far as known.
		c.Scope, c.stack = own, b.nodes[b.prog.Calls[last-1].Node].Stack
		if moved := b.prog.Calls[last-1].stack; moved != 0 {
			c.stack = max(moved, 0)
		}
		if c.stack = s.at(c.stack, b.prog.depth(before)); c.stack == 0 {
			c.stack = -1
		}
		return
	}
	level := b.prog.depth(around)
	at := s.at(norm, level)
	c.Scope, c.stack = own, -1
	if at == 0 {
		return
	}
	within := func(path string) string {
		return strings.TrimPrefix(strings.TrimPrefix(path, b.prog.Scopes[around].Name), ".")
	}
	line := s.lines[at-1]
	i := line.names(within(b.places[b.at].Module))
	if i < 0 || line.names(within(path)) >= 0 { // a function of the program calls both, or the line does
		c.stack = at
		return
	}
	st := statement{kind: part, sites: []site{{within(path)}}}
	if reads := line.statements[i].reads; len(reads) > 0 {
		st.kind, st.targets = binding, reads[:1]
	}
	if last > 0 && len(st.targets) > 0 { // a function that began with the call before, bottleneck = self.bn_function(x), may go on
		before := &b.prog.Calls[last-1]
		stack := before.stack
		if stack == 0 {
			stack = b.nodes[before.Node].Stack
		}
		if f := s.at(stack, level); f > 0 && s.at(stack, level-1) == s.at(norm, level-1) && b.prog.commonScope(before.Scope, around) == around {
			if l := s.lines[f-1]; l.names(within(b.prog.Scopes[before.Scope].Name)) < 0 && len(l.statements) == 1 && len(l.statements[0].sites) > 0 && slices.Equal(l.statements[0].targets, st.targets) {
				c.stack = f
				return
			}
		}
	}
	c.stack = s.add(at, st)
}

// add puts a line that was lost before the line of a frame, in the same function.
func (s *sources) add(at int32, st statement) int32 {
	key := lostLine{at, st.sites[0].path}
	if id, ok := s.lost[key]; ok {
		return id
	}
	f := s.frames[at-1]
	s.frames = append(slices.Clip(s.frames), onnxload.Frame{Up: f.Up, Line: f.Line, File: f.File, Func: f.Func})
	s.lines = append(s.lines, &sourceLine{statements: []statement{st}})
	id := int32(len(s.frames))
	s.rep, s.level = append(s.rep, id), append(s.level, s.level[at-1])
	if s.lost == nil {
		s.lost = map[lostLine]int32{}
	}
	s.lost[key] = id
	return id
}

// A lostLine is that of the call of a module before another line.
type lostLine struct {
	before int32
	path   string
}
