package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// TableOptions say which rows and columns of the layers' table are wanted. The zero TableOptions is the
// table of Layers.
type TableOptions struct {
	Columns []string // names of TableColumns; nil is those of Layers
	Sort    string   // a column by whose size to sort, the largest first; "" is execution order
	Depth   int      // group by this many parts of the module's path; 0 does not group
	Top     int      // show this many rows, and the others as one; 0 shows all
	Exact   bool     // bytes and no separators, for programs
}

// A tableRow is a layer, or a group of them. Sizes are bytes.
type tableRow struct {
	index                                       int
	layer, op, output, dtype                    string
	layers                                      int
	params, paramBytes, activation, saved, kept int64
	inPlace, unknown, atPeak                    bool
}

// A tableColumn is a column that --columns can name.
type tableColumn struct {
	name  string
	grid  Column
	sized bool // its cells are bytes: the title has the unit
	cell  func(r *tableRow, t *tableRow, u sizeUnit) string
	value func(r *tableRow) int64 // for sorting; nil where it is no number
}

// tableColumns are the columns in the order in which help lists them.
var tableColumns = []tableColumn{
	{name: "index", grid: Column{Title: "#", Right: true, Spare: 6},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return strconv.Itoa(r.index) }},
	{name: "layer", grid: Column{Title: "layer", File: true},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.layer }},
	{name: "operator", grid: Column{Title: "operator", Code: true, Spare: 4},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.op }},
	{name: "output", grid: Column{Title: "output", Code: true, Spare: 3},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.output }},
	{name: "dtype", grid: Column{Title: "dtype", Spare: 5},
		cell: func(r, _ *tableRow, _ sizeUnit) string { return r.dtype }},
	{name: "parameters", grid: Column{Title: "parameters", Right: true, Spare: 2},
		cell:  func(r, _ *tableRow, u sizeUnit) string { return u.count(r.params) },
		value: func(r *tableRow) int64 { return r.params }},
	{name: "parameter-size", grid: Column{Title: "parameters", Right: true}, sized: true,
		cell:  func(r, _ *tableRow, u sizeUnit) string { return u.size(r.paramBytes) },
		value: func(r *tableRow) int64 { return r.paramBytes }},
	{name: "activation", grid: Column{Title: "activation", Right: true}, sized: true,
		cell: func(r, _ *tableRow, u sizeUnit) string {
			switch {
			case r.inPlace && r.activation == 0 && u.scale != exactUnit.scale:
				return "in place"
			case r.unknown && r.activation == 0:
				return "?"
			}
			return u.size(r.activation)
		},
		value: func(r *tableRow) int64 { return r.activation }},
	{name: "saved", grid: Column{Title: "saved", Right: true}, sized: true,
		cell:  func(r, _ *tableRow, u sizeUnit) string { return u.size(r.saved) },
		value: func(r *tableRow) int64 { return r.saved }},
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
		},
		value: (*tableRow).weight},
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

// TableColumns returns the names that TableOptions.Columns may have.
func TableColumns() []string {
	out := make([]string, len(tableColumns))
	for i, c := range tableColumns {
		out[i] = c.name
	}
	return out
}

// SortColumns returns the names that TableOptions.Sort may have.
func SortColumns() (out []string) {
	for _, c := range tableColumns {
		if c.value != nil {
			out = append(out, c.name)
		}
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

// Table returns the table of a report's layers as the options want it. Errors are about the options.
func Table(r *estimate.Report, opt TableOptions) (*Grid, error) {
	names := opt.Columns
	if names == nil {
		names = []string{"index", "layer", "operator", "output", "parameters", "activation", "saved", "share", "peak"}
	}
	rows, total := tableRows(r, opt.Depth)
	if opt.Sort != "" {
		c, err := findColumn(opt.Sort)
		if err == nil && c.value == nil {
			err = fmt.Errorf("column %q has no size to sort by, want %s", opt.Sort, strings.Join(SortColumns(), ", "))
		}
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(rows, func(a, b tableRow) int { return cmp.Compare(c.value(&b), c.value(&a)) })
	}
	rows = topRows(rows, opt.Top)
	unit := exactUnit
	if !opt.Exact {
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
		if opt.Exact {
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

// tableRows makes the rows of all layers, grouped where depth is above 0, and their total.
func tableRows(r *estimate.Report, depth int) (rows []tableRow, total *tableRow) {
	total = &tableRow{layer: "total"}
	at := map[string]int{} // rows by the name of their group
	trains := r.Activations.LossSaved > 0 || slices.ContainsFunc(r.Layers,
		func(l module.Layer) bool { return l.SavedBytes > 0 })
	i := -1
	for l := range withLoss(r) {
		i++
		row := tableRow{
			index: i, layer: layerName(l), op: Show(l.Op, nameWidth), output: Outputs(l), layers: 1,
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
		total.add(&row)
		group := groupOf(l, depth)
		if k, ok := at[group]; ok && depth > 0 {
			rows[k].add(&row)
			rows[k].op, rows[k].output, rows[k].dtype = Count(int64(rows[k].layers))+" layers", row.output, row.dtype
			rows[k].inPlace = false
			continue
		}
		if depth > 0 {
			at[group] = len(rows)
			row.layer = group
		}
		rows = append(rows, row)
	}
	total.paramBytes, total.params = r.Parameters.Bytes, r.Parameters.Count
	total.atPeak, total.unknown = false, false
	return rows, total
}

// add adds another row's figures.
func (r *tableRow) add(o *tableRow) {
	r.layers += o.layers
	r.params += o.params
	r.paramBytes += o.paramBytes
	r.activation += o.activation
	r.saved += o.saved
	r.kept += o.kept
	r.atPeak = r.atPeak || o.atPeak
	r.unknown = r.unknown || o.unknown
}

// groupOf returns the first parts of a layer's path: of its module, or its own name where it has none.
func groupOf(l *module.Layer, depth int) string {
	path := l.Module
	if path == "" || depth <= 0 {
		return layerName(l)
	}
	end := 0
	for range depth {
		i := strings.IndexByte(path[end:], '.')
		if i < 0 {
			return path
		}
		end += i + 1
	}
	return path[:end-1]
}

// topRows keeps the first rows, and adds up the others in one.
func topRows(rows []tableRow, top int) []tableRow {
	if top <= 0 || len(rows) <= top {
		return rows
	}
	rest := tableRow{index: rows[top].index, layer: "...", op: Count(int64(len(rows)-top)) + " more rows"}
	for i := range rows[top:] {
		rest.add(&rows[top+i])
	}
	return append(slices.Clip(rows[:top]), rest)
}
