package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// A tableRow is a layer, or the sum of all. Sizes are bytes.
type tableRow struct {
	index                                       int
	layer, op, output, dtype                    string
	params, paramBytes, activation, saved, kept int64
	inPlace, unknown, atPeak                    bool
}

// A tableColumn is a column that --columns can name.
type tableColumn struct {
	name  string
	grid  Column
	sized bool // its cells are bytes: the title has the unit
	cell  func(r *tableRow, t *tableRow, u sizeUnit) string
}

// tableColumns are the columns in the order in which help lists them.
var tableColumns = []tableColumn{
	{name: "index", grid: Column{Title: "#", Right: true, Spare: 6},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return strconv.Itoa(r.index) }},
	{name: "layer", grid: Column{Title: "layer", File: true},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.layer }},
	{name: "operator", grid: Column{Title: "operator", File: true, Spare: 4},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.op }},
	{name: "output", grid: Column{Title: "output", Code: true, Spare: 3},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.output }},
	{name: "dtype", grid: Column{Title: "dtype", Spare: 5},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.dtype }},
	{name: "parameters", grid: Column{Title: "parameters", Right: true, Spare: 2},
		cell: func(r, _ *tableRow, u sizeUnit) string { return u.count(r.params) }},
	{name: "parameter-size", grid: Column{Title: "parameters", Right: true}, sized: true,
		cell: func(r, _ *tableRow, u sizeUnit) string { return u.size(r.paramBytes) }},
	{name: "activation", grid: Column{Title: "activation", Right: true}, sized: true,
		cell: func(r, _ *tableRow, u sizeUnit) string {
			switch {
			case r.inPlace && r.activation == 0 && u.scale != exactUnit.scale:
				return "in place"
			case r.unknown && r.activation == 0:
				return "?"
			}
			return u.size(r.activation)
		}},
	{name: "saved", grid: Column{Title: "saved", Right: true}, sized: true,
		cell: func(r, _ *tableRow, u sizeUnit) string { return u.size(r.saved) }},
	{name: "share", grid: Column{Title: "share", Right: true, Spare: 1},
		cell: func(r, t *tableRow, u sizeUnit) string {
			if t.weight() == 0 {
				return ""
			}
			s := strconv.FormatFloat(100*float64(r.weight())/float64(t.weight()), 'f', 1, 64)
			if u.scale == exactUnit.scale {
				return s
			}
			return s + " %"
		}},
	{name: "peak", grid: Column{Title: "peak"}, cell: func(r, _ *tableRow, _ sizeUnit) string {
		if r.atPeak {
			return "<- peak"
		}
		return ""
	}},
}

// exactUnit writes bytes as they are, for programs.
var exactUnit = sizeUnit{"bytes", 0}

func (u sizeUnit) size(bytes int64) string {
	if u.scale == exactUnit.scale {
		return strconv.FormatInt(bytes, 10)
	}
	return u.format(bytes)
}

func (u sizeUnit) count(n int64) string {
	if u.scale == exactUnit.scale {
		return strconv.FormatInt(n, 10)
	}
	return Count(n)
}

// weight is what a row's share is of: its parameters, and what it keeps for backward, or makes where
// no layer keeps anything.
func (r *tableRow) weight() int64 { return r.paramBytes + r.kept }

// TableColumns returns the names of the columns that Table has.
func TableColumns() []string {
	out := make([]string, len(tableColumns))
	for i, c := range tableColumns {
		out[i] = c.name
	}
	return out
}

func findColumn(name string) (tableColumn, error) {
	i := slices.IndexFunc(tableColumns, func(c tableColumn) bool { return c.name == name })
	if i < 0 {
		return tableColumn{}, fmt.Errorf("unknown column %q, want %s", name, strings.Join(TableColumns(), ", "))
	}
	return tableColumns[i], nil
}

// Table returns the table of a report's layers with some columns, nil for the usual ones. With exact, sizes are bytes and
// have no separators, for programs.
func Table(r *estimate.Report, names []string, exact bool) (*Grid, error) {
	if names == nil {
		names = []string{"index", "layer", "operator", "output", "parameters", "activation", "saved", "share", "peak"}
	}
	rows, total := tableRows(r)
	unit := exactUnit
	if !exact {
		largest := int64(0)
		for i := range rows {
			largest = max(largest, rows[i].activation, rows[i].saved)
		}
		unit = unitFor(largest)
	}
	g := &Grid{}
	var columns []tableColumn
	for _, name := range names {
		c, err := findColumn(name)
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
		col := c.grid
		if c.sized {
			col.Title += ", " + unit.name
		}
		if exact {
			col.Title = c.name
		}
		g.Columns = append(g.Columns, col)
	}
	line := func(row *tableRow) []string {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(row, total, unit)
		}
		return cells
	}
	for i := range rows {
		g.Rows = append(g.Rows, line(&rows[i]))
	}
	g.Footer = line(total)
	for i, c := range columns {
		if c.name == "index" {
			g.Footer[i] = ""
		}
	}
	return g, nil
}

// saves reports whether anything is kept for backward.
func saves(r *estimate.Report) bool {
	return r.Activations.LossSaved > 0 ||
		slices.ContainsFunc(r.Layers, func(l module.Layer) bool { return l.SavedBytes > 0 })
}

// tableRows makes the rows of all layers, and their total.
func tableRows(r *estimate.Report) (rows []tableRow, total *tableRow) {
	total = &tableRow{layer: "total"}
	trains := saves(r)
	for l := range withLoss(r) {
		row := tableRow{
			index: len(rows), layer: layerName(l), op: l.Op, output: Outputs(l),
			params: l.Params, paramBytes: l.ParamBytes, activation: l.Activation, saved: l.SavedBytes, inPlace: l.InPlace,
		}
		row.kept = row.activation
		if trains {
			row.kept = row.saved
		}
		for _, t := range l.Outputs {
			row.unknown = row.unknown || t.Shape == nil
			if !slices.Contains(strings.Fields(row.dtype), t.DType) {
				row.dtype = strings.TrimSpace(row.dtype + " " + t.DType)
			}
		}
		row.atPeak = r.Peak != nil && r.Peak.Layer != "" && (r.Peak.Layer == row.layer || r.Peak.Layer == l.Name)
		total.activation += row.activation
		total.saved += row.saved
		total.kept += row.kept
		rows = append(rows, row)
	}
	total.paramBytes, total.params = r.Parameters.Bytes, r.Parameters.Count
	return rows, total
}
