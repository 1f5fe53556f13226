package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/gate/diff"
)

// totalNames are the totals of a diff as people read them.
var totalNames = map[string]string{
	diff.Parameters:  "parameters",
	diff.Buffers:     "buffers",
	diff.Activations: "activations",
	diff.Saved:       "saved for backward",
	diff.LossSaved:   "saved by the loss",
	diff.Gradients:   "gradients",
	diff.Optimizer:   "optimizer state",
	diff.Allocated:   "allocated at the peak",
	diff.Reserved:    "reserved at the peak",
	diff.Device:      "device memory",
	diff.Likely:      "likely device memory",
	diff.Safe:        "safe device memory",
	diff.Upper:       "upper bound",
}

// TotalName returns a total of a diff as people read it.
func TotalName(total string) string { return totalNames[total] }

// shownRenames is how many layers that are only renamed a text lists.
const shownRenames = 10

// Signed writes a change of bytes: "+97.49 MiB", or "0 B".
func Signed(bytes int64) string {
	if bytes > 0 {
		return "+" + Size(bytes)
	}
	return Size(bytes)
}

// Percent writes a change in percent, "new" where there was nothing before, and from ten times as much on
// how many times that is.
func Percent(t diff.Total) string {
	switch {
	case t.Change == 0:
		return "="
	case t.Percent == nil:
		return "new"
	}
	if *t.Percent >= 900 {
		return Count(int64(math.Round(float64(t.After)/float64(t.Before)))) + "x"
	}
	return fmt.Sprintf("%+.2f %%", *t.Percent)
}

// DiffTotals returns the totals that change, and the device memory even when it does not; same
// names the others.
func DiffTotals(c *diff.Case) (g *Grid, same []string) {
	g = &Grid{Columns: append([]Column{{Title: "what"}}, totalColumns...)}
	for _, t := range c.Totals {
		if t.Change == 0 && t.Name != diff.Device {
			same = append(same, totalNames[t.Name])
			continue
		}
		g.Rows = append(g.Rows, totalRow(totalNames[t.Name], t))
	}
	return g, same
}

// totalColumns are those of the figures of a total.
var totalColumns = []Column{{Title: "before", Right: true, Spare: 2}, {Title: "after", Right: true},
	{Title: "change", Right: true}, {Title: "percent", Right: true, Spare: 1}}

func totalRow(name string, t diff.Total) []string {
	return []string{name, Size(t.Before), Size(t.After), Signed(t.Change), Percent(t)}
}

// DiffCases returns a row for each case of a diff: the device memory, or the activations where no
// run was simulated.
func DiffCases(d *diff.Diff) *Grid {
	g := &Grid{Columns: append([]Column{{Title: "settings"}, {Title: "what"}}, totalColumns...)}
	for i := range d.Cases {
		t := headline(&d.Cases[i])
		g.Rows = append(g.Rows, append([]string{d.Cases[i].Label}, totalRow(totalNames[t.Name], t)...))
	}
	return g
}

// headline is the one figure that a case is about.
func headline(c *diff.Case) diff.Total {
	if t := c.Total(diff.Device); t.Name != "" {
		return t
	}
	return c.Total(diff.Activations)
}

// DiffLayers returns the layers that change; only is the kinds that are wanted. Names are cut to
// limit bytes.
func DiffLayers(c *diff.Case, limit int, only ...string) *Grid {
	g := &Grid{Columns: []Column{{Title: "change"}, {Title: "layer", Code: true},
		{Title: "operator", Code: true, Spare: 4}, {Title: "output", Code: true, Spare: 3},
		{Title: "parameters", Right: true, Spare: 2}, {Title: "activation", Right: true},
		{Title: "saved", Right: true, Spare: 1}}}
	for _, l := range c.Layers {
		if !slices.Contains(only, l.Kind) {
			continue
		}
		g.Rows = append(g.Rows, []string{
			l.Kind,
			fromTo(l, func(l *module.Layer) string { return Show(layerName(l), limit) }),
			fromTo(l, func(l *module.Layer) string { return Show(l.Op, limit) }),
			fromTo(l, Outputs),
			signedCount(l.Params), signedSize(l.Activation), signedSize(l.Saved),
		})
	}
	return g
}

