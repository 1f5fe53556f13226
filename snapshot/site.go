package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Labels of allocations whose stack says nothing.
const (
	NoStack  = "no-stack"         // none was recorded
	NoPython = "autograd-thread"  // it runs no Python of its own
	Earlier  = "before-recording" // made before the trace begins, and without a stack
)

// Site names the place that a stack stands for: its innermost Python frame, or
// its innermost frame of all where it has no Python. The name is
// "file:line:function", with the last two parts of the file's path; it comes
// from the snapshot and is to be shown with care.
func (s *Snapshot) Site(id StackID) string {
	frames := s.Stack(id)
	if len(frames) == 0 {
		if id != 0 {
			return NoPython
		}
		return NoStack
	}
	for _, f := range frames {
		if strings.HasSuffix(s.Frames[f].File, ".py") {
			return s.Frames[f].String()
		}
	}
	return s.native(frames)
}

// native names the frame of a stack without Python that tells most: the backward
// function that autograd runs, or else what first is not about allocating.
func (s *Snapshot) native(frames []uint32) string {
	for _, f := range frames {
		name, _, _ := strings.Cut(s.Frames[f].Name, "(")
		if i := strings.Index(name, "::generated::"); i >= 0 && strings.Contains(name, "Backward") {
			name, _, _ = strings.Cut(name[i+len("::generated::"):], "::")
			return strings.TrimSuffix(name, "_apply_functional")
		}
	}
	for _, f := range frames {
		if !slices.ContainsFunc(plumbing, func(p string) bool { return strings.HasPrefix(s.Frames[f].Name, p) }) {
			return s.Frames[f].String()
		}
	}
	return s.Frames[frames[0]].String()
}

// plumbing begins the names of frames that every allocation has.
var plumbing = []string{"torch::unwind::", "torch::CapturedTraceback::", "torch::cuda::", "c10::", "at::detail::"}

// SiteOf names the place that made an allocation: its Site.
func (s *Snapshot) SiteOf(l Live) string {
	if l.Event < 0 && len(s.Stack(l.Stack)) == 0 {
		return Earlier
	}
	return s.Site(l.Stack)
}

// UserSiteOf names it by its UserSite.
func (s *Snapshot) UserSiteOf(l Live) string {
	if site := s.SiteOf(l); site == Earlier {
		return site
	}
	return s.UserSite(l.Stack)
}

// UserSite names the innermost frame that lies in no installed package, or Site
// where there is none.
func (s *Snapshot) UserSite(id StackID) string {
	site, _ := s.UserSites(id)
	return site
}

// UserSites names UserSite, and the next such frame that called it; "" where
// there is none.
func (s *Snapshot) UserSites(id StackID) (site, caller string) {
	for _, f := range s.Stack(id) {
		file := s.Frames[f].File
		if !s.Frames[f].IsPython() || strings.Contains(file, "/site-packages/") ||
			strings.Contains(file, "/dist-packages/") || strings.Contains(file, "/torch/") ||
			strings.HasPrefix(file, "<frozen") {
			continue
		}
		if site != "" {
			return site, s.Frames[f].String()
		}
		site = s.Frames[f].String()
	}
	if site == "" {
		site = s.Site(id)
	}
	return site, ""
}

// String is "file:line:function", or the function alone where the file is not known.
func (f *Frame) String() string {
	file := f.File
	if file == "" || file == "??" {
		return f.Name
	}
	if i := strings.LastIndexByte(file, '/'); i > 0 {
		if k := strings.LastIndexByte(file[:i], '/'); k >= 0 {
			file = file[k+1:]
		}
	}
	if f.Line < 0 {
		return fmt.Sprintf("%s:?:%s", file, f.Name)
	}
	return fmt.Sprintf("%s:%d:%s", file, f.Line, f.Name)
}

// A Group is allocations that belong together.
type Group struct {
	Label   string `json:"where"`
	Count   int    `json:"count"`
	Bytes   int64  `json:"bytes"` // of their blocks
	Largest int64  `json:"largest_bytes"`
}

// GroupBy adds up allocations by a label, the largest group first.
func GroupBy(live []Live, label func(Live) string) []Group {
	at := map[string]int{}
	var out []Group
	for _, l := range live {
		key := label(l)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, Group{Label: key})
		}
		out[i].Count++
		out[i].Bytes += l.Size
		out[i].Largest = max(out[i].Largest, l.Size)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Label, b.Label))
	})
	return out
}
