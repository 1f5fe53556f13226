package page

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/caching"
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/report"
)

// Predicted is a predicted timeline, as the allocator replayed it, ready to be drawn: up to the request that it failed
// on, where it did, and without the workspaces that there was no memory for. about says in lines what a block of the
// timeline is; nil says nothing. The timeline is changed.
func Predicted(name string, t *timeline.Timeline, r *caching.Result, about func(block int32) []string) Run {
	end := len(t.Events)
	var failure *Failure
	if r.OOM != nil {
		end = r.OOMEvent
		e := &t.Events[end]
		failure = &Failure{Bytes: e.Bytes, Text: "Out of memory: " + report.Size(e.Bytes) + " are asked for, " +
			report.Size(r.OOM.Allocated) + " are allocated and " + report.Size(r.OOM.Reserved) + " reserved"}
		if e.Layer != timeline.NoLayer {
			failure.Text += ", at " + show(t.Layers[e.Layer])
		}
	}
	made := map[int]bool{} // events that got memory, where some did not
	if len(r.Dropped) > 0 {
		for e := range r.Trace() {
			if e.Action == caching.AllocBlock {
				made[int(e.Event)] = true
			}
		}
	}
	part, at := partOf(t, end, func(event int) bool { return len(made) == 0 || made[event] })
	out := Run{Name: name, Timeline: part, Allocated: r.PeakAllocated.Allocated, Reserved: r.PeakReserved.Reserved,
		Failure: failure}
	if about != nil {
		out.About = make([][]string, part.Blocks)
		for block, k := range at.blocks {
			if k >= 0 {
				out.About[k] = about(int32(block))
			}
		}
	}
	segments, label := r.Allocator.Segments(), map[int64]string{} // of what lies at an address at the end
	for _, g := range segments {
		for _, b := range g.Blocks {
			if b.Active {
				label[b.Address] = ""
			}
		}
	}
	var reserved int64
	for e := range r.Trace() {
		switch e.Action {
		case caching.AllocBlock:
			if _, lasts := label[e.Address]; lasts {
				label[e.Address] = ""
				if l := part.Events[at.events[e.Event]].Layer; l != timeline.NoLayer && int(l) < len(t.Layers) {
					label[e.Address] = t.Layers[l]
				}
			}
			continue
		case caching.SegmentAlloc, caching.SegmentMap:
			reserved += e.Bytes
		case caching.SegmentFree, caching.SegmentUnmap:
			reserved -= e.Bytes
		default:
			continue
		}
		event := int(at.events[min(int(e.Event), end)])
		if failure != nil && int(e.Event) == end { // given back in vain: the figures of the failure are those after it
			event = max(len(part.Events)-1, 0)
		}
		out.Levels = append(out.Levels, Level{Event: event, Bytes: reserved})
	}
	for _, s := range segments {
		g := Segment{Addr: s.Address, Bytes: s.Bytes, Kind: "large"}
		switch {
		case s.Expandable:
			g.Kind = "expandable"
		case s.Small:
			g.Kind = "small"
		}
		for _, b := range s.Blocks {
			k := Block{Bytes: b.Bytes, Used: b.Active}
			if b.Active {
				k.Label = label[b.Address]
			}
			g.Blocks = append(g.Blocks, k)
		}
		out.Segments = append(out.Segments, g)
	}
	return out
}

// places says where the events and blocks of a timeline are in a part of it.
type places struct {
	events []int32 // the first that is not before it
	blocks []int32 // -1 for none
}

// partOf keeps of a timeline the events before end, without the blocks that were not made. What the criterion and its
// backward pass take, which are no layer's, becomes that of a layer "loss".
func partOf(t *timeline.Timeline, end int, made func(event int) bool) (*timeline.Timeline, places) {
	loss := int32(len(t.Layers))
	out := &timeline.Timeline{Events: t.Events[:0], Layers: append(slices.Clip(t.Layers), "loss")}
	at := places{make([]int32, end+1), make([]int32, t.Blocks)}
	for i := range at.blocks {
		at.blocks[i] = -1
	}
	for i, e := range t.Events[:end] {
		at.events[i] = int32(len(out.Events))
		if e.Layer == timeline.NoLayer && (e.Phase == timeline.Loss || e.Phase == timeline.Backward) {
			e.Layer = loss
		}
		if e.Kind == timeline.Alloc && made(i) {
			at.blocks[e.Block] = out.Blocks
			out.Blocks++
		}
		if e.Kind != timeline.Mark {
			if e.Block = at.blocks[e.Block]; e.Block < 0 {
				continue
			}
		}
		out.Events = append(out.Events, e)
	}
	at.events[end] = int32(len(out.Events))
	return out, at
}
