package gate

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/report"
)

// changes are what a check asks now that it did not ask in the base, and the other way round.
type changes struct {
	asks    []budget.Change
	removed []Removal // models that the base has checked, and nobody checks now
	was     string    // why it is not known what the base asked; "" where it is
	lost    error     // a model that the base held to limits may be where nobody checks it
}

// A Removal is a model that is no longer checked.
type Removal struct {
	Model string `json:"model"`
	Why   string `json:"why"`
	To    string `json:"to,omitempty"` // where it moved
}

// changesOf compares what a budget file asks with what it asked in the base, of the files that were there.
func (b *base) changesOf(f *budget.File, all []*Model) (out changes) {
	old, why := b.budgetFile(f)
	out.was = why
	if old == nil {
		old = f
	}
	now, was, kept := map[string][]*budget.Model{}, map[string]string{}, map[string]bool{}
	for _, m := range all {
		now[m.Name] = append(now[m.Name], m.Entry)
		if m.past.name != "" {
			was[m.Name] = m.past.name
			kept[m.Name], kept[m.past.name] = true, true
		}
	}
	limited := func(entries []*budget.Model) bool {
		return slices.ContainsFunc(entries, func(m *budget.Model) bool { return m.Limits.Limited() })
	}
	for name, entries := range f.Asked(b.skipped(), isBuiltIn) {
		if now[name] == nil && limited(entries) {
			out.lost = fmt.Errorf("%s is not checked out here, as in a sparse checkout", report.QuoteArg(name))
		}
	}
	before := old.Asked(slices.Sorted(maps.Keys(b.files)), isBuiltIn)
	if why == "" {
		if old.Base.Text != f.Base.Text {
			out.asks = append(out.asks, budget.Change{What: "base", Before: old.Base.Text, After: f.Base.Text,
				Models: []string{}, Loosens: true})
		}
		out.asks = append(out.asks, budget.Changes(before, now, func(name string) string { return was[name] })...)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if kept[name] || now[name] != nil {
			continue
		}
		gone, err := b.removal(f, name, func(name string) bool { return now[name] != nil })
		if err != nil && limited(before[name]) && out.lost == nil && !f.Excludes(name) {
			out.lost = &hinted{fmt.Errorf("%s %w", report.QuoteArg(name), err),
				"exclude in " + filepath.Base(f.Path) + " names files that may be unchecked"}
		}
		out.removed = append(out.removed, gone)
	}
	return out
}

// removal says why a model of the base is no longer checked. It is an error where it may still be there.
func (b *base) removal(f *budget.File, name string, checked func(string) bool) (Removal, error) {
	if _, err := os.Stat(b.path(name)); err == nil || isBuiltIn(name) || slices.Contains(b.skipped(), name) {
		gone := Removal{Model: name, Why: "no path of " + budget.Name + " matches it now"}
		if err == nil && len(f.Asked([]string{name}, isBuiltIn)[name]) > 0 {
			gone.Why = "behind a symbolic link"
			return gone, errors.New("is behind a symbolic link now, into which paths do not look")
		}
		return gone, nil
	}
	gone := Removal{Model: name, Why: "deleted"}
	came := b.came()
	if came.err != nil {
		return gone, fmt.Errorf("is gone, and whether it moved is not known: %w", came.err)
	}
	if to := b.movedTo(name, checked); to != "" {
		gone.Why, gone.To = "moved", to
		if f.Excludes(to) {
			return gone, nil
		}
		return gone, fmt.Errorf("moved to %s, which no path of %s matches", report.QuoteArg(to),
			report.QuoteArg(filepath.Base(f.Path)))
	}
	if len(came.hidden) > 0 {
		return gone, fmt.Errorf("is gone, and may have moved to %s", came.hidden[0])
	}
	return gone, nil
}
