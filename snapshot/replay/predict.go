package replay

import (
	"io"
	"iter"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/snapshot"
)

// actions are PyTorch's names for what the simulated allocator records.
var actions = [...]snapshot.Action{
	caching.AllocBlock:    snapshot.Alloc,
	caching.FreeRequested: snapshot.FreeRequested,
	caching.FreeCompleted: snapshot.FreeCompleted,
	caching.SegmentAlloc:  snapshot.SegmentAlloc,
	caching.SegmentFree:   snapshot.SegmentFree,
	caching.SegmentMap:    snapshot.SegmentMap,
	caching.SegmentUnmap:  snapshot.SegmentUnmap,
	caching.OutOfMemory:   snapshot.OOM,
}

// WritePredicted writes the snapshot that PyTorch would dump at the end of a predicted
// run: what events of layers asked for, where an allocator put it. model names the model in the frames, conf is its
// PYTORCH_CUDA_ALLOC_CONF. sites may be nil.
func WritePredicted(w io.Writer, layers []string, events iter.Seq[timeline.Event], r *caching.Result,
	model, conf string, sites *snapshot.Sites) error {
	entries := func(yield func(snapshot.Entry) bool) {
		for e := range r.Trace() {
			entry := snapshot.Entry{Action: actions[e.Action], Event: int(e.Event), Stream: int64(e.Stream), Addr: e.Address,
				Size: e.Bytes}
			if e.Action == caching.OutOfMemory && r.OOM != nil {
				entry.Addr = r.OOM.Free
			}
			if !yield(entry) {
				return
			}
		}
	}
	var segments []snapshot.Segment
	for _, g := range r.Segments() {
		s := snapshot.Segment{Addr: g.Address, Total: g.Bytes, Stream: int64(g.Stream), Small: g.Small,
			Expandable: g.Expandable}
		for _, b := range g.Blocks {
			k := snapshot.Block{Addr: b.Address, Size: b.Bytes, Requested: b.Requested}
			if b.Active {
				k.State = snapshot.ActiveAllocated
				s.Allocated += b.Bytes
				s.Requested += b.Requested
			}
			s.Blocks = append(s.Blocks, k)
		}
		s.Active = s.Allocated
		segments = append(segments, s)
	}
	return snapshot.WritePredicted(w, layers, events, entries, segments, model, conf, sites)
}
