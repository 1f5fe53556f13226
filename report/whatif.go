package report

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/memestimate/memestimate/estimate"
)

// WhatIf returns what other settings would make of the run.
func WhatIf(r *estimate.Report) *Grid {
	unit := largeUnit(max(r.Peak.Device, most(r.WhatIf, func(v *estimate.Variant) int64 { return v.Device })))
	g := &Grid{Columns: []Column{{Title: "what if"}, {Title: "allocated, " + unit.name, Right: true, Spare: 2},
		{Title: "reserved, " + unit.name, Right: true, Spare: 1}, {Title: "device, " + unit.name, Right: true},
		{Title: "change", Right: true}, {Title: ""}}}
	g.Rows = append(g.Rows, []string{"as it is", unit.format(r.Peak.Allocated), unit.format(r.Peak.Reserved),
		unit.format(r.Peak.Device), "", ""})
	for _, v := range r.WhatIf {
		if v.Error != "" {
			g.Rows = append(g.Rows, []string{v.Change, "", "", "?", "", Refusal(v.Error)})
			continue
		}
		fits := ""
		if v.Fits != nil {
			fits = "does not fit"
			if *v.Fits {
				fits = "fits"
			}
		}
		g.Rows = append(g.Rows, []string{v.Change, unit.format(v.Allocated), unit.format(v.Reserved), unit.format(v.Device),
			Change(r.Peak.Device, v.Device), fits})
	}
	return g
}

// whatIfShown is the change, of what the run takes, from which a setting has a line of the screen.
const whatIfShown = 0.01

// WhatIfText writes what other settings would make of the run for a screen: those that hardly move it share a line, and
// one that cannot be simulated says why.
func WhatIfText(w io.Writer, r *estimate.Report, width int) {
	all := WhatIf(r)
	g := &Grid{Columns: []Column{all.Columns[0], all.Columns[3], all.Columns[4], all.Columns[5]}}
	keep := func(row []string) { g.Rows = append(g.Rows, []string{row[0], row[3], row[4], row[5]}) }
	keep(all.Rows[0])
	var little, cannot []string
	for i := range r.WhatIf {
		v := &r.WhatIf[i]
		decides := v.Fits != nil && *v.Fits == (r.OOM != nil || !r.OK()) // one of the two fits, and not the other
		change := v.Device - r.Peak.Device
		moves := float64(max(change, -change)) >= whatIfShown*float64(r.Peak.Device)
		switch {
		case v.Error != "":
			cannot = append(cannot, v.Change+" "+Refusal(v.Error))
		case moves || decides:
			keep(all.Rows[1+i])
		default:
			little = append(little, inShort(v.Change, little))
		}
	}
	g.Text(w, width)
	if len(little) > 0 {
		cannot = append([]string{"less than 1 %: " + strings.Join(little, ", ")}, cannot...)
	}
	for _, line := range cannot {
		fmt.Fprint(w, Fold(line+"\n", width))
	}
}

// inShort leaves out the flag where the settings before are of the same.
func inShort(change string, before []string) string {
	flag, value, ok := strings.Cut(change, " ")
	for i := len(before) - 1; ok && i >= 0; i-- {
		if strings.HasPrefix(before[i], flag+" ") {
			return value
		}
		if strings.HasPrefix(before[i], "--") {
			break
		}
	}
	return change
}

// Ways returns the ways in which a step fits, the cheapest first, and then those in which it does not.
func Ways(r *estimate.Report) *Grid {
	unit := largeUnit(most(r.Ways, func(w *estimate.Way) int64 { return w.Need }))
	by := "" // the same for all that were simulated
	for _, w := range r.Ways {
		by = cmp.Or(by, w.By)
	}
	g := &Grid{Columns: []Column{
		{Title: "ways to fit"}, {Title: "GPUs", Right: true}, {Title: "again", Right: true, Spare: 1},
		{Title: "allocated", Right: true, Spare: 2},
		{Title: strings.TrimSuffix(by, "_bytes") + ", " + unit.name, Right: true}, {Title: ""},
	}}
	for _, w := range r.Ways {
		settings, fits := cmp.Or(w.Settings, "as it is"), "does not fit"
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

// share writes a share as a percentage, nothing where it is none.
func share(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(100*x, 'f', 1, 64) + " %"
}
