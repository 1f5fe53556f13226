package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

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
				in := snapshotSource(e, a)
				s, device, err := d.open(e, &o, a)
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
				if err := oomOnPage(&p, s, device, a, r.Name, len(args) > 1); err != nil {
					return err
				}
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
	p, err := s.Play(device)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	begin, err := s.StateAt(device, -1)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	h := p.History
	r := &page.Run{Timeline: p.Timeline.Source(), Allocated: h.Allocated.Bytes, Reserved: h.Reserved.Bytes, Inferred: true}
	trace := s.Trace(device)
	t := &page.Trace{Events: trace.Len(), Number: p.Number, Blocks: make([]page.TraceBlock, len(p.Blocks))}
	stacks := map[snapshot.StackID]int32{}
	for i := range s.Frames {
		t.Frames = append(t.Frames, s.Frames[i].String())
	}
	for i, l := range p.Blocks {
		k, ok := stacks[l.Stack]
		if frames := s.Stack(l.Stack); !ok && len(frames) > 0 {
			k = int32(len(t.Stacks))
			calls := make([]int32, len(frames))
			for n, f := range frames {
				calls[n] = int32(f)
			}
			t.Stacks = append(t.Stacks, calls)
			stacks[l.Stack] = k
		} else if !ok {
			k = -1
		}
		t.Blocks[i] = page.TraceBlock{Addr: l.Addr, Bytes: l.Size, Stack: k, Stream: l.Stream}
	}
	for i := range begin {
		g := &begin[i]
		t.Begin = append(t.Begin, page.TraceSegment{Addr: g.Addr, Bytes: g.Total, Stream: g.Stream, Kind: segmentKind(g)})
	}
	now := h.Start.Reserved
	r.Levels = []page.Level{{Event: -len(h.Before), Bytes: now}}
	for i, e := range trace.All() {
		g := page.TraceSegment{Event: i, Addr: e.Addr, Bytes: e.Size, Stream: s.Streams[e.Stream], Kind: "large"}
		switch e.Action {
		case snapshot.SegmentMap, snapshot.SegmentUnmap:
			g.Kind = "expandable"
		case snapshot.SegmentAlloc, snapshot.SegmentFree:
			if e.Size == snapshot.SmallSegment {
				g.Kind = "small"
			}
		default:
			continue
		}
		if g.Freed = e.Action == snapshot.SegmentFree || e.Action == snapshot.SegmentUnmap; g.Freed {
			now -= e.Size
		} else {
			now += e.Size
		}
		t.Segments = append(t.Segments, g)
		r.Levels = append(r.Levels, page.Level{Event: i, Bytes: now})
	}
	for i := range h.OOMs {
		o := &h.OOMs[i]
		t.Marks = append(t.Marks, page.Mark{Event: o.Event,
			Text: fmt.Sprintf("Out of memory at event %d: %s asked for %s with %s allocated and %s reserved",
				o.Event, place(s.UserSite(o.Stack)), report.Size(o.Tried), report.Size(o.Moment.Allocated),
				report.Size(o.Moment.Reserved))})
		if i == maxMarks {
			break
		}
	}
	r.Trace = t
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

// maxMarks is how many failures the picture shows.
const maxMarks = 200

func segmentKind(g *snapshot.Segment) string {
	switch {
	case g.Expandable:
		return "expandable"
	case g.Small:
		return "small"
	}
	return "large"
}

func snapshotFacts(s *snapshot.Snapshot, device int, r *page.Run, several bool) []page.Fact {
	name := ""
	if several {
		name = ", " + report.Show(r.Name, 60)
	}
	f := s.Figures(device)
	asked, _ := r.Timeline.Peak()
	facts := []page.Fact{
		{Name: "Peak allocated" + name, Value: report.Size(r.Allocated)},
		{Name: "Peak of what was asked for" + name, Value: report.Size(asked) + ", as the bands show"},
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

// oomOnPage puts first why memory ran out.
func oomOnPage(p *page.Page, s *snapshot.Snapshot, device int, arg, name string, several bool) error {
	h, err := history(s, arg, device)
	if err != nil {
		return err
	}
	ooms, _, err := oomsOf(s, h)
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(arg), err)
	}
	of := ""
	if several {
		of = ", " + report.Show(name, 60)
	}
	for i := range ooms {
		o := &ooms[i]
		p.Facts = append(p.Facts,
			page.Fact{Name: fmt.Sprintf("Out of memory at event %d%s", o.Event, of),
				Value: fmt.Sprintf("%s asked for %s", place(o.Where), report.Size(o.Tried))},
			page.Fact{Name: "Cause: " + strings.ReplaceAll(o.Cause, "-", " "), Value: o.Why})
		held := &report.Grid{Columns: []report.Column{{Title: "Size", Right: true}, {Title: "Allocations", Right: true},
			{Title: "Phase"}, {Title: "Held by", File: true}}}
		for _, x := range o.Live {
			held.Rows = append(held.Rows, []string{fmt.Sprintf("%d B", x.Bytes), strconv.Itoa(x.Count), x.Phase, x.Site})
		}
		tried := &report.Grid{Columns: []report.Column{{Title: "Helps"}, {Title: "Tried by replay", File: true},
			{Title: "Settings", File: true}}}
		if o.Untried != "" {
			tried.Rows = append(tried.Rows, []string{"not tried", o.Untried, s.AllocConf()})
		}
		for _, r := range o.Remedies {
			tried.Rows = append(tried.Rows, []string{r.Helps, r.What, r.Conf})
		}
		p.Tables = append(p.Tables, page.Table{Title: fmt.Sprintf("In use when memory ran out at event %d%s", o.Event, of),
			Grid: held},
			page.Table{Title: fmt.Sprintf("What would have helped at event %d%s", o.Event, of), Grid: tried})
	}
	return nil
}

// segmentTable is the picture of the segments in numbers.
func segmentTable(r *page.Run, several bool) page.Table {
	title := "Segments"
	if several {
		title += ", " + report.Show(r.Name, 60)
	}
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Address"}, {Title: "Kind"},
		{Title: "Size", Right: true}, {Title: "In use", Right: true}, {Title: "Free", Right: true},
		{Title: "Largest free", Right: true}, {Title: "Blocks", Right: true}}}
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
		g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), "0x" + strconv.FormatUint(uint64(s.Addr), 16), s.Kind,
			exact(s.Bytes),
			exact(used), exact(s.Bytes - used), exact(largest), strconv.Itoa(len(s.Blocks))})
	}
	return page.Table{Title: title, Grid: g}
}
