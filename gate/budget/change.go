package budget

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
)

// A Change is something that two budget files ask differently of some models.
type Change struct {
	What   string   `json:"what"`   // a key of limits or settings, "new" or "lower-bound"
	Before string   `json:"before"` // "" where it was not said
	After  string   `json:"after"`  // "" where it no longer is
	Models []string `json:"models"` // the names of now
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
				excluded := slices.ContainsFunc(m.Exclude, func(g Value) bool { return Matches(g.Text, name) })
				if !seen[name] && (!excluded || builtin(name)) {
					seen[name] = true
					out[name] = append(out[name], m)
				}
			}
		}
	}
	return out
}

// Changes tells what the models of now are asked that they were not asked before, and the other way round. was returns
// the name that a model had. Those of which nothing was asked before are left out.
func Changes(before, now map[string][]*Model, was func(string) string) []Change {
	type change struct{ what, before, after string }
	models := map[change][]string{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		old, ok := before[was(name)]
		if !ok {
			continue
		}
		a, b := asks(old), asks(now[name])
		for what := range merged(a, b) {
			if a[what] != b[what] {
				c := change{what, a[what], b[what]}
				models[c] = append(models[c], name)
			}
		}
	}
	var out []Change
	for c, names := range models {
		out = append(out, Change{c.what, c.before, c.after, names})
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank(a.What), rank(b.What)), cmp.Compare(a.What, b.What),
			slices.Compare(a.Models, b.Models), cmp.Compare(a.Before, b.Before))
	})
	return out
}

// rank puts limits before what else changes.
func rank(what string) int {
	if slices.Contains(names(limitKeys), what) {
		return 0
	}
	return 1
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// keyOf are the keys of totals that are limited.
var keyOf = func() map[string]string {
	out := map[string]string{}
	for k, t := range totalOf {
		out[t] = k
	}
	return out
}()

// asks writes what some entries ask of a model, by keys.
func asks(entries []*Model) map[string]string {
	lists := map[string][]string{}
	add := func(key, value string) {
		if !slices.Contains(lists[key], value) {
			lists[key] = append(lists[key], value)
		}
	}
	for _, m := range entries {
		for _, s := range m.Limits.Sizes {
			add(keyOf[s.Total], report.Size(s.Bytes))
		}
		if g := m.Limits.Growth; g != nil {
			add("growth", g.String())
		}
		for _, g := range m.Limits.Fits {
			add("fits", g.Text)
		}
		for _, g := range m.New {
			add("new", g.Text)
		}
		if m.LowerBound {
			add("lower-bound", "true")
		}
		for _, s := range m.Settings {
			for _, x := range s {
				add(x.Name, strings.Join(x.Values, ", "))
			}
		}
	}
	out := map[string]string{}
	for k, v := range lists {
		slices.Sort(v)
		out[k] = strings.Join(v, "; ")
	}
	return out
}

// Limited reports whether anything is asked of an estimate.
func (l Limits) Limited() bool { return len(l.Sizes) > 0 || l.Growth != nil || len(l.Fits) > 0 }

// totalOf are the totals that a limit is about.
var totalOf = map[string]string{
	"device": diff.Device, "reserved": diff.Reserved, "allocated": diff.Allocated, "parameters": diff.Parameters,
}
