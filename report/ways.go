package report

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/memestimate/memestimate/estimate"
)

// Ways returns the ways in which a step fits, the cheapest first, and then those in which it does not.
func Ways(r *estimate.Report) *Grid {
	largest := int64(0)
	for _, w := range r.Ways {
		largest = max(largest, w.Need)
	}
	unit := largeUnit(largest)
	by := "" // the same for all that were simulated
	for _, w := range r.Ways {
		by = cmp.Or(by, w.By)
	}
	g := &Grid{Columns: []Column{
		{Title: "ways to fit"}, {Title: "GPUs", Right: true}, {Title: "again", Right: true, Spare: 1},
		{Title: "allocated", Right: true, Spare: 2}, {Title: figure(by) + ", " + unit.name, Right: true}, {Title: ""},
	}}
	for _, w := range r.Ways {
		settings, fits := w.Settings, "does not fit"
		if settings == "" {
			settings = "as it is"
		}
		if w.Error != "" {
			g.Rows = append(g.Rows, []string{settings, strconv.Itoa(w.GPUs), "", "", "?", Refusal(w.Error)})
			continue
		}
		if w.Fits {
			fits = "fits"
		}
		row := []string{settings, strconv.Itoa(w.GPUs), share(w.Price), unit.format(w.Allocated), unit.format(w.Need), fits}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// Checkpointed returns which blocks to checkpoint, beside none and all of them.
func Checkpointed(r *estimate.Report) *Grid {
	f := r.Checkpoint
	unit := largeUnit(max(f.Plain, f.All))
	g := &Grid{Columns: []Column{
		{Title: "checkpointed blocks"}, {Title: "again", Right: true}, {Title: figure(f.By) + ", " + unit.name,
			Right: true}, {Title: ""}, {Title: "which"},
	}}
	row := func(blocks int, price float64, need int64, end, which string) {
		if need <= f.Memory {
			end = "fits"
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(blocks) + " of " + strconv.Itoa(f.Of), share(price),
			unit.format(need), cmp.Or(end, "does not fit"), which})
	}
	n, v, survives := len(f.Blocks), f.Survivor, map[int]string{} // by the number of blocks
	if v != nil {
		survives[len(v.Blocks)] = survival(v)
	}
	row(0, 0, f.Plain, survives[0], "")
	if v != nil && 0 < len(v.Blocks) && len(v.Blocks) < f.Of {
		row(len(v.Blocks), v.Price, v.Need, survival(v), shownBlocks(v.Blocks, v.Expression))
	}
	if 0 < n && n < f.Of {
		if n > 1 && survives[n-1] == "" {
			row(n-1, f.PriceFewer, f.Fewer, "", fewerEnds[f.EndFewer])
		}
		row(n, f.Price, f.Need, "", shownBlocks(f.Blocks, f.Expression))
	}
	row(f.Of, f.PriceAll, f.All, survives[f.Of], "blocks")
	return g
}

// shownBlocks is what --checkpoint takes for blocks, or their names: a table would spoil an expression's bars and
// backslashes.
func shownBlocks(blocks []string, expression string) string {
	if strings.HasPrefix(expression, "blocks:") {
		return expression
	}
	shown := make([]string, len(blocks))
	for i, name := range blocks {
		shown[i] = Show(name, 0)
	}
	return strings.Join(shown, " ")
}

// survival says how a step goes on where memory is short.
func survival(v *estimate.Survivor) string {
	switch {
	case v.Outcome == estimate.FitsAsPredicted:
		return "survives as predicted"
	case v.EachStep > 0:
		return "survives, " + retries(v.EachStep) + " each step"
	}
	return "survives, " + retries(v.Retries) + " in all"
}

func retries(n int64) string {
	if n == 1 {
		return "1 retry"
	}
	return strconv.FormatInt(n, 10) + " retries"
}

// settingOf is what errors begin with: the setting that they are about, the stage, what was done.
var settingOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[a-z-]+(?: \d+)?: )+`) })

// fewerEnds says what becomes of a step that does not fit.
var fewerEnds = map[string]string{
	estimate.FitsAsPredicted: "(fits as predicted)", estimate.Retries: "(survives by retries)",
	estimate.RunsOut: "(runs out)",
}

// Refusal says in a few words why settings cannot be simulated: an error's first clause has them.
func Refusal(err string) string {
	why, _, _ := strings.Cut(settingOf().ReplaceAllString(err, ""), ": ")
	return Clean("cannot be simulated: " + why)
}

// figure names a figure of the device memory by its field in JSON, as the answer does.
func figure(by string) string {
	return strings.TrimSuffix(by, "_bytes")
}

// share writes a share as a percentage, nothing where it is none.
func share(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(100*x, 'f', 1, 64) + " %"
}
