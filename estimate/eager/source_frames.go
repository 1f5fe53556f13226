package eager

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// sources are the Python frames that the nodes of a graph were traced in, as far as the file has them. Exporters write the
// frames of functions called forward: those of modules, and of what they call by that name.
type sources struct {
	frames []onnxload.Frame
	lines  []*sourceLine // by frame: what its line says
	rep    []int32       // by stack less 1: the innermost frame at or around it that a module's call made; 0 for none
	level  []int32       // by stack less 1: how many modules' forwards are around it, its own included
	lost   map[lostLine]int32
}

// newSources reads the frames of a model, nil where it has none.
func newSources(frames []onnxload.Frame) *sources {
	if len(frames) == 0 {
		return nil
	}
	s := &sources{frames: frames, lines: make([]*sourceLine, len(frames)), rep: make([]int32, len(frames)), level: make([]int32, len(frames))}
	known := map[string]*sourceLine{}
	for i, f := range frames {
		line := known[f.Source]
		if line == nil {
			line = parseLine(f.Source)
			known[f.Source] = line
		}
		s.lines[i] = line
		up := f.Up - 1 // less than i
		switch {
		case strings.HasPrefix(f.File, "<"): // a graph's own code: it was traced once more
		case up < 0:
			s.rep[i], s.level[i] = int32(i)+1, 1
		case s.rep[up] == 0:
		case f.Func != "forward" || ownForward(frames[up].Source): // no module was called
			s.rep[i], s.level[i] = s.rep[up], s.level[up]
		default:
			s.rep[i], s.level[i] = int32(i)+1, s.level[up]+1
		}
	}
	return s
}

// ownForward reports whether a line calls a forward of the same object: that of its class's parent.
func ownForward(line string) bool {
	return strings.Contains(line, "super().forward(") || strings.Contains(line, "self.forward(") || strings.Contains(line, ".forward(self")
}

// modules returns how many modules' forwards are around a stack, 0 when that is unknown.
func (s *sources) modules(stack int32) int {
	if s == nil || stack <= 0 {
		return 0
	}
	return int(s.level[stack-1])
}

// at returns the frame that a stack has at a level: the line that the module of that depth was at, which says which
// lines those around it were at too. 0 is for a level that the stack does not have.
func (s *sources) at(stack int32, level int) int32 {
	if stack <= 0 || int(s.level[stack-1]) < level {
		return 0
	}
	for stack = s.rep[stack-1]; int(s.level[stack-1]) > level; stack = s.rep[stack-1] {
		stack = s.frames[stack-1].Up
	}
	return stack
}

// within returns a place without the modules that the stack has not: exporters take the call of an operator of which they know
// none for one of the module before it. A module whose forward is called by that name, layer.forward(x), has a frame and no place: its path is that of
// what it calls, without the last name.
func (s *sources) within(p Place, stack int32) Place {
	n := s.modules(stack)
	parts := strings.Count(p.Around, "/") + 1
	if n == 0 || p.Around == "" {
		return p
	}
	if n == parts+2 {
		return s.between(p, stack)
	}
	if n > parts {
		return p
	}
	around, module := 0, 0
	for part := range strings.SplitSeq(p.Around, "/") {
		if n--; n == 0 {
			break
		}
		around, module = around+len(part)+1, module+len(part)
	}
	if module > len(p.Module) {
		return p
	}
	p.Around, p.Module, p.Class = p.Around[:max(around-1, 0)], p.Module[:module], ""
	return p
}

// between returns a place with the module whose forward is called by that name.
func (s *sources) between(p Place, stack int32) Place {
	for f := s.rep[stack-1]; f > 0; f = s.rep[f-1] {
		up := s.frames[f-1].Up
		if up == 0 {
			break
		}
		if strings.Contains(s.frames[up-1].Source, ".forward(") {
			begin := 0
			for range s.level[f-1] - 2 {
				begin += strings.IndexByte(p.Around[begin:], '/') + 1
			}
			part, _, _ := strings.Cut(p.Around[begin:], "/")
			if k := strings.LastIndexByte(part, '.'); k > 0 {
				p.Around = p.Around[:begin+k] + "/" + p.Around[begin+k:]
			}
			break
		}
		f = up
	}
	return p
}

// stack returns the lines that make a call, 0 when unknown.
func (p *Program) stack(i int32) int32 {
	if c := &p.Calls[i]; c.stack != 0 {
		return max(c.stack, 0)
	} else {
		return p.Nodes[c.Node].Stack
	}
}

// traced reports whether the file says of most calls which lines made them.
func (p *Program) traced() bool {
	if p.sources == nil {
		return false
	}
	good := 0
	for i := range p.Calls {
		if p.sources.modules(p.stack(int32(i))) > 0 {
			good++
		}
	}
	return 4*good >= 3*len(p.Calls)
}

// path appends the frames of a stack by level, the outermost first, and 0 for each of n levels that it does not have.
func (s *sources) path(list []int32, stack int32, n int) []int32 {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	if stack <= 0 {
		return list
	}
	for stack = s.rep[stack-1]; stack > 0; stack = s.rep[stack-1] {
		if k := int(s.level[stack-1]); k <= n {
			list[k-1] = stack
		}
		if stack = s.frames[stack-1].Up; stack == 0 {
			break
		}
	}
	return list
}

// tracedSpans is scopeSpans where the lines are known: the same module called from another line, or from the same one
// once more, is another call of it.
func (p *Program) tracedSpans() spans {
	s := spans{inner: make([]int32, len(p.Calls))}
	type begin struct {
		line, child int32 // of the first call of a span: its line, and the module that it called, -1 for none
		left        bool  // it has been at something else since
	}
	var open []int32 // spans, the model's first
	var begun []begin
	var path []int32          // scopes around a call, the outermost first
	var lines, before []int32 // by level: of this call and of the one before
	for i := range p.Calls {
		path = path[:0]
		for k := p.Calls[i].Scope; k >= 0; k = p.Scopes[k].Parent {
			path = append(path, k)
		}
		slices.Reverse(path)
		lines, before = p.sources.path(before, p.stack(int32(i)), len(path)), lines
		at := func(d int) begin {
			f := begin{lines[d], -1, false}
			if d+1 < len(path) {
				f.child = path[d+1]
			}
			return f
		}
		same := 0
		for same < len(open) && same < len(path) && s.list[open[same]].scope == path[same] {
			if same > 0 {
				caller, last := lines[same-1], before[same-1]
				f, b := at(same), begun[same]
				if caller != 0 && last != 0 && caller != last || b.left && f.line != 0 && f.child >= 0 && f.line == b.line && f.child == b.child {
					break
				}
			}
			same++
		}
		open, begun = open[:same], begun[:same]
		for d := range open {
			f := at(d)
			begun[d].left = begun[d].left || f.line != 0 && (f.line != begun[d].line || f.child != begun[d].child)
		}
		for d := same; d < len(path); d++ {
			up := int32(-1)
			if len(open) > 0 {
				up = open[len(open)-1]
			}
			open, begun = append(open, int32(len(s.list))), append(begun, at(d))
			s.list = append(s.list, span{path[d], int32(i), int32(i), up})
		}
		for _, k := range open {
			s.list[k].last = int32(i)
		}
		s.inner[i] = -1
		if len(open) > 0 {
			s.inner[i] = open[len(open)-1]
		}
	}
	return s
}
