package report

import (
	"strconv"

	"github.com/memestimate/memestimate/estimate"
)

// Stages returns what each GPU of a pipeline takes, the first stage first.
func Stages(r *estimate.Report) *Grid {
	largest := int64(0)
	for i := range r.Stages {
		largest = max(largest, r.Stages[i].Safe)
	}
	unit := largeUnit(largest)
	g := &Grid{Columns: []Column{
		{Title: "stage"}, {Title: "begins with", File: true}, {Title: "allocated, " + unit.name, Right: true},
		{Title: "reserved, " + unit.name, Right: true, Spare: 1}, {Title: "device, " + unit.name, Right: true},
		{Title: "safe, " + unit.name, Right: true},
	}}
	for i := range r.Stages {
		s := &r.Stages[i]
		g.Rows = append(g.Rows, []string{StageOf(i, len(r.Stages)), s.Begins, unit.format(s.Allocated),
			unit.format(s.Reserved), unit.format(s.Device), unit.format(s.Safe)})
	}
	return g
}

// StageOf names a stage of so many, counted from 0.
func StageOf(i, of int) string { return strconv.Itoa(i+1) + " of " + strconv.Itoa(of) }
