package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// A Labeler tells what an event, or an allocation, belongs to, in one of several ways.
type Labeler struct {
	s      *Snapshot
	device int
	by     string
	rules  []rule
	spans  []span           // in order of time
	cache  map[int64]string // labels of stacks and notes
}

// A rule names stacks of which a frame matches a pattern; without a name it is
// the frame that names them.
type rule struct {
	name string
	re   *regexp.Regexp
}

// span is the time from which a label holds.
type span struct {
	from  int64
	label string
}

// By are the ways of a Labeler.
//
//	frame       the innermost frame of Python
//	user        the innermost frame outside of installed packages
//	stack       the whole stack, innermost first
//	module      the forward functions on the stack, outermost first
//	phase       load, forward, loss, backward, optimizer, finish
//	annotation  the ranges that the program marked (record_function), outermost first
//	metadata    what torch.cuda.memory._set_memory_metadata said
//	context     the compiled graph (recorded with compile_context)
//	category    what the file says that the memory is for
//	stream      the CUDA stream
//	regex       the innermost frame that matches a pattern; "NAME=PATTERN": the name of the first that one matches
//	allocation  each for itself
var By = []string{"frame", "user", "stack", "module", "phase", "annotation", "metadata", "context", "category",
	"stream", "regex", "allocation"}

// Labels of events that do not say.
const (
	NoMetadata   = "no-metadata"
	NoContext    = "not-compiled"
	NoCategory   = "no-category"
	NoAnnotation = "no-annotation"
	NoModule     = "no-module"
	NoMatch      = "no-match"
)

// NewLabeler returns a Labeler of one of the ways of By. The patterns are for "regex".
func (s *Snapshot) NewLabeler(device int, by string, patterns ...string) (*Labeler, error) {
	if !slices.Contains(By, by) {
		return nil, fmt.Errorf("%q, wanted one of %s", by, strings.Join(By, ", "))
	}
	l := &Labeler{s: s, device: device, by: by, cache: map[int64]string{}}
	switch by {
	case "regex":
		if len(patterns) == 0 {
			return nil, fmt.Errorf("regex wants a pattern")
		}
		for _, p := range patterns {
			var r rule
			if name, after, ok := strings.Cut(p, "="); ok && plainName(name) {
				r.name, p = name, after
			}
			var err error
			if r.re, err = regexp.Compile(p); err != nil {
				return nil, err
			}
			l.rules = append(l.rules, r)
		}
	case "annotation":
		l.spans = s.spans(device)
	}
	return l, nil
}

// Live labels an allocation.
func (l *Labeler) Live(x Live) string {
	switch l.by {
	case "user":
		return l.s.SiteOf(x, true)
	case "frame":
		return l.s.SiteOf(x, false)
	case "allocation":
		return fmt.Sprintf("0x%x:%s", x.Addr, l.s.SiteOf(x, false))
	}
	if x.Event >= 0 {
		return l.event(l.s.Trace(l.device).At(x.Event))
	}
	switch l.by {
	case "stream":
		return streamLabel(x.Stream)
	case "annotation", "metadata", "context", "category":
		return Earlier
	}
	if len(l.s.Stack(x.Stack)) == 0 {
		return Earlier
	}
	return l.stack(x.Stack)
}

// event labels an event.
func (l *Labeler) event(e *Event) string {
	n := &l.s.Notes[e.Note]
	or := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	switch l.by {
	case "metadata":
		return or(n.UserMetadata, NoMetadata)
	case "context":
		if n.CompileContext == "N/A" {
			return NoContext
		}
		return or(n.CompileContext, NoContext)
	case "category":
		return or(n.Category, NoCategory)
	case "stream":
		return streamLabel(l.s.Streams[e.Stream])
	case "annotation":
		i, ok := slices.BinarySearchFunc(l.spans, e.Time, func(s span, t int64) int { return compare(s.from, t) })
		if !ok {
			i--
		}
		if i < 0 {
			return NoAnnotation
		}
		return or(l.spans[i].label, NoAnnotation)
	}
	return l.stack(e.Stack)
}

