package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/estimate"
)

// FitCurve returns the batches that were tried for a fitting. With exact, sizes are bytes.
func FitCurve(f *estimate.Fitting, exact bool) *Grid { return fitCurve(f, exact, fitWord) }

func fitCurve(f *estimate.Fitting, exact bool, word func(*estimate.Fitting, *estimate.Point) string) *Grid {
	titles := []string{"batch", "allocated", "reserved", "device", "likely", "safe"}
	size := func(n int64) string { return strconv.FormatInt(n, 10) }
	if exact {
		titles = []string{"batch", "allocated_bytes", "reserved_bytes", "device_bytes", "likely_bytes", "safe_bytes",
			"upper_bound_bytes"}
	} else {
		unit := largeUnit(max(f.Memory, most(f.Curve, func(p *estimate.Point) int64 { return p.SafeBytes })))
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
	for i := range f.Curve {
		p := &f.Curve[i]
		batch := Count(p.Batch)
		if exact {
			batch = size(p.Batch)
		}
		row := []string{batch, size(p.Allocated), size(p.Reserved), size(p.Device), size(p.Likely), size(p.SafeBytes)}
		if exact {
			row = append(row, size(p.UpperBound))
		}
		g.Rows = append(g.Rows, append(row, p.Phase, word(f, p)))
	}
	return g
}

// fitWord says with what confidence a batch fits.
func fitWord(f *estimate.Fitting, p *estimate.Point) string {
	switch {
	case p.Safe:
		return "safe"
	case p.Device > 0 && p.Likely <= f.Memory:
		return "likely"
	}
	return shortWord(f, p)
}

// shortWord says whether a batch fits: safely, as predicted, or not.
func shortWord(_ *estimate.Fitting, p *estimate.Point) string {
	switch {
	case p.Safe:
		return "safe"
	case p.Fits:
		return "yes"
	}
	return "no"
}

// doubled is how many of the batches that were doubled a short curve has.
const doubled = 4

// ShortFitCurve returns what a screen has room for: four figures of each batch, and of the batches the last doubled
// ones that fit and both sides of where what fits changes.
func ShortFitCurve(f *estimate.Fitting) *Grid {
	g := fitCurve(shortFit(f), false, shortWord)
	const likely = 4 // its column
	g.Columns = slices.Delete(g.Columns, likely, likely+1)
	for i := range g.Rows {
		g.Rows[i] = slices.Delete(g.Rows[i], likely, likely+1)
	}
	return g
}

func shortFit(f *estimate.Fitting) *estimate.Fitting {
	if len(f.Curve) <= 2*doubled {
		return f
	}
	short, powers := *f, 0
	short.Curve = nil
	for i := len(f.Curve) - 1; i >= 0; i-- {
		p := &f.Curve[i]
		other := func(k int) bool {
			return k >= 0 && k < len(f.Curve) && shortWord(f, &f.Curve[k]) != shortWord(f, p)
		}
		keep := other(i-1) || other(i+1)
		if !keep && p.Fits && p.Batch&(p.Batch-1) == 0 && powers < doubled {
			powers++
			keep = true
		}
		if keep {
			short.Curve = append(short.Curve, *p)
		}
	}
	slices.Reverse(short.Curve)
	return &short
}

// FitSentences say which batch fits: with the confidence that was asked for, then safely and as predicted.
func FitSentences(f *estimate.Fitting, sure estimate.Confidence) []string {
	where := Size(f.Memory)
	if f.GPU != "" {
		where += " of " + f.GPU
	}
	out := []string{fmt.Sprintf("%s, %s", Show(f.Model, nameWidth), Setting(f.Settings))}
	for _, c := range surest(sure) {
		out = append(out, fitSentence(f, c, where))
	}
	return out
}

// FitScreen writes what a screen shows of the sentences: a line for the confidence that was asked for, then those for
// what is safe and what is predicted.
func FitScreen(w io.Writer, f *estimate.Fitting, sure estimate.Confidence, look Look) {
	look.Width = cmp.Or(look.Width, 80)
	s := screen{Look: look}
	run, unit, where := f.Settings, largeUnit(f.Memory), "given"
	if f.GPU != "" {
		run.GPU, where = "", "of "+f.GPU // which has a line of its own
	}
	s.text("", s.bold(Show(f.Model, nameWidth))+": "+Setting(run))
	s.line("")
	row := func(what, word, colour string, bytes int64, about string) {
		s.line(fmt.Sprintf("%-9s  %s  %6s %s  %s", what, s.paint(colour, fmt.Sprintf("%-13s", word)), unit.format(bytes),
			unit.name, about))
	}
	row("memory", "", "", f.Memory, where)
	for _, c := range surest(sure) {
		about := "what is simulated"
		switch c {
		case estimate.Likely:
			about = "one run in twenty takes more"
		case estimate.Safe:
			about = estimate.SafeRate(f.SafeShare)
		}
		batch, word, colour := f.Largest(c), "batch "+Count(f.Largest(c)), "1;32"
		if batch == 0 {
			word, colour = "no batch", "31"
			about = "for one sample"
		}
		row(string(c), word, colour, f.Tried(batch).At(c), about)
	}
	for _, l := range s.lines {
		fmt.Fprintln(w, l)
	}
}

// surest returns the confidences of an answer: the one that was asked for, then what is safe and what is predicted.
func surest(sure estimate.Confidence) []estimate.Confidence {
	order := []estimate.Confidence{sure}
	for _, c := range []estimate.Confidence{estimate.Safe, estimate.Predicted} {
		if c != sure {
			order = append(order, c)
		}
	}
	return order
}

// fitSentence says which batch fits with a confidence.
func fitSentence(f *estimate.Fitting, c estimate.Confidence, where string) string {
	batch := f.Largest(c)
	takes := Size(f.Tried(batch).At(c))
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
	return fmt.Sprintf("batch %s is safe: %s than %s", Count(batch), estimate.SafeRate(f.SafeShare), takes)
}
