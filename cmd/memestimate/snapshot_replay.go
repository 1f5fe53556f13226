package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/snapshot/replay"
	"github.com/memestimate/memestimate/spelling"
)

// replayed is one row of "snapshot replay".
type replayed struct {
	Settings      string   `json:"alloc_conf"`
	Recorded      bool     `json:"recorded"` // the recording's own
	PeakAllocated int64    `json:"peak_allocated_bytes"`
	PeakReserved  int64    `json:"peak_reserved_bytes"`
	Reserved      int64    `json:"end_reserved_bytes"`
	OOM           string   `json:"oom"` // yes, no, perhaps; "" where memory did not run out
	Doubts        []string `json:"doubts"`
}

// snapshotReplayCommand tries other allocator settings on a recording.
func snapshotReplayCommand(e *env) *cobra.Command {
	var o output
	var d deviceFlag
	var confs []string
	var limit string
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Run the recorded requests under other allocator settings: what would they have saved?",
		Long: `Run the recorded requests through the simulated allocator, first as recorded, then under each
--alloc-conf (spelt as PYTORCH_CUDA_ALLOC_CONF). Where the recording ran out of memory, or a --capacity is
given, say whether that would have happened. What the allocator may reserve is not in the file: it lies
between what it had and what it could not get, and where that decides, the answer is "perhaps".
Exit code 1: memory runs out under every setting tried.`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var capacity int64
			if limit != "" {
				var err error
				if capacity, err = spelling.Size(limit); err != nil || capacity <= 0 {
					return usagef("--capacity %q, wanted a size such as 24GiB", limit)
				}
			}
			s, device, err := d.open(e, &o, args[0])
			if err != nil {
				return err
			}
			rows, err := replayAll(s, args[0], device, confs, capacity)
			if err != nil {
				return err
			}
			err = o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return encodeJSON(w, replayJSON{replayForm, args[0], device, rows})
				}
				if err := o.grid(w, e, replayGrid(rows)); err != nil || o.format == "csv" {
					return err
				}
				p := &printer{w: w}
				for i, r := range rows {
					p.doubts(fmt.Sprintf("run %d", i), r.Doubts)
				}
				return p.err
			})
			if err != nil {
				return err
			}
			for _, r := range rows[1:] {
				if r.OOM != "yes" {
					return nil
				}
			}
			return &exitError{code: exitNo}
		},
	}
	cmd.Flags().StringArrayVar(&confs, "alloc-conf", []string{"expandable_segments:True", "max_split_size_mb:128"},
		"settings to try; may be given more than once")
	cmd.Flags().StringVar(&limit, "capacity", "", "what the allocator may reserve (as recorded, where it ran out)")
	d.flag(cmd)
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

func replayAll(s *snapshot.Snapshot, arg string, device int, confs []string, capacity int64) ([]replayed, error) {
	h, err := history(s, arg, device)
	if err != nil {
		return nil, err
	}
	low, high, bounded := replay.Capacity(h)
	if capacity > 0 {
		low, high, bounded = capacity, capacity+1, true
	}
	r, err := replay.Recorded(s, device)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	row := replayed{Settings: r.Conf, Recorded: true, PeakAllocated: r.PeakAllocated, PeakReserved: r.PeakReserved,
		Reserved: r.EndReserved, Doubts: append([]string{}, r.Doubts...)}
	switch {
	case len(h.OOMs) > 0:
		row.OOM = "yes"
	case bounded && r.PeakReserved > capacity:
		row.OOM = "" // it had more than this
	case bounded:
		row.OOM = "no"
	}
	rows := []replayed{row}
	for _, c := range confs {
		r, err := replay.Under(s, device, c, 0)
		if err != nil {
			return nil, usagef("--alloc-conf %w", err)
		}
		row := replayed{Settings: c, PeakAllocated: r.PeakAllocated, PeakReserved: r.PeakReserved, Reserved: r.EndReserved,
			Doubts: append([]string{}, r.Doubts...)}
		if bounded {
			var ran [2]bool
			for i, n := range [2]int64{low, high - 1} {
				r, err := replay.Under(s, device, c, n)
				if err != nil {
					return nil, usagef("--alloc-conf %w", err)
				}
				ran[i] = len(r.Failed) > 0
				if i == 1 {
					// The peaks within what there was.
					row.PeakAllocated, row.PeakReserved, row.Reserved = r.PeakAllocated, r.PeakReserved, r.EndReserved
				}
			}
			row.OOM = "perhaps"
			if ran[0] == ran[1] {
				row.OOM = map[bool]string{true: "yes", false: "no"}[ran[0]]
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func replayGrid(rows []replayed) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Peak allocated", Right: true},
		{Title: "Peak reserved", Right: true}, {Title: "Change", Right: true},
		{Title: "Reserved at the end", Right: true}, {Title: "Out of memory"}, {Title: "Run"}, {Title: "Settings",
			File: true}}}
	for i, r := range rows {
		run, conf := "tried", r.Settings
		if r.Recorded {
			run = "as recorded"
		}
		if conf == "" {
			conf = "default"
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(i), report.Size(r.PeakAllocated), report.Size(r.PeakReserved),
			signed(r.PeakReserved - rows[0].PeakReserved), report.Size(r.Reserved), r.OOM, run, conf})
	}
	return g
}
