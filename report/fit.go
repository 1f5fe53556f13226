package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/estimate"
)

// FitCurve returns the batches that were tried for a fitting. With exact, sizes are bytes.
func FitCurve(f *estimate.Fitting, exact bool) *Grid {
	titles := []string{"batch", "allocated", "reserved", "device", "likely", "safe"}
	largest := f.Memory
	for _, p := range f.Curve {
		largest = max(largest, p.SafeBytes)
	}
	size := func(n int64) string { return strconv.FormatInt(n, 10) }
	if exact {
		titles = []string{"batch", "allocated_bytes", "reserved_bytes", "device_bytes", "likely_bytes", "safe_bytes",
			"upper_bound_bytes"}
	} else {
		unit := largeUnit(largest)
		size = unit.format
		for i := range titles[1:] {
			titles[i+1] += ", " + unit.name
		}
	}
	g := &Grid{}
	for i, t := range titles {
		g.Columns = append(g.Columns, Column{Title: t, Right: true, Spare: []int{0, 3, 2, 0, 4, 0, 0}[i]})
	}
	g.Columns = append(g.Columns, Column{Title: "peak_phase", Spare: 4}, Column{Title: "fits"})
	if !exact {
		g.Columns[6].Title = "peak in"
	}
	for _, p := range f.Curve {
		fits := "no"
		switch {
		case p.Safe:
			fits = "safe"
		case p.Device > 0 && p.Likely <= f.Memory:
			fits = "likely"
		case p.Fits:
			fits = "yes"
		}
		batch := Count(p.Batch)
		if exact {
			batch = size(p.Batch)
		}
		row := []string{batch, size(p.Allocated), size(p.Reserved), size(p.Device), size(p.Likely), size(p.SafeBytes)}
		if exact {
			row = append(row, size(p.UpperBound))
		}
		g.Rows = append(g.Rows, append(row, p.Phase, fits))
	}
	return g
}

// FitSentences say which batch fits, the one with the confidence that was asked for first.
func FitSentences(f *estimate.Fitting, sure estimate.Confidence) []string {
	where := Size(f.Memory)
	if f.GPU != "" {
		where += " of " + f.GPU
	}
	out := []string{fmt.Sprintf("%s, %s", Show(f.Model, nameWidth), Setting(f.Settings))}
	order := []estimate.Confidence{sure}
	for _, c := range estimate.Confidences() {
		if c != sure {
			order = append(order, c)
		}
	}
	for _, c := range order {
		out = append(out, fitSentence(f, c, where))
	}
	return out
}

// fitSentence says which batch fits with a confidence.
func fitSentence(f *estimate.Fitting, c estimate.Confidence, where string) string {
	batch := f.Largest(c)
	at, _ := slices.BinarySearchFunc(f.Curve, max(batch, 1), func(p estimate.Point, b int64) int {
		return cmp.Compare(p.Batch, b)
	})
	takes := Size(f.Curve[at].At(c))
	switch {
	case c == estimate.Predicted && batch == 0:
		return fmt.Sprintf("not even one sample fits %s: it takes %s", where, takes)
	case c == estimate.Predicted && f.Capped:
		return fmt.Sprintf("batch %s is the largest that is tried, and fits %s: it takes %s", Count(batch), where, takes)
	case c == estimate.Predicted:
		return fmt.Sprintf("batch %s is the largest that fits %s: it takes %s", Count(batch), where, takes)
	case batch == 0 && c == estimate.Likely:
		return fmt.Sprintf("no batch likely fits: one run of one sample in twenty takes more than %s", takes)
	case batch == 0:
		return fmt.Sprintf("no batch is safe: to be, one sample needs %s", takes)
	case c == estimate.Likely:
		return fmt.Sprintf("batch %s likely fits: one run in twenty takes more than %s", Count(batch), takes)
	}
	return fmt.Sprintf("batch %s is safe: fewer than two runs in a hundred take more than %s", Count(batch), takes)
}
