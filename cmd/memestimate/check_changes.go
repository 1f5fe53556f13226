package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/memestimate/memestimate/gate/budget"
)

// A changed is what a check asks now that it did not ask in the base, and the other way round.
type changed struct {
	asks    []budget.Change
	removed []removal // models that the base has checked, and nobody checks now
	was     string    // why it is not known what the base asked; "" where it is
	lost    error     // a model that the base held to limits moved to where nobody checks it
}

// A removal is a model that is no longer checked.
type removal struct {
	Model string `json:"model"`
	Why   string `json:"why"`
	To    string `json:"to,omitempty"` // where it moved
}

// changes compares what a budget file asks with what it asked in the base, of the files that were there.
func (b *baseline) changes(f *budget.File, all []*checked) (out changed) {
	names := slices.Sorted(maps.Keys(b.files))
	old, why := b.budgetFile(f)
	out.was = why
	if old == nil {
		old = f
	}
	now, was := map[string][]*budget.Model{}, map[string]string{}
	for _, c := range all {
		now[c.name] = append(now[c.name], c.entry)
		if c.past.name != "" {
			was[c.name] = c.past.name
		}
	}
	before := old.Asked(names, isBuiltin)
	if why == "" {
		if old.Base.Text != f.Base.Text {
			out.asks = append(out.asks, budget.Change{What: "base", Before: old.Base.Text, After: f.Base.Text,
				Models: []string{}})
		}
		out.asks = append(out.asks, budget.Changes(before, now, func(name string) string { return was[name] })...)
	}
	kept := map[string]bool{}
	for name, from := range was {
		kept[name], kept[from] = true, true
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if kept[name] || now[name] != nil {
			continue
		}
		gone := removal{Model: name, Why: "no path of " + budget.Name + " matches it now"}
		if _, err := os.Lstat(filepath.Join(b.dir, filepath.FromSlash(name))); err != nil && !isBuiltin(name) {
			gone.Why = "deleted"
			if to := b.movedTo(name, now); to != "" {
				gone.Why, gone.To = "moved", to
				limited := slices.ContainsFunc(before[name], func(m *budget.Model) bool { return m.Limits.Limited() })
				if limited && !f.Excludes(to) && out.lost == nil {
					out.lost = fail(exitInput, "%s moved to %s, which no path of %s matches", quoteArg(name), quoteArg(to),
						quoteArg(filepath.Base(f.Path))).withHint("a file that exclude names may be there unchecked")
				}
			}
		}
		out.removed = append(out.removed, gone)
	}
	return out
}

// budgetFile reads the budget file as the base has it; nil, and why, where that is not to be had.
func (b *baseline) budgetFile(f *budget.File) (*budget.File, string) {
	name := filepath.Base(f.Path)
	data, ok, err := b.text(name, budget.MaxSize)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%s of the base cannot be read: %v", quoteArg(name), err)
	case !ok:
		return nil, "the base has no " + quoteArg(name)
	}
	old, err := budget.Parse(name, data)
	if err != nil {
		return nil, fmt.Sprintf("in the base, %v", err)
	}
	return old, ""
}