// fromTo writes what both layers of a change have, or where they differ "a -> b".
func fromTo(c diff.Change, of func(*module.Layer) string) string {
	switch {
	case c.Base == nil:
		return of(c.Head)
	case c.Head == nil:
		return of(c.Base)
	}
	a, b := of(c.Base), of(c.Head)
	if a == b {
		return a
	}
	return a + " -> " + b
}

func signedCount(n int64) string {
	if n > 0 {
		return "+" + Count(n)
	}
	return Count(n)
}

func signedSize(bytes int64) string {
	if bytes == 0 {
		return "0"
	}
	return Signed(bytes)
}

// DiffSummary says in a few words what happens to the layers of a case.
func DiffSummary(c *diff.Case) string {
	var parts []string
	for _, kind := range []string{diff.Added, diff.Removed, diff.Changed, diff.Renamed} {
		if n := c.Count(kind); n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", Count(int64(n)), kind))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("no layer changes, of %s", Count(int64(c.Same)))
	}
	return fmt.Sprintf("layers: %s, %s the same", strings.Join(parts, ", "), Count(int64(c.Same)))
}

// DiffSettings describes the settings of a case in one line: the base's too where they differ.
func DiffSettings(c *diff.Case) string {
	b, h := settingsParts(c.Base), settingsParts(c.Head)
	var parts []string
	for i := range b {
		switch {
		case b[i] == h[i] && h[i] == "":
		case b[i] == h[i]:
			parts = append(parts, h[i])
		default:
			parts = append(parts, cmp.Or(b[i], "none")+" -> "+cmp.Or(h[i], "none"))
		}
	}
	return strings.Join(parts, ", ")
}

// settingsParts are the settings that most runs differ in, in their order; "" is one that is not there.
func settingsParts(s estimate.Settings) []string {
	parts := []string{"", s.Mode, string(s.Precision), s.Optimizer, "", ""}
	if s.Batch > 0 {
		parts[0] = "batch " + strconv.FormatInt(s.Batch, 10)
	}
	if s.Loss != "" {
		parts[4] = "loss " + s.Loss
	}
	if s.GPU != "" {
		parts[5] = "on " + Show(s.GPU, nameWidth)
	}
	return parts
}

// DiffText writes a diff for a terminal. For width see Grid.Text. Of the layers those are shown whose memory changes
// the most, so many of each case, or with 0 all.
func DiffText(w io.Writer, d *diff.Diff, width, layers int) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "base %s: %s nodes\nhead %s: %s nodes\n", Show(d.Base.Name, nameWidth), Count(int64(d.Base.Nodes)),
		Show(d.Head.Name, nameWidth), Count(int64(d.Head.Nodes)))
	if len(d.Cases) > 1 {
		fmt.Fprintln(b)
		DiffCases(d).Text(b, width)
	}
	for i := range d.Cases {
		c := &d.Cases[i]
		if s := DiffSettings(c); s != "" {
			fmt.Fprintf(b, "\nsettings: %s\n", s)
		}
		caseText(b, c, width, layers)
	}
	return b.Flush() // with the first error of all
}

