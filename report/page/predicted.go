package page

import (
	"github.com/memestimate/memestimate/estimate/caching"
	"github.com/memestimate/memestimate/estimate/timeline"
)

// Predicted is a predicted timeline, as the allocator replayed it, ready to be
// drawn. What was reserved along the way, and what lies in the segments, is known
// where the replay recorded its trace (caching.Config.Record).
func Predicted(name string, t *timeline.Timeline, r *caching.Result) Run {
	out := Run{Name: name, Timeline: t, Allocated: r.PeakAllocated.Allocated, Reserved: r.PeakReserved.Reserved}
	label := map[int64]string{} // of what lies at an address at the end
	var reserved int64
	for _, e := range r.Allocator.Trace() {
		switch e.Action {
		case caching.AllocBlock:
			label[e.Address] = ""
			if l := t.Events[e.Event].Layer; l != timeline.NoLayer {
				label[e.Address] = t.Layers[l]
			}
			continue
		case caching.SegmentAlloc, caching.SegmentMap:
			reserved += e.Bytes
		case caching.SegmentFree, caching.SegmentUnmap:
			reserved -= e.Bytes
		default:
			continue
		}
		out.Levels = append(out.Levels, Level{Event: int(e.Event), Bytes: reserved})
	}
	for _, s := range r.Allocator.Segments() {
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
