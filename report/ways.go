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

// settingOf is what errors begin with: the setting that they are about, the stage, what was done.
var settingOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[a-z-]+(?: \d+)?: )+`) })

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