func caseText(b *bufio.Writer, c *diff.Case, width, layers int) {
	if c.Empty() {
		fmt.Fprintf(b, "nothing changes: %s layers, %s %s\n", Count(int64(c.Same)), totalNames[headline(c).Name],
			Size(headline(c).After))
		return
	}
	totals, same := DiffTotals(c)
	fmt.Fprintln(b)
	totals.Text(b, width)
	if len(same) > 0 {
		fmt.Fprintf(b, "the same: %s\n", strings.Join(same, ", "))
	}
	fmt.Fprintf(b, "\n%s\n", DiffSummary(c))
	kinds := []string{diff.Added, diff.Removed, diff.Changed}
	renames := DiffLayers(c, nameWidth, diff.Renamed)
	if len(renames.Rows) <= shownRenames {
		kinds = append(kinds, diff.Renamed)
	} else {
		fmt.Fprintf(b, "renamed: %s, and %s more\n", renames.Rows[0][1], Count(int64(len(renames.Rows)-1)))
	}
	shown, left := heaviest(c, kinds, layers)
	if g := DiffLayers(shown, nameWidth, kinds...); len(g.Rows) > 0 {
		fmt.Fprintln(b)
		g.Text(b, width)
	}
	if left > 0 {
		fmt.Fprintf(b, "%s more layers change less: --full lists all\n", Count(int64(left)))
	}
	if s := peakMove(c); s != "" {
		fmt.Fprintf(b, "%s\n", s)
	}
	if c.Partial {
		fmt.Fprintln(b, "warning: not every operator is modelled: the figures are lower bounds")
	}
}

// heaviest returns a case with those layers of some kinds whose memory changes the most, in their order, and how many
// are left out; with 0 none is.
func heaviest(c *diff.Case, kinds []string, most int) (shown *diff.Case, left int) {
	weight := func(l *diff.Change) int64 {
		return max(l.Activation, -l.Activation) + max(l.Saved, -l.Saved) + 4*max(l.Params, -l.Params)
	}
	var order []int
	for i := range c.Layers {
		if slices.Contains(kinds, c.Layers[i].Kind) {
			order = append(order, i)
		}
	}
	if most == 0 || len(order) <= most {
		return c, 0
	}
	left = len(order) - most
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(weight(&c.Layers[j]), weight(&c.Layers[i])) })
	slices.Sort(order[:most])
	few := *c
	few.Layers = make([]diff.Change, 0, most)
	for _, i := range order[:most] {
		few.Layers = append(few.Layers, c.Layers[i])
	}
	return &few, left
}

// PeakMove returns the layers that the peak moves from and to, and whether it does: a layer that was only renamed is
// the same.
func PeakMove(c *diff.Case) (before, after string, moved bool) {
	if c.PeakBase == c.PeakHead || c.PeakBase == "" || c.PeakHead == "" {
		return "", "", false
	}
	for _, l := range c.Layers {
		if l.Base != nil && l.Head != nil && layerName(l.Base) == c.PeakBase && layerName(l.Head) == c.PeakHead {
			return "", "", false
		}
	}
	return c.PeakBase, c.PeakHead, true
}

// peakMove says that the peak is in another layer now, or "".
func peakMove(c *diff.Case) string {
	before, after, moved := PeakMove(c)
	if !moved {
		return ""
	}
	return fmt.Sprintf("the peak moves from %s to %s", Show(before, nameWidth), Show(after, nameWidth))
}

// DiffCSV writes the layers that change, a row for each under each settings, with sizes in bytes.
func DiffCSV(w io.Writer, d *diff.Diff) error {
	g := &Grid{Columns: []Column{{Title: "settings"}, {Title: "change"}, {Title: "base_layer", File: true},
		{Title: "head_layer", File: true}, {Title: "base_op", File: true}, {Title: "head_op", File: true},
		{Title: "base_outputs"}, {Title: "head_outputs"}, {Title: "parameters_change"}, {Title: "parameter_bytes_change"},
		{Title: "activation_bytes_change"}, {Title: "saved_bytes_change"}}}
	cells := func(l *module.Layer) (name, op, outs string) {
		if l == nil {
			return "", "", ""
		}
		return layerName(l), l.Op, strings.ReplaceAll(Outputs(l), ", ", "x")
	}
	for i := range d.Cases {
		for _, l := range d.Cases[i].Layers {
			bn, bo, bs := cells(l.Base)
			hn, ho, hs := cells(l.Head)
			g.Rows = append(g.Rows, []string{d.Cases[i].Label, l.Kind, bn, hn, bo, ho, bs, hs, exactUnit.count(l.Params),
				exactUnit.size(l.ParamBytes), exactUnit.size(l.Activation), exactUnit.size(l.Saved)})
		}
	}
	return g.CSV(w)
}
