package main

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/report/page"
	"github.com/memestimate/memestimate/snapshot"
)

// snapshotHTMLCommand draws one recording, or two over each other.
func snapshotHTMLCommand(e *env) *cobra.Command {
	var o output
	var d deviceFlag
	cmd := &cobra.Command{
		Use:   "html FILE [FILE]",
		Short: "Draw a snapshot, or two over each other, as a page that works offline",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("html: no FILE given").withHint("usage: %s", cmd.UseLine())
			}
			if len(args) > 2 {
				return usagef("html: %d files, wanted one or two", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onceStdin(args); err != nil {
				return err
			}
			var p page.Page
			var names []string
			for _, a := range args {
				in := snapshotSource(a)
				if err := o.check(in); err != nil {
					return err
				}
				s, err := readSnapshot(e, a)
				if err != nil {
					return err
				}
				device, err := d.of(s, a)
				if err != nil {
					return err
				}
				r, err := snapshotRun(s, a, device)
				if err != nil {
					return err
				}
				r.Name = in.name
				names = append(names, in.name)
				p.Runs = append(p.Runs, *r)
				p.Facts = append(p.Facts, snapshotFacts(s, device, r, len(args) > 1)...)
				p.Tables = append(p.Tables, segmentTable(r, len(args) > 1))
			}
			p.Title = strings.Join(names, " and ")
			return o.write(e, func(w io.Writer) error { return page.Write(w, &p) })
		},
	}
	d.flag(cmd)
	o.flags(cmd.Flags(), "html")
	return cmd
}

// snapshotRun is a device's recording as the page draws it.
func snapshotRun(s *snapshot.Snapshot, arg string, device int) (*page.Run, error) {
	h, err := history(s, arg, device)
	if err != nil {
		return nil, err
	}
	t, err := s.Timeline(device)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	r := &page.Run{Timeline: t, Allocated: h.Allocated.Bytes, Reserved: h.Reserved.Bytes, Levels: levels(s, device, h, t), Inferred: true}
	for i := range s.Segments {
		g := &s.Segments[i]
		if g.Device != device {
			continue
		}
		k := page.Segment{Addr: g.Addr, Bytes: g.Total, Kind: segmentKind(g)}
		for b := range g.Blocks {
			x := page.Block{Bytes: g.Blocks[b].Size, Used: g.Blocks[b].State != snapshot.Inactive}
			if x.Used && g.Blocks[b].Stack != 0 && len(s.Stack(g.Blocks[b].Stack)) > 0 {
				x.Label = s.Site(g.Blocks[b].Stack)
			}
			k.Blocks = append(k.Blocks, x)
		}
		r.Segments = append(r.Segments, k)
	}
	return r, nil
}

func segmentKind(g *snapshot.Segment) string {
	switch {
	case g.Expandable:
		return "expandable"
	case g.Small:
		return "small"
	}
	return "large"
}

// levels tells what was reserved along the timeline. Its allocations and frees
// come in the order of the trace, after those that were there before.
func levels(s *snapshot.Snapshot, device int, h *snapshot.History, t *timeline.Timeline) []page.Level {
	out := []page.Level{{Event: 0, Bytes: h.Start.Reserved}}
	if device >= len(s.Traces) {
		return out
	}
	// at is the timeline's event that comes next.
	at := len(h.Before)
	now := h.Start.Reserved
	live := map[int64]bool{}
	for _, b := range h.Before {
		live[b.Addr] = true
	}
	step := func() {
		for at < len(t.Events) && t.Events[at].Kind == timeline.Mark {
			at++
		}
		at++
	}
	for _, e := range s.Traces[device].All() {
		switch e.Action {
		case snapshot.Alloc:
			if live[e.Addr] {
				step() // the timeline frees what the trace forgot to
			}
			live[e.Addr] = true
			step()
		case snapshot.FreeRequested, snapshot.FreeCompleted:
			if live[e.Addr] {
				delete(live, e.Addr)
				step()
			}
		case snapshot.SegmentAlloc, snapshot.SegmentMap:
			now += e.Size
			out = append(out, page.Level{Event: min(at, len(t.Events)), Bytes: now})
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			now -= e.Size
			out = append(out, page.Level{Event: min(at, len(t.Events)), Bytes: now})
		}
	}
	return out
}

func snapshotFacts(s *snapshot.Snapshot, device int, r *page.Run, several bool) []page.Fact {
	name := ""
	if several {
		name = ", " + report.Show(r.Name, 60)
	}
	f := s.Figures(device)
	facts := []page.Fact{
		{Name: "Peak allocated" + name, Value: report.Size(r.Allocated)},
		{Name: "Peak reserved" + name, Value: report.Size(r.Reserved)},
		{Name: "Allocated at the end" + name, Value: report.Size(f.Allocated)},
		{Name: "Reserved at the end" + name, Value: report.Size(f.Reserved)},
		{Name: "Cached at the end" + name, Value: strconv.FormatFloat(f.Fragmentation()*100, 'f', 1, 64) + " %"},
	}
	if c := s.AllocConf(); c != "" {
		facts = append(facts, page.Fact{Name: "Settings" + name, Value: report.Show(c, 200)})
	}
	return facts
}

// segmentTable is the picture of the segments in numbers.
func segmentTable(r *page.Run, several bool) page.Table {
	title := "Segments"
	if several {
		title += ", " + report.Show(r.Name, 60)
	}
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Address"}, {Title: "Kind"}, {Title: "Size", Right: true}, {Title: "In use", Right: true}, {Title: "Free", Right: true}, {Title: "Largest free", Right: true}, {Title: "Blocks", Right: true}}}
	list := slices.Clone(r.Segments)
	slices.SortStableFunc(list, func(a, b page.Segment) int { return int(min(max(b.Bytes-a.Bytes, -1), 1)) })
	exact := func(n int64) string { return strconv.FormatInt(n, 10) + " B" }
	for i, s := range list {
		var used, largest int64
		for _, b := range s.Blocks {
			if b.Used {
				used += b.Bytes
			} else {
				largest = max(largest, b.Bytes)
			}
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), "0x" + strconv.FormatInt(s.Addr, 16), s.Kind, exact(s.Bytes), exact(used), exact(s.Bytes - used), exact(largest), strconv.Itoa(len(s.Blocks))})
	}
	return page.Table{Title: title, Grid: g}
}
