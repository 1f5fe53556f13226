package report

import (
	"strconv"

	"github.com/memestimate/memestimate/snapshot/compare"
)

// Comparison are the comparison's tables for people.
func Comparison(c *compare.Comparison) (out []*Grid) {
	add := func(first string, file bool, ds []compare.Difference) {
		if len(ds) == 0 {
			return
		}
		g := &Grid{Columns: []Column{{Title: first, File: file}, {Title: "predicted", Right: true},
			{Title: "measured", Right: true}, {Title: "difference", Right: true}, {Title: "", Right: true}}}
		for _, d := range ds {
			g.Rows = append(g.Rows, []string{d.Name, Size(d.Predicted), Size(d.Measured),
				Size(d.Difference), off(d)})
		}
		out = append(out, g)
	}
	add("peak", false, c.Peaks)
	add("at the peak, as requested", false, c.Categories)
	add("peak of phase, as requested", false, c.Phases)
	add("layer at the peak", true, c.Layers[:min(len(c.Layers), compare.MostGaps)])
	if len(c.Tensors) > 0 {
		g := &Grid{Columns: []Column{{Title: "tensors at the peak, of", Right: true}, {Title: "predicted", Right: true},
			{Title: "measured", Right: true}, {Title: "difference", Right: true}, {Title: "layer", File: true},
			{Title: "measured at", File: true}}}
		for _, t := range c.Tensors {
			g.Rows = append(g.Rows, []string{Size(t.Bytes), strconv.Itoa(t.Predicted), strconv.Itoa(t.Measured),
				Size(t.Difference), t.Layer, t.Site})
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
func courseGrids(c *compare.Course) (out []*Grid) {
	if len(c.Modules) > 0 {
		g := &Grid{Columns: []Column{{Title: "most held, as requested, in"}, {Title: "module", File: true},
			{Title: "predicted", Right: true}, {Title: "measured", Right: true}, {Title: "difference", Right: true},
			{Title: "", Right: true}}}
		g.Rows = append(g.Rows, []string{"before the step", "", Size(c.Begin.Predicted),
			Size(c.Begin.Measured), Size(c.Begin.Difference), off(c.Begin)})
		for _, m := range c.Within(mostModules) {
			g.Rows = append(g.Rows, []string{m.Phase, m.Name, Size(m.Predicted), Size(m.Measured),
				Size(m.Difference.Difference), off(m.Difference)})
		}
		out = append(out, g)
	}
	if len(c.Partings) > 0 {
		g := &Grid{Columns: []Column{{Title: "part at event", Right: true}, {Title: "of"}, {Title: "predicted", Right: true},
			{Title: "at most", Right: true}, {Title: "measured", Right: true}, {Title: "at most", Right: true},
			{Title: "layer", File: true}, {Title: "measured at", File: true}}}
		for _, p := range c.Partings {
			g.Rows = append(g.Rows, []string{
				strconv.Itoa(p.MeasuredEvent), p.Phase, Signed(p.Predicted), Signed(p.PredictedMost), Signed(p.Measured),
				Signed(p.MeasuredMost), p.Layer, p.Site,
			})
		}
		out = append(out, g)
	}
	return out
}

// off says how far a prediction is off: "+1.5 %".
func off(d compare.Difference) string {
	if d.Measured == 0 {
		if d.Predicted == 0 {
			return "0.0 %"
		}
		return "not measured"
	}
	return Change(d.Measured, d.Predicted)
}
