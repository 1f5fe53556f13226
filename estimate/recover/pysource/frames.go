// Package pysource reads the lines of Python that an export keeps of the program it was traced from: which statements
// they are, what these bind, read and call, and which modules' forwards they are in.
package pysource

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Frame is a place in a program's source that calls were traced at.
type Frame struct {
	Up     int32  // the number of the calling frame, less than this one's, counted from 1; 0 for the outermost
	Line   int32  // of File, from 1 on
	File   string // "/lib/resnet.py"
	Func   string // "forward"
	Source string // that line, without the blanks around it; "" where Python could not read it
}

// Sources are the Python frames that the nodes of a graph were traced in, as far as the file has them. Exporters write
// the frames of functions called forward: those of modules, and of what they call by that name.
type Sources struct {
	Frames  []Frame
	Lines   []*Line // by frame: what its line says
	Forward []int32 // by stack less 1: the innermost frame at or around it that a module's call made; 0 for none
	Level   []int32 // by stack less 1: how many modules' forwards are around it, its own included
	Wrapped []Wrap  // by stack less 1: the outermost line around it that has autograd run its calls in another way
	lost    map[lostLine]int32
	alone   map[Frame]bool // functions, as they were called, that return None beside one value; see function

	arguments map[string]bool // see ofArguments
	asked     map[string]bool // see asksFirst
}

// New reads the frames of a model, nil where it has none.
func New(frames []Frame) *Sources {
	if len(frames) == 0 {
		return nil
	}
	s := &Sources{Frames: frames, Lines: make([]*Line, len(frames)), Forward: make([]int32, len(frames)),
		Level: make([]int32, len(frames)), Wrapped: make([]Wrap, len(frames)), arguments: ofArguments(frames),
		asked: asksFirst(frames), alone: map[Frame]bool{}}
	known := map[string]*Line{}
	for i, f := range frames {
		line := known[f.Source]
		if line == nil {
			line = parseLine(f.Source)
			known[f.Source] = line
		}
		s.Lines[i] = line
		if slices.ContainsFunc(line.Statements, func(st Statement) bool { return st.Alone }) {
			s.alone[f.function()] = true
		}
		up := f.Up - 1 // less than i
		s.Wrapped[i] = wrapOf(s, i)
		switch {
		case strings.HasPrefix(f.File, "<"): // a graph's own code: it was traced once more
		case up < 0:
			s.Forward[i], s.Level[i] = int32(i)+1, 1
		case s.Forward[up] == 0:
		// no module was called
		case f.Func != "forward" || ownForward(frames[up].Source) || ofFunction(f, frames[up].Source):
			s.Forward[i], s.Level[i] = s.Forward[up], s.Level[up]
		default:
			s.Forward[i], s.Level[i] = int32(i)+1, s.Level[up]+1
		}
	}
	return s
}

// function is a frame without its line: a function, as another line called it.
func (f Frame) function() Frame { return Frame{Up: f.Up, File: f.File, Func: f.Func} }

// ReturnsAlone reports whether the function that a stack is in returns None beside one value: return x, None.
func (s *Sources) ReturnsAlone(stack int32) bool {
	return stack > 0 && s.alone[s.Frames[stack-1].function()]
}

// castsBack is how a norm that computes in float32 returns the type that it was given: GroupNorm32 of
// improved-diffusion, and of all that was made of it. A model that is exported in float32 has no such cast.
var castsBack = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^return super\(\)\.forward\((\w+)\.float\(\)\)\.(?:type|to)\((\w+)\.dtype\)$|` +
		`^return super\(\)\.forward\((\w+)\.float\(\)\)\.type_as\((\w+)\)$`)
})

// CastsBack reports whether the module that a stack is in has a norm compute in float32 and returns the type of its
// argument: return super().forward(x.float()).type(x.dtype).
func (s *Sources) CastsBack(stack int32) bool {
	if s == nil || stack <= 0 || s.Frames[stack-1].Up == 0 {
		return false
	}
	m := castsBack().FindStringSubmatch(s.Frames[s.Frames[stack-1].Up-1].Source)
	return m != nil && m[1] == m[2] && m[3] == m[4]
}

// ofItsType is a softmax whose type is asked to be that of its argument: softmax(scores, dim=-1, dtype=scores.dtype).
var ofItsType = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\b(\w+)\.)?\bsoftmax\((?:(\w+), )?[^()]*\bdtype=(\w+)\.dtype\)`)
})

// OfItsType reports whether the line that a stack is at asks a softmax for the type of its own argument, of which an
// export in float32 keeps no more than float32.
func (s *Sources) OfItsType(stack int32) bool {
	if s == nil || stack <= 0 {
		return false
	}
	m := ofItsType().FindStringSubmatch(s.Frames[stack-1].Source)
	return m != nil && (m[3] == m[1] || m[3] == m[2])
}

// ownForward reports whether a line calls a forward of the same object: that of its class's parent.
func ownForward(line string) bool {
	return strings.Contains(line, "super().forward(") || strings.Contains(line, "self.forward(") ||
		strings.Contains(line, ".forward(self")
}

// Modules returns how many modules' forwards are around a stack, 0 when that is unknown.
func (s *Sources) Modules(stack int32) int {
	if s == nil || stack <= 0 {
		return 0
	}
	return int(s.Level[stack-1])
}

// At returns the frame that a stack has at a level: the line that the module of that depth was at, which says which
// lines those around it were at too. 0 is for a level that the stack does not have; levels count from 1.
func (s *Sources) At(stack int32, level int) int32 {
	if stack <= 0 || level < 1 || int(s.Level[stack-1]) < level {
		return 0
	}
	for stack = s.Forward[stack-1]; int(s.Level[stack-1]) > level; stack = s.Forward[stack-1] {
		stack = s.Frames[stack-1].Up
	}
	return stack
}

// Path appends the frames of a stack by level, the outermost first, and 0 for each of n levels that it does not have.
func (s *Sources) Path(list []int32, stack int32, n int) []int32 {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	if stack <= 0 {
		return list
	}
	for stack = s.Forward[stack-1]; stack > 0; stack = s.Forward[stack-1] {
		if k := int(s.Level[stack-1]); k <= n {
			list[k-1] = stack
		}
		if stack = s.Frames[stack-1].Up; stack == 0 {
			break
		}
	}
	return list
}

// Add puts a line that was lost before the line of a frame, in the same function.
func (s *Sources) Add(at int32, st Statement) int32 {
	key := lostLine{at, st.Sites[0].Path}
	if id, ok := s.lost[key]; ok {
		return id
	}
	f := s.Frames[at-1]
	s.Frames = append(slices.Clip(s.Frames), Frame{Up: f.Up, Line: f.Line, File: f.File, Func: f.Func})
	s.Lines = append(s.Lines, &Line{Statements: []Statement{st}})
	id := int32(len(s.Frames))
	s.Forward, s.Level = append(s.Forward, id), append(s.Level, s.Level[at-1])
	s.Wrapped = append(s.Wrapped, s.Wrapped[at-1])
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
