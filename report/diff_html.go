package report

import (
	_ "embed"
	"html/template"
	"io"
	"sync"

	"github.com/memestimate/memestimate/diff"
)

//go:embed diff.html
var diffPage string

var diffTemplate = sync.OnceValue(
	func() *template.Template { return template.Must(template.New("diff").Parse(diffPage)) })

// A diffSection is what the page shows about one case.
type diffSection struct {
	Label, Settings, Summary, Peak string
	Totals, Layers                 *Grid
	Partial                        bool
}

// DiffHTML writes a diff as one page without scripts that needs no network.
func DiffHTML(w io.Writer, d *diff.Diff) error {
	data := struct {
		Base, Head string
		Empty      bool
		Cases      *Grid
		Sections   []diffSection
	}{Base: Show(d.Base.Name, nameWidth), Head: Show(d.Head.Name, nameWidth), Empty: d.Empty()}
	if len(d.Cases) > 1 {
		data.Cases = DiffCases(d)
	}
	for i := range d.Cases {
		c := &d.Cases[i]
		totals, _ := DiffTotals(c)
		data.Sections = append(data.Sections, diffSection{
			Label: c.Label, Settings: DiffSettings(c), Summary: DiffSummary(c), Peak: peakMove(c), Partial: c.Partial,
			Totals: totals,
			Layers: DiffLayers(c, 2*nameWidth, diff.Added, diff.Removed, diff.Changed, diff.Renamed),
		})
	}
	return diffTemplate().Execute(w, data)
}
