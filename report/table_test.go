package report

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/test/must"
)

// modules returns a report of layers in modules two parts deep.
func modules() *estimate.Report {
	r := fake(12, []string{"a"})
	r.Parameters = module.Tensors{}
	for i := range r.Layers {
		l := &r.Layers[i]
		l.Module = "block" + strconv.Itoa(i/4) + ".part" + strconv.Itoa(i/2) + ".leaf" + strconv.Itoa(i)
		l.Name, l.Nodes, l.SavedBytes = l.Module, 2, 1000*int64(12-i)
		r.Parameters.Count += l.Params
		r.Parameters.Bytes += l.ParamBytes
	}
	r.Peak = &estimate.Peak{Layer: r.Layers[5].Name}
	return r
}

// cell returns a column's cells.
func column(t *testing.T, r *estimate.Report, name string) []string {
	t.Helper()
	g, err := Table(r, []string{name}, true)
	must.OK(t, err)
	var out []string
	for _, row := range g.Rows {
		out = append(out, row[0])
	}
	return append(out, g.Footer[0])
}

// Each column adds up to its total.
func TestTableAddsUp(t *testing.T) {
	r := modules()
	r.Activations.LossSaved = 7001
	for _, name := range []string{"parameters", "parameter-size", "activation", "saved", "share"} {
		cells := column(t, r, name)
		sum := 0.0
		for i, s := range cells {
			v, err := strconv.ParseFloat(s, 64)
			must.OK(t, err)
			if i < len(cells)-1 {
				sum += v
			} else if sum-v > 0.6 || v-sum > 0.6 {
				t.Errorf("%s adds up to %v, the total is %v", name, sum, v)
			}
		}
	}
}

// What the loss keeps is a row of each form of the layers, so that the column adds up to all that is kept.
func TestLossHasARow(t *testing.T) {
	r := modules()
	r.Settings.Loss, r.Activations.LossSaved, r.Model.Nodes = "cross-entropy", 1<<20, 99
	for _, l := range r.Layers {
		r.Activations.Saved += l.SavedBytes
	}
	r.Activations.Saved += r.Activations.LossSaved
	g := Layers(r, false)
	last := g.Rows[len(g.Rows)-1]
	if len(g.Rows) != 13 || last[1] != "loss" || last[2] != "cross-entropy" || last[6] != "1.00" || g.Footer[6] != "1.07" {
		t.Errorf("%q, in all %q", last, g.Footer)
	}
	exact := Layers(r, true)
	if last := exact.Rows[12]; last[0] != "99" || last[1] != "loss" || last[11] != "1048576" {
		t.Errorf("%q", last)
	}
	if cells := column(t, r, "layer"); cells[12] != "loss" {
		t.Errorf("%q", cells)
	}
	if len(r.Layers) != 12 {
		t.Errorf("the report has %d layers now", len(r.Layers))
	}
	r.Activations.LossSaved = 0
	if n := len(Layers(r, false).Rows); n != 12 {
		t.Errorf("%d rows of 12 layers and a loss that keeps nothing", n)
	}
}

func TestTableRefusesUnknownColumns(t *testing.T) {
	if _, err := Table(modules(), []string{"size"}, false); err == nil || !strings.Contains(err.Error(), "want index, ") {
		t.Error(err)
	}
}

// Hostile names keep the table's shape in Markdown too.
func TestTableWithHostileNames(t *testing.T) {
	g, err := Table(fake(len(hostile), hostile), nil, false)
	must.OK(t, err)
	var b bytes.Buffer
	must.OK(t, g.Markdown(&b, MarkdownLimit))
	for line := range strings.Lines(b.String()) {
		if strings.Count(line, "|") != len(g.Columns)+1 {
			t.Errorf("line %q", line)
		}
	}
}