func streamLabel(cuda int64) string {
	if cuda == 0 {
		return "default-stream"
	}
	return fmt.Sprintf("stream-0x%x", cuda)
}

// stack labels what depends on the stack alone.
func (l *Labeler) stack(id StackID) string {
	if text, ok := l.cache[int64(id)]; ok {
		return text
	}
	text := ""
	switch l.by {
	case "phase":
		if text = l.s.Phase(id); text == "" {
			text = NoStack
		}
	case "module":
		text = l.s.module(id)
	case "regex":
		text = l.match(id)
	case "stack":
		text = l.s.StackText(id, " < ")
	default:
		text = l.s.Site(id)
	}
	l.cache[int64(id)] = text
	return text
}

// match names a stack by the first rule that one of its frames matches.
func (l *Labeler) match(id StackID) string {
	for _, r := range l.rules {
		for _, f := range l.s.Stack(id) {
			x := &l.s.Frames[f]
			if !r.re.MatchString(x.File+":"+x.Name) && !r.re.MatchString(x.String()) {
				continue
			}
			if r.name != "" {
				return r.name
			}
			return x.String()
		}
	}
	return NoMatch
}

// plainName says whether what stands before a "=" can be a name, not a pattern.
func plainName(s string) bool {
	return s != "" && !strings.ContainsAny(s, `.*+?()[]{}|^$\`)
}

// StackText is a whole stack on one line, innermost frame first.
func (s *Snapshot) StackText(id StackID, between string) string {
	frames := s.Stack(id)
	if len(frames) == 0 {
		return s.Site(id)
	}
	text := make([]string, len(frames))
	for i, f := range frames {
		text[i] = s.Frames[f].String()
	}
	return strings.Join(text, between)
}

// module is the path of forward functions on a stack, outermost first. Those of
// torch.nn that only pass a call on are left out, unless they are the innermost.
func (s *Snapshot) module(id StackID) string {
	frames := s.Stack(id)
	if n := len(frames); n == 2 && strings.HasPrefix(s.Frames[frames[1]].File, "step ") {
		return s.Frames[frames[0]].Name // a predicted run names its layers
	}
	var path []string
	for i := len(frames) - 1; i >= 0; i-- {
		f := &s.Frames[frames[i]]
		if f.Name == "forward" && !strings.HasSuffix(f.File, "/torch/nn/modules/container.py") {
			path = append(path, f.String())
		}
	}
	if len(path) == 0 {
		return NoModule
	}
	return strings.Join(path, " > ")
}

// Range is the last event of a device before the program began a range of that
// name for the first time (-1 where there is none), and the last one before it
// ended one for the last time.
func (s *Snapshot) Range(device int, name string) (first, last int, ok bool) {
	t := s.Trace(device)
	last = -1
	for i := range s.Annotations {
		a := &s.Annotations[i]
		if a.Name != name || a.Device != int64(device) && a.Device >= 0 {
			continue
		}
		at := sort.Search(t.Len(), func(k int) bool { return t.At(k).Time >= a.Time })
		switch {
		case a.Stage == "START" && !ok:
			first, ok = at-1, true
		case a.Stage == "END":
			last = max(last, at-1)
		}
	}
	return first, last, ok
}

// spans are the times from which the program's ranges are open, of one device:
// the names of those that are open, outermost first.
func (s *Snapshot) spans(device int) []span {
	list := make([]*Annotation, 0, len(s.Annotations))
	for i := range s.Annotations {
		if a := &s.Annotations[i]; a.Device == int64(device) || a.Device < 0 {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b *Annotation) int { return compare(a.Time, b.Time) })
	var open []string
	var out []span
	for _, a := range list {
		switch a.Stage {
		case "START":
			if len(open) < maxDepth {
				open = append(open, a.Name)
			}
		case "END":
			for i := len(open) - 1; i >= 0; i-- {
				if open[i] == a.Name {
					open = slices.Delete(open, i, i+1)
					break
				}
			}
		default:
			continue
		}
		label := strings.Join(open, " > ")
		if n := len(out); n > 0 && out[n-1].from == a.Time {
			out[n-1].label = label
			continue
		}
		out = append(out, span{a.Time, label})
	}
	return out
}
