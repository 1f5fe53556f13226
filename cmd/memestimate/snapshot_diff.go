package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// snapshotDiffCommand sets two runs beside each other.
func snapshotDiffCommand(e *env) *cobra.Command {
	var o output
	var g grouping
	var d deviceFlag
	var n int
	cmd := &cobra.Command{
		Use:   "diff BASE HEAD",
		Short: "Tell what two runs hold differently, at their peaks or at any other time",
		Args:  exactly("BASE", "HEAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var groups [2][]snapshot.Group
			var figures [2]snapshot.Figures
			var peaks [2][2]int64
			if n < 0 {
				return usagef("--count %d, wanted 0 (all) or more", n)
			}
			if err := onceStdin(args); err != nil {
				return err
			}
			for i, a := range args {
				s, device, err := d.open(e, &o, a)
				if err != nil {
					return err
				}
				if groups[i], _, err = g.groups(s, a, device); err != nil {
					return err
				}
				h, err := history(s, a, device)
				if err != nil {
					return err
				}
				figures[i], peaks[i] = s.Figures(device), [2]int64{h.Allocated.Bytes, h.Reserved.Bytes}
			}
			rows := []figureRow{
				{"peak_allocated", "allocated at the peak", peaks[0][0], peaks[1][0]},
				{"peak_reserved", "reserved at the peak", peaks[0][1], peaks[1][1]},
				{"allocated", "allocated at the end", figures[0].Allocated, figures[1].Allocated},
				{"reserved", "reserved at the end", figures[0].Reserved, figures[1].Reserved},
				{"inactive_split", "split and cached at the end", figures[0].InactiveSplit.Bytes, figures[1].InactiveSplit.Bytes},
			}
			deltas := snapshot.Compare(groups[0], groups[1])
			return o.write(e, func(w io.Writer) error { return diffWrite(w, e, &o, rows, deltas, n) })
		},
	}
	g.flags(cmd)
	d.flag(cmd)
	cmd.Flags().IntVarP(&n, "count", "n", 20, "how many places; 0 for all")
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

type figureRow struct {
	key, name string
	was, is   int64
}

func diffWrite(w io.Writer, e *env, o *output, rows []figureRow, deltas []snapshot.Delta, n int) error {
	if o.format == "json" {
		r := snapshotDiff{snapshotDiffForm, map[string]map[string]int64{},
			append([]snapshot.Delta{}, deltas[:first(n, len(deltas))]...)}
		for _, f := range rows {
			r.Figures[f.key] = map[string]int64{"base_bytes": f.was, "head_bytes": f.is}
		}
		return encodeJSON(w, r)
	}
	columns := func(last report.Column) []report.Column {
		return []report.Column{{Title: "Base", Right: true}, {Title: "Head", Right: true}, {Title: "Change", Right: true},
			{Title: "Count", Right: true}, last}
	}
	places := &report.Grid{Columns: columns(report.Column{Title: "Where", File: true})}
	for _, d := range deltas[:first(n, len(deltas))] {
		places.Rows = append(places.Rows, []string{report.Size(d.Was), report.Size(d.Is), signed(d.Is - d.Was),
			fmt.Sprintf("%d > %d", d.WasNo, d.IsNo), d.Label})
	}
	figures := &report.Grid{Columns: columns(report.Column{Title: "What"})}
	for _, f := range rows {
		figures.Rows = append(figures.Rows, []string{report.Size(f.was), report.Size(f.is), signed(f.is - f.was), "", f.name})
	}
	if o.format == "csv" {
		// One table: spreadsheets know no second one.
		figures.Columns[4].File = true
		figures.Rows = append(figures.Rows, places.Rows...)
		return o.grid(w, e, figures)
	}
	if err := o.grid(w, e, figures); err != nil {
		return err
	}
	if len(places.Rows) == 0 {
		_, err := fmt.Fprintln(w, "\nThe same places hold the same.")
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return o.grid(w, e, places)
}

// signed writes a difference of sizes.
func signed(bytes int64) string {
	if bytes > 0 {
		return "+" + report.Size(bytes)
	}
	return report.Size(bytes)
}
