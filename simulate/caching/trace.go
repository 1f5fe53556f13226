package caching

import (
	"cmp"
	"iter"
	"slices"
)

// An Action is what a TraceEntry tells, as PyTorch's memory history names it.
type Action uint8

// The actions.
const (
	AllocBlock    Action = iota // a block is handed out; Bytes as requested
	FreeRequested               // and given back
	FreeCompleted               // and usable again
	SegmentAlloc                // cudaMalloc
	SegmentFree                 // cudaFree
	SegmentMap                  // pages of an expandable segment get memory
	SegmentUnmap                // and lose it
	OutOfMemory                 // a request failed; Bytes is the block it needed
)

var actionNames = [...]string{"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
	"segment_map", "segment_unmap", "oom"}

// String returns PyTorch's name of the action: "alloc", "segment_free", ...
func (a Action) String() string {
	if int(a) >= len(actionNames) {
		return "unknown"
	}
	return actionNames[a]
}

// A TraceEntry is one line of the allocator's history.
type TraceEntry struct {
	Action  Action
	Stream  int32
	Event   int32 // the timeline's event that caused it, in Result.Trace
	Address int64
	Bytes   int64
}

func (a *Allocator) record(e TraceEntry) {
	if a.cfg.Told != nil {
		a.cfg.Told(e)
	}
}

// Trace ranges over the history of a replay, for which the run is replayed anew: a list of it is several times as large
// as the run.
func (r *Result) Trace() iter.Seq[*TraceEntry] {
	return func(yield func(*TraceEntry) bool) {
		p, more := NewReplayer(r.cfg), true
		p.a.cfg.Told = func(e TraceEntry) {
			e.Event = int32(p.event)
			more = more && yield(&e)
		}
		r.again(p)
	}
}

// A Segment is a range of reserved memory as a snapshot shows it: what one
// cudaMalloc returned, or a mapped range of an expandable segment.
type Segment struct {
	Address    int64
	Bytes      int64
	Stream     int32
	Small      bool // of the small pool
	Expandable bool
	Blocks     []SegmentBlock // by address; they tile the segment
}

// A SegmentBlock is a part of a Segment.
type SegmentBlock struct {
	Address   int64
	Bytes     int64
	Requested int64 // 0 for a cached block
	Active    bool  // handed out, not cached
}

// Segments returns what the replay left reserved, by address. Where the allocator was given up, the run is replayed
// anew.
func (r *Result) Segments() []Segment {
	if r.Allocator != nil {
		return r.Allocator.Segments()
	}
	p := NewReplayer(r.cfg)
	r.again(p)
	return p.a.Segments()
}

// Segments returns all reserved memory by address.
func (a *Allocator) Segments() []Segment {
	var out []Segment
	for i := 1; i < a.blocks.Len(); i++ {
		head := a.at(int32(i))
		if head.state != cached && head.state != active || head.prev != none && a.at(head.prev).state != unmapped {
			continue
		}
		s := Segment{Address: head.addr, Stream: head.stream, Small: head.small, Expandable: head.segment != none}
		for id := int32(i); id != none && a.at(id).state != unmapped; id = a.at(id).next {
			b := a.at(id)
			s.Bytes += b.size
			sb := SegmentBlock{Address: b.addr, Bytes: b.size}
			if b.state == active {
				sb.Requested, sb.Active = b.requested, true
			}
			s.Blocks = append(s.Blocks, sb)
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(x, y Segment) int { return cmp.Compare(x.Address, y.Address) })
	return out
}
