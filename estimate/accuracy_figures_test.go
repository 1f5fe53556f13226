package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
)

func rel(got, want int64) float64 { return float64(got-want) / float64(want) }

// A spread is the median, the 90th percentile and the worst of absolute errors, in percent.
type spread struct{ median, p90, worst float64 }

func spreadOf(g []outcome, f func(outcome) float64) spread {
	if len(g) == 0 {
		return spread{}
	}
	var e []float64
	for _, o := range g {
		e = append(e, 100*math.Abs(f(o)))
	}
	slices.Sort(e)
	return spread{e[len(e)/2], e[min(len(e)-1, len(e)*9/10)], e[len(e)-1]}
}

func allocated(o outcome) float64 { return o.alloc }

func reserved(o outcome) float64 { return o.reserved }

// byKind groups outcomes by mode and precision, and by mode where it has several precisions, in order of name.
func byKind(all []outcome) (kinds []string, groups map[string][]outcome) {
	groups = map[string][]outcome{}
	modes := map[string][]outcome{}
	for _, o := range all {
		k := o.c.Mode + " " + o.c.DType
		groups[k] = append(groups[k], o)
		modes[o.c.Mode] = append(modes[o.c.Mode], o)
	}
	for mode, g := range modes {
		if len(g) > len(groups[mode+" "+g[0].c.DType]) {
			groups[mode] = g
		}
	}
	return slices.Sorted(maps.Keys(groups)), groups
}

func (s spread) String() string {
	return fmt.Sprintf("median %.2f%% p90 %.2f%% worst %.2f%%", s.median, s.p90, s.worst)
}

// summarize logs what came of the outcomes.
func summarize(t *testing.T, all []outcome) {
	kinds, groups := byKind(all)
	for _, k := range kinds {
		t.Logf("%-16s %3d cases  allocated: %v   reserved: %v", k, len(groups[k]), spreadOf(groups[k], allocated),
			spreadOf(groups[k], reserved))
	}
	near, saved := 0, 0
	for _, o := range all {
		if o.c.Saved == 0 {
			continue
		}
		saved++
		if math.Abs(o.saved) <= 0.01 {
			near++
		} else if *verbose {
			t.Logf("saved %s %+.2f%%", o.c.name(), 100*o.saved)
		}
	}
	t.Logf("device: %v; upper bound %v, likely %v, safe %v; saved within 1%% in %d of %d",
		spreadOf(all, func(o outcome) float64 { return o.device }), boundsOf(all, upper), boundsOf(all, likely),
		boundsOf(all, safe), near, saved)
	for _, o := range worstOf(all, 10) {
		t.Logf("  worst: %-50s %s alloc %+.2f%% reserved %+.2f%%", o.c.name(), o.form, 100*o.alloc, 100*o.reserved)
	}
}

// bounds say how a bound does: in how many of so many cases it holds, and how far above the measured it is on average,
// in percent.
type bounds struct {
	holds, of int
	mean      float64
}

func (b bounds) String() string {
	return fmt.Sprintf("holds in %d of %d, on average %.1f %% above", b.holds, b.of, b.mean)
}

func upper(o outcome) float64 { return o.bound }

func likely(o outcome) float64 { return o.likely }

func safe(o outcome) float64 { return o.safe }

func boundsOf(all []outcome, f func(outcome) float64) bounds {
	b := bounds{of: len(all)}
	for _, o := range all {
		if f(o) >= 0 {
			b.holds++
		}
		b.mean += 100 * f(o) / float64(len(all))
	}
	return b
}

func worstOf(all []outcome, n int) []outcome {
	w := slices.Clone(all)
	slices.SortStableFunc(w, func(x, y outcome) int { return cmp.Compare(math.Abs(y.alloc), math.Abs(x.alloc)) })
	return w[:min(n, len(w))]
}
