package page

import (
	"slices"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Predicted is a predicted run, as the allocator replayed it, ready to be drawn: up to the request that it failed
// on, where it did, and without the workspaces that there was no memory for. about says in lines what a block of the
// run is; nil says nothing.
func Predicted(name string, t *timeline.Source, r *caching.Result, about func(block int32) []string) Run {
	end := t.Len
	var failure *Failure
	if r.OOM != nil {
		end = r.OOMEvent
		e := t.At(end)
		failure = &Failure{Bytes: e.Bytes, Text: "Out of memory: " + report.Size(e.Bytes) + " are asked for, " +
			report.Size(r.OOM.Allocated) + " are allocated and " + report.Size(r.OOM.Reserved) + " reserved"}
		if e.Layer != timeline.NoLayer {
			failure.Text += ", at " + show(t.Layers[e.Layer])
		}
	}
	part, eventOf, origin := partOf(t, end, r)
	out := Run{Name: name, Timeline: part, Allocated: r.PeakAllocated.Allocated, Reserved: r.PeakReserved.Reserved,
		Failure: failure}
	if about != nil {
		out.About = func(block int32) []string { return about(origin(block)) }
	}
	segments := r.Segments()
	took := map[int64]int32{} // by address of what is handed out at the end: the event that took it last
	for _, g := range segments {
		for _, b := range g.Blocks {
			if b.Active {
				took[b.Address] = -1
			}
		}
	}
	var reserved int64
	for e := range r.Trace() {
		switch e.Action {
		case caching.AllocBlock:
			if _, ok := took[e.Address]; ok {
				took[e.Address] = e.Event
			}
			continue
		case caching.SegmentAlloc, caching.SegmentMap:
			reserved += e.Bytes
		case caching.SegmentFree, caching.SegmentUnmap:
			reserved -= e.Bytes
		default:
			continue
		}
		event := eventOf(min(int(e.Event), end))
		if failure != nil && int(e.Event) == end { // given back in vain: the figures of the failure are those after it
			event = max(part.Len-1, 0)
		}
		out.Levels = append(out.Levels, Level{Event: event, Bytes: reserved})
	}
	out.Segments = labelled(t, segments, took)
	return out
}

// labelled names the blocks of segments by the layers of the events that took them.
func labelled(t *timeline.Source, segments []caching.Segment, took map[int64]int32) (out []Segment) {
	layer := make([]int32, t.Len)
	for i, e := range t.Each {
		layer[i] = e.Layer
	}
	for _, s := range segments {
		g := Segment{Addr: s.Address, Bytes: s.Bytes, Kind: "large", Blocks: make([]Block, 0, len(s.Blocks))}
		switch {
		case s.Expandable:
			g.Kind = "expandable"
		case s.Small:
			g.Kind = "small"
		}
		for _, b := range s.Blocks {
			k := Block{Bytes: b.Bytes, Used: b.Active}
			if event, ok := took[b.Address]; ok && b.Active && event >= 0 {
				if n := layer[event]; n != timeline.NoLayer {
					k.Label = t.Layers[n]
				}
			}
			g.Blocks = append(g.Blocks, k)
		}
		out = append(out, g)
	}
	return out
}

// partOf keeps of a run the events before end, without the blocks that were not made. What belongs to the criterion
// becomes that of a layer "loss". event says which event of the part is the first that is not before one of the whole,
// origin which block of the whole one of the part is.
func partOf(t *timeline.Source, end int, r *caching.Result) (out *timeline.Source, event func(int) int,
	origin func(int32) int32) {
	loss := int32(len(t.Layers))
	out = &timeline.Source{Layers: append(slices.Clip(t.Layers), "loss"), Len: end, Blocks: t.Blocks}
	event, origin = func(whole int) int { return whole }, func(block int32) int32 { return block }
	var blocks []int32 // by block of the whole, that of the part, -1 for none; nil where all are made
	switch {
	case len(r.Dropped) > 0 || r.Unsearched > 0:
		var events, origins []int32
		events, blocks, origins = made(t, end, r)
		out.Len, out.Blocks = int(events[end]), int32(len(origins))
		event = func(whole int) int { return int(events[whole]) }
		origin = func(block int32) int32 { return origins[block] }
	case end < t.Len:
		out.Blocks = 0
		for i, e := range t.Each {
			if i == end {
				break
			}
			if e.Kind == timeline.Alloc {
				out.Blocks++
			}
		}
	}
	out.Each = func(yield func(int, timeline.Event) bool) {
		n := 0
		for i, e := range t.Each {
			if i == end {
				return
			}
			if e.Layer == timeline.NoLayer && (e.Phase == timeline.Loss || e.Phase == timeline.Backward) {
				e.Layer = loss
			}
			if blocks != nil && e.Kind.Moves() {
				if e.Block = blocks[e.Block]; e.Block < 0 {
					continue
				}
			}
			if !yield(n, e) {
				return
			}
			n++
		}
	}
	return out, event, origin
}

// made numbers what is left where some blocks were not made: by event of the whole, the first of the part that is not
// before it, by block of the whole, that of the part or -1, and by block of the part, that of the whole.
func made(t *timeline.Source, end int, r *caching.Result) (events, blocks, origins []int32) {
	served := map[int]bool{} // events that got memory
	for e := range r.Trace() {
		if e.Action == caching.AllocBlock {
			served[int(e.Event)] = true
		}
	}
	events, blocks = make([]int32, end+1), slices.Repeat([]int32{-1}, int(t.Blocks))
	n := int32(0)
	for i, e := range t.Each {
		if i == end {
			break
		}
		events[i] = n
		if e.Kind == timeline.Alloc && served[i] {
			blocks[e.Block] = int32(len(origins))
			origins = append(origins, e.Block)
		}
		if !e.Kind.Moves() || blocks[e.Block] >= 0 {
			n++
		}
	}
	events[end] = n
	return events, blocks, origins
}
