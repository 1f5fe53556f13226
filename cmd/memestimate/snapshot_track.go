package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// A trackStep is one snapshot, with what changed since the one before.
type trackStep struct {
	File      string        `json:"file"`
	Requested int64         `json:"requested_bytes"`
	Allocated int64         `json:"allocated_bytes"`
	Changes   []trackChange `json:"changes"`

	name string // what the file is called
}

type trackChange struct {
	Sign  string `json:"sign"` // "+" appeared, "-" went
	Count int    `json:"count"`
	Each  int64  `json:"each_bytes"`
	Bytes int64  `json:"bytes"`
	Where string `json:"where"`
}

// snapshotTrackCommand follows a process through its snapshots, in the form of
// Pytorch-Memory-Utils' MemTracker.
func snapshotTrackCommand(e *env) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "track FILE FILE...",
		Short: "Tell what appeared and what went from each snapshot of a process to the next",
		Long: `Tell what appeared and what went from each snapshot of a process to the next, grouped by
size, with the totals: what Pytorch-Memory-Utils' MemTracker prints. A snapshot knows the bytes of an
allocation and the place in the program that made it, not the shape of the tensor. "Mb" and "M" are
1024 * 1024 bytes, as there.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("track: no FILE given").withHint("usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onceStdin(args); err != nil {
				return err
			}
			for _, a := range args {
				if err := o.check(snapshotSource(e, a)); err != nil {
					return err
				}
			}
			var before *snapshot.Snapshot
			var steps []trackStep
			var begun time.Time
			for i, a := range args {
				s, err := readSnapshot(e, a)
				if err != nil {
					return err
				}
				if i == 0 {
					begun = taken(s)
				}
				f := s.Figures(snapshot.AllDevices)
				step := trackStep{File: a, Requested: f.Requested, Allocated: f.Allocated, Changes: []trackChange{},
					name: snapshotSource(e, a).name}
				for _, c := range snapshot.Track(before, s) {
					sign := "+"
					if c.Gone {
						sign = "-"
					}
					step.Changes = append(step.Changes, trackChange{sign, c.Count, c.Requested, int64(c.Count) * c.Requested, c.Site})
				}
				steps, before = append(steps, step), s
			}
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return encodeJSON(w, trackList{trackForm, steps})
				}
				return trackText(w, begun, steps)
			})
		},
	}
	o.flags(cmd.Flags(), "text", "json")
	return cmd
}

// taken is when a snapshot's last event was recorded; zero where it has none.
func taken(s *snapshot.Snapshot) time.Time {
	var last int64
	for _, t := range s.Traces {
		if n := t.Len(); n > 0 {
			last = max(last, t.At(n-1).Time)
		}
	}
	if last == 0 {
		return time.Time{}
	}
	return time.UnixMicro(last).UTC()
}

func trackText(w io.Writer, begun time.Time, steps []trackStep) error {
	p := &printer{w: w}
	when := "unknown time"
	if !begun.IsZero() {
		when = begun.Format("02-Jan-06-15:04:05")
	}
	p.line("GPU Memory Track | %s | Total Tensor Used Memory:%-7.1fMb Total Used Memory:%-7.1fMb", when,
		mebi(steps[0].Requested), mebi(steps[0].Allocated))
	p.line("")
	for _, s := range steps {
		p.line("")
		for _, c := range s.Changes {
			p.line("%s | %d * Size:%-20s | Memory: %s M | %s", c.Sign, c.Count, "("+report.Count(c.Each)+" bytes)",
				trackSize(c.Bytes), report.Show(c.Where, 100))
		}
		if len(s.Changes) > 0 {
			p.line("")
		}
		p.line("At %-50s Total Tensor Used Memory:%-7.1fMb Total Allocated Memory:%-7.1fMb",
			report.Show(s.name, 50), mebi(s.Requested), mebi(s.Allocated))
	}
	return p.err
}

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// trackSize writes MiB as the tracker does: the first six characters of the number.
func trackSize(bytes int64) string {
	s := strconv.FormatFloat(mebi(bytes), 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	if len(s) > 6 && strings.IndexByte(s, '.') < 6 {
		s = strings.TrimSuffix(s[:6], ".")
	}
	return s
}

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
		r := snapshotDiff{snapshotDiffForm, map[string]map[string]int64{}, []placeDelta{}}
		for _, f := range rows {
			r.Figures[f.key] = map[string]int64{"base_bytes": f.was, "head_bytes": f.is}
		}
		for _, d := range deltas[:first(n, len(deltas))] {
			r.Places = append(r.Places, placeDelta{d.Label, d.Was, d.Is, d.WasNo, d.IsNo})
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
