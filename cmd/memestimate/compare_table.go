package main

import (
	"strconv"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot/compare"
)

// comparisonGrids are the comparison's tables for people.
func comparisonGrids(c *compare.Comparison) (out []*report.Grid) {
	add := func(first string, file bool, ds []compare.Difference) {
		if len(ds) == 0 {
			return
		}
		g := &report.Grid{Columns: []report.Column{{Title: first, File: file}, {Title: "predicted", Right: true},
			{Title: "measured", Right: true}, {Title: "difference", Right: true}, {Title: "", Right: true}}}
		for _, d := range ds {
			g.Rows = append(g.Rows, []string{d.Name, report.Size(d.Predicted), report.Size(d.Measured),
				report.Size(d.Difference), percent(d)})
		}
		out = append(out, g)
	}
	add("peak", false, c.Peaks)
	add("at the peak, as requested", false, c.Categories)
	add("peak of phase, as requested", false, c.Phases)
	if len(c.Layers) > compare.MostGaps {
		add("layer at the peak", true, c.Layers[:compare.MostGaps])
	} else {
		add("layer at the peak", true, c.Layers)
	}
	if len(c.Tensors) > 0 {
		g := &report.Grid{Columns: []report.Column{
			{Title: "tensors at the peak, of", Right: true}, {Title: "predicted", Right: true}, {Title: "measured",
				Right: true}, {Title: "difference", Right: true}, {Title: "layer", File: true}, {Title: "measured at", File: true},
		}}
		for _, t := range c.Tensors {
			g.Rows = append(g.Rows, []string{report.Size(t.Bytes), strconv.Itoa(t.Predicted), strconv.Itoa(t.Measured),
				report.Size(t.Difference), t.Layer, t.Site})
		}
		out = append(out, g)
	}
	if c.Course != nil {
		out = append(out, courseGrids(c.Course)...)
	}
	return out
}

// mostModules is how many lines of modules people get; the JSON has every module.
const mostModules = 40

// courseGrids are a step of both runs: what they hold within each module, and where they part.
func courseGrids(c *compare.Course) (out []*report.Grid) {
	if len(c.Modules) > 0 {
		g := &report.Grid{Columns: []report.Column{
			{Title: "most held, as requested, in"}, {Title: "module", File: true}, {Title: "predicted",
				Right: true}, {Title: "measured", Right: true}, {Title: "difference", Right: true}, {Title: "", Right: true},
		}}
		g.Rows = append(g.Rows, []string{"before the step", "", report.Size(c.Begin.Predicted),
			report.Size(c.Begin.Measured), report.Size(c.Begin.Difference), percent(c.Begin)})
		for _, m := range c.Within(mostModules) {
			g.Rows = append(g.Rows, []string{m.Phase, m.Name, report.Size(m.Predicted), report.Size(m.Measured),
				report.Size(m.Difference.Difference), percent(m.Difference)})
		}
		out = append(out, g)
	}
	if len(c.Partings) > 0 {
		g := &report.Grid{Columns: []report.Column{
			{Title: "part at event", Right: true}, {Title: "of"}, {Title: "predicted", Right: true}, {Title: "at most",
				Right: true},
			{Title: "measured", Right: true}, {Title: "at most", Right: true}, {Title: "layer",
				File: true}, {Title: "measured at", File: true},
		}}
		for _, p := range c.Partings {
			g.Rows = append(g.Rows, []string{
				strconv.Itoa(p.MeasuredEvent), p.Phase, change(p.Predicted), change(p.PredictedMost), change(p.Measured),
				change(p.MeasuredMost), p.Layer, p.Site,
			})
		}
		out = append(out, g)
	}
	return out
}

// change is a size with its sign.
func change(n int64) string {
	if n > 0 {
		return "+" + report.Size(n)
	}
	return report.Size(n)
}
