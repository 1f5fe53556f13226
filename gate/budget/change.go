package budget

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
)

// A Change is something that two budget files ask differently of some models.
type Change struct {
	What    string   `json:"what"`   // a key of limits or settings, "new", "lower-bound" or "base"
	Before  string   `json:"before"` // "" where it was not said
	After   string   `json:"after"`  // "" where it no longer is
	Models  []string `json:"models"` // the names of now
	Loosens bool     `json:"loosens"`

	by float64 // how much it loosens
}

// Asked returns what a file asks of each of some names: those of files that its paths match, and of built-in models.
func (f *File) Asked(files []string, builtin func(string) bool) map[string][]*Model {
	out := map[string][]*Model{}
	for i := range f.Models {
		m := &f.Models[i]
		seen := map[string]bool{}
		for _, p := range m.Paths {
			found := Select(files, p.Text)
			if builtin(p.Text) {
				found = []string{p.Text}
			}
			for _, name := range found {
				if !seen[name] && (!m.Exclude.Match(name) || builtin(name)) {
					seen[name] = true
					out[name] = append(out[name], m)
				}
			}
		}
	}
	return out
}

// Changes tells what the models of now are asked that they were not asked before, and the other way round: what loosens
// a limit first, by how much it does. was returns the name that a model had. Those of which nothing was asked before
// are left out.
func Changes(before, now map[string][]*Model, was func(string) string) []Change {
	type change struct {
		what          string
		before, after ask
	}
	models := map[change][]string{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		old, ok := before[was(name)]
		if !ok {
			continue
		}
		a, b := asks(old), asks(now[name])
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for what := range keys {
			x, y := a[what], b[what]
			if what == "confidence" && (x.text == "" || y.text == "") { // with no limit to hold
				continue
			}
			if x.text != y.text {
				models[change{what, x, y}] = append(models[change{what, x, y}], name)
			}
		}
	}
	var all []Change
	for c, names := range models {
		by := looser(c.what, c.before, c.after)
		all = append(all, Change{c.what, c.before.text, c.after.text, names, by > 0, by})
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(rank(a.What), rank(b.What)), cmp.Compare(a.What, b.What),
			slices.Compare(a.Models, b.Models), cmp.Compare(a.Before, b.Before))
	})
	return all
}

// rank puts limits before what else changes.
func rank(what string) int {
	if slices.Contains(names(limitKeys), what) {
		return 0
	}
	return 1
}

// An ask is what is asked of a model by one key: how the file has it, and how much it lets pass.
type ask struct {
	text string
	room float64 // of a limit, by the tightest entry: bytes, percent or another measure
}

// looser returns by how much a change of a key lets more pass than before, above 0 where it does.
func looser(what string, before, after ask) float64 {
	switch {
	case what == "new" || what == "lower-bound":
		if after.text == "" {
			return 0
		}
		return math.Inf(1)
	case rank(what) > 0:
		return 0
	case before.text == "":
		return 0 // a limit that is new
	case after.text == "":
		return math.Inf(1)
	case what == "fits":
		kept := strings.Split(after.text, "; ")
		if slices.ContainsFunc(strings.Split(before.text, "; "), func(g string) bool { return !slices.Contains(kept, g) }) {
			return math.Inf(1)
		}
		return 0
	case what == "growth" && strings.HasSuffix(before.text, "%") != strings.HasSuffix(after.text, "%"):
		return math.Inf(1) // a share and a size do not compare
	}
	return max(after.room-before.room, 0) / max(before.room, 1)
}

// asks returns what some entries ask of a model, by keys.
func asks(entries []*Model) map[string]ask {
	lists, rooms := map[string][]string{}, map[string]float64{}
	add := func(key, value string, room float64) {
		if !slices.Contains(lists[key], value) {
			lists[key] = append(lists[key], value)
		}
		if old, ok := rooms[key]; !ok || room < old {
			rooms[key] = room
		}
	}
	for _, m := range entries {
		for _, s := range m.Limits.Sizes {
			add(strings.TrimPrefix(s.Total, "peak_"), report.Size(s.Bytes), float64(s.Bytes))
		}
		if g := m.Limits.Growth; g != nil {
			add("growth", g.String(), g.Percent+float64(g.Bytes))
		}
		for _, g := range m.Limits.Fits {
			add("fits", g.Text, 0)
		}
		if m.Limits.Limited() {
			c := cmp.Or(m.Limits.Confidence, estimate.Safe)
			add("confidence", string(c), float64(slices.Index([]estimate.Confidence{estimate.Safe, estimate.Likely,
				estimate.Predicted}, c)))
		}
		for _, g := range m.New {
			add("new", g.Text, 0)
		}
		if m.LowerBound {
			add("lower-bound", "true", 0)
		}
		for _, s := range m.Settings {
			for _, x := range s {
				add(x.Name, strings.Join(x.Values, ", "), 0)
			}
		}
	}
	out := map[string]ask{}
	for k, v := range lists {
		slices.Sort(v)
		out[k] = ask{strings.Join(v, "; "), rooms[k]}
	}
	return out
}

// Limited reports whether anything is asked of an estimate.
func (l Limits) Limited() bool { return len(l.Sizes) > 0 || l.Growth != nil || len(l.Fits) > 0 }

// totalOf are the totals that a limit is about. Their names are those of the limits, some after "peak_".
var totalOf = map[string]string{
	"device": diff.Device, "reserved": diff.Reserved, "allocated": diff.Allocated, "parameters": diff.Parameters,
}
