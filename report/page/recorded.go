package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot"
)

// Recorded is what a snapshot has of a device, ready to be drawn.
func Recorded(s *snapshot.Snapshot, device int) (*Run, error) {
	p, err := s.Play(device)
	if err != nil {
		return nil, err
	}
	_, begin, err := s.At(device, -1)
	if err != nil {
		return nil, err
	}
	h := p.History
	r := &Run{Timeline: p.Log.Source(), Allocated: h.Allocated.Bytes, Reserved: h.Reserved.Bytes, Inferred: true}
	trace := s.Trace(device)
	t := &Trace{Events: trace.Len(), Number: p.Number, Blocks: make([]TraceBlock, len(p.Blocks))}
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
		t.Blocks[i] = TraceBlock{Addr: l.Addr, Bytes: l.Size, Stack: k, Stream: l.Stream}
	}
	for i := range begin {
		g := &begin[i]
		t.Segments = append(t.Segments, TraceSegment{Event: -1, Addr: g.Addr, Bytes: g.Total, Stream: g.Stream,
			Kind: segmentKind(g)})
	}
	now := h.Start.Reserved
	r.Levels = []Level{{Event: -len(h.Before), Bytes: now}}
	for i, e := range trace.All() {
		g := TraceSegment{Event: i, Addr: e.Addr, Bytes: e.Size, Stream: s.Streams[e.Stream], Kind: "large"}
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
		r.Levels = append(r.Levels, Level{Event: i, Bytes: now})
	}
	for i := range h.OOMs {
		o := &h.OOMs[i]
		t.Marks = append(t.Marks, Mark{Event: o.Event,
			Text: fmt.Sprintf("Out of memory at event %d: %s asked for %s with %s allocated and %s reserved",
				o.Event, report.Show(s.UserSite(o.Stack), 100), report.Size(o.Tried), report.Size(o.Moment.Allocated),
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
		k := Segment{Addr: g.Addr, Bytes: g.Total, Kind: segmentKind(g)}
		for b := range g.Blocks {
			x := Block{Bytes: g.Blocks[b].Size, Used: g.Blocks[b].State != snapshot.Inactive}
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

// RecordedFacts are the figures to know first of a snapshot. name follows what each is, where the page has another one
// too.
func RecordedFacts(s *snapshot.Snapshot, device int, r *Run, name string) []Fact {
	f := s.Figures(device)
	asked, _ := r.Timeline.Peak()
	facts := []Fact{
		{Name: "Peak allocated" + name, Value: report.Size(r.Allocated)},
		{Name: "Peak of what was asked for" + name, Value: report.Size(asked) + ", as the bands show"},
		{Name: "Peak reserved" + name, Value: report.Size(r.Reserved)},
		{Name: "Allocated at the end" + name, Value: report.Size(f.Allocated)},
		{Name: "Reserved at the end" + name, Value: report.Size(f.Reserved)},
		{Name: "Cached at the end" + name, Value: strconv.FormatFloat(f.Fragmentation()*100, 'f', 1, 64) + " %"},
	}
	if c := s.AllocConf; c != "" {
		facts = append(facts, Fact{Name: "Settings" + name, Value: report.Show(c, 200)})
	}
	return facts
}

// SegmentTable is the picture of the segments in numbers.
func SegmentTable(r *Run, name string) Table {
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Address"}, {Title: "Kind"},
		{Title: "Size", Right: true}, {Title: "In use", Right: true}, {Title: "Free", Right: true},
		{Title: "Largest free", Right: true}, {Title: "Blocks", Right: true}}}
	list := slices.Clone(r.Segments)
	slices.SortStableFunc(list, func(a, b Segment) int { return cmp.Compare(b.Bytes, a.Bytes) })
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
			bytesCell(s.Bytes), bytesCell(used), bytesCell(s.Bytes - used), bytesCell(largest), strconv.Itoa(len(s.Blocks))})
	}
	return Table{Title: "Segments" + name, Grid: g}
}
