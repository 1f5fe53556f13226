package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/memestimate/memestimate/estimate"
)

// WhatIf returns what other settings would make of the run.
func WhatIf(r *estimate.Report) *Grid {
	largest := r.Peak.Device
	for _, v := range r.WhatIf {
		largest = max(largest, v.Device)
	}
	unit := largeUnit(largest)
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
func WhatIfText(w io.Writer, r *estimate.Report, width int) error {
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
	if err := g.Text(w, width); err != nil {
		return err
	}
	if len(little) > 0 {
		cannot = append([]string{"less than 1 %: " + strings.Join(little, ", ")}, cannot...)
	}
	for _, line := range cannot {
		if _, err := fmt.Fprint(w, Fold(line+"\n", width)); err != nil {
			return err
		}
	}
	return nil
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
