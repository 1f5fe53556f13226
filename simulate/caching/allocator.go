package caching

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Block is an allocation that Malloc made, until Free gives it back. 0 is the
// allocation of no bytes, which costs nothing.
type Block int32

// An Allocator is a simulated caching allocator of one device. It is not safe
// for concurrent use.
type Allocator struct {
	cfg        Config
	maxSplit   int64                  // maxRequest and more when off
	limit      int64                  // what a memory fraction lets it reserve
	capacity   int64                  // what the device can give it
	gcLimit    int64                  // allowed memory, for garbage collection; 0 when off
	blocks     timeline.Chunks[block] // by their numbers
	spare      int32                  // the first unused slot, whose next is the next one
	gcBase     []int64                // by block: the pool's searches when it became cached; nil unless garbage is collected
	pools      [2]pool                // large, small
	expandable []expandableSegment
	stats      Stats
	scratch    []int32
}

// New returns an allocator that holds nothing yet.
func New(cfg Config) *Allocator {
	a := new(Allocator)
	a.begin(cfg)
	return a
}

// begin makes a an allocator that holds nothing yet, in the memory of what it was before.
func (a *Allocator) begin(cfg Config) {
	if cfg.Address == nil {
		cfg.Address = TopDown()
	}
	a.blocks.Reset()
	for i := range a.pools {
		a.pools[i].free.reset()
	}
	*a = Allocator{cfg: cfg, maxSplit: maxRequest * 2, limit: maxRequest, capacity: maxRequest, blocks: a.blocks,
		pools: [2]pool{{free: a.pools[0].free}, {free: a.pools[1].free}}}
	a.blocks.Add(block{}) // none
	a.pools[1].small = true
	a.stats.MaxSplitSize = -1
	if cfg.Options.MaxSplitSize > 0 {
		a.maxSplit = cfg.Options.MaxSplitSize
		a.stats.MaxSplitSize = cfg.Options.MaxSplitSize
	}
	if cfg.Capacity > 0 {
		a.capacity = min(a.capacity, cfg.Capacity)
	}
	if allowed := a.allowed(); allowed > 0 {
		a.limit = min(a.limit, allowed)
		if cfg.Options.GCThreshold > 0 {
			a.gcLimit = int64(cfg.Options.GCThreshold * float64(allowed))
		}
	}
}

// allowed returns what a memory fraction leaves to the process, 0 when none is set.
func (a *Allocator) allowed() int64 {
	allowed := a.cfg.Limit
	if f := a.cfg.Options.MemoryFraction; f > 0 && f < 1 && a.cfg.Total > 0 {
		if by := int64(f * float64(a.cfg.Total)); allowed == 0 || by < allowed {
			allowed = by
		}
	}
	return allowed
}

// Stats returns the statistics so far.
func (a *Allocator) Stats() Stats {
	s := a.stats
	s.Active, s.ActiveBytes = s.Allocation, s.AllocatedBytes // no block waits for another stream
	return s
}

// Address returns the address of an allocation, 0 for that of no bytes.
func (a *Allocator) Address(b Block) int64 { return a.at(int32(b)).addr }

// Size returns how many bytes an allocation takes, after rounding: what
// torch.cuda.memory_allocated counts.
func (a *Allocator) Size(b Block) int64 { return a.at(int32(b)).size }

// An OOM is the out-of-memory error of one request. All sizes are in bytes.
type OOM struct {
	Tried     int64 // the segment that could not be had: what PyTorch's message says it tried
	Total     int64 // the device's memory
	Free      int64 // what the device had left
	Allowed   int64 // by a memory fraction; 0 when none is set
	Allocated int64 // handed out when it happened
	Reserved  int64 // held when it happened, after all cached blocks were given back
}

// Error says what PyTorch says, less what only a real device knows.
func (e *OOM) Error() string {
	allowed := ""
	if e.Allowed > 0 {
		allowed = formatSize(e.Allowed) + " allowed; "
	}
	return fmt.Sprintf("CUDA out of memory. Tried to allocate %s. GPU 0 has a total capacity of %s of which %s is free. "+
		"%sOf the allocated memory %s is allocated by PyTorch, and %s is reserved by PyTorch but unallocated.",
		formatSize(e.Tried), formatSize(e.Total), formatSize(e.Free), allowed, formatSize(e.Allocated),
		formatSize(e.Reserved-e.Allocated))
}

// crowded reports whether neither a cached block nor the device has room for a search's request, which then goes
// without it: cuDNN is asked for what fits the larger of the two (get_available_workspace of
// aten/src/ATen/native/cudnn/Conv_v8.cpp).
func (a *Allocator) crowded(bytes int64, stream int) bool {
	size := a.cfg.Options.RoundSize(bytes)
	if a.cfg.Room <= 0 || a.stats.ReservedBytes.All.Current+a.cfg.segmentSize(size) <= a.cfg.Room {
		return false
	}
	_, fits := a.fitting(a.poolOf(size), int32(stream), size)
	return !fits
}

var errBytes = errors.New("caching: a request must be of 0 to 2^50 bytes")

// Malloc hands out a block for a request of so many bytes on a stream. When the
// device has no room left even after all cached blocks are given back, the error
// is an *OOM.
func (a *Allocator) Malloc(bytes int64, stream int) (Block, error) {
	if bytes < 0 || bytes > maxRequest {
		return 0, fmt.Errorf("%w, not %d", errBytes, bytes)
	}
	if bytes == 0 {
		return 0, nil
	}
	size := a.cfg.Options.RoundSize(bytes)
	p := a.poolOf(size)
	id := a.bestFit(p, int32(stream), size)
	if id == none {
		var err error
		if id, err = a.grow(p, int32(stream), bytes, size); err != nil {
			return 0, err
		}
	}
	return Block(a.handOut(p, id, bytes, size)), nil
}

// poolOf returns the pool that serves requests of a size.
func (a *Allocator) poolOf(size int64) *pool {
	if size <= smallSize {
		return &a.pools[1]
	}
	return &a.pools[0]
}

// bestFit takes the cached block that serves the request out of the pool.
func (a *Allocator) bestFit(p *pool, stream int32, size int64) int32 {
	if a.gcLimit > 0 {
		p.searches++
	}
	e, ok := a.fitting(p, stream, size)
	if !ok {
		return none
	}
	p.free.remove(e)
	return e.id
}

// fitting finds the smallest cached block of the stream that serves the request. Only this one candidate is looked at.
func (a *Allocator) fitting(p *pool, stream int32, size int64) (best entry, ok bool) {
	best, ok = p.free.first(stream, size)
	if !ok {
		return best, false
	}
	if a.cfg.Options.ExpandableSegments {
		// The best fit counts what a block can grow to, not what it is.
		p.free.ascend(stream, size, func(e entry) bool {
			if e != best && a.room(e.id) >= a.room(best.id) {
				return false
			}
			best = e
			return true
		})
	}
	// Blocks too large to be split serve only requests near their own size.
	if size < a.maxSplit && best.size >= a.maxSplit {
		return best, false
	}
	return best, size < a.maxSplit || best.size < size+cmp.Or(a.cfg.Options.MaxNonSplitRound, largeSegment)
}

// room returns the size of a cached block with the unmapped range behind it.
func (a *Allocator) room(id int32) int64 {
	b := a.at(id)
	if b.next != none && a.at(b.next).state == unmapped {
		return b.size + a.at(b.next).size
	}
	return b.size
}

// grow gets memory from the device, giving cached blocks back when there is none left.
func (a *Allocator) grow(p *pool, stream int32, bytes, size int64) (int32, error) {
	if a.gcLimit > 0 {
		a.collectGarbage()
	}
	segment := a.cfg.segmentSize(size)
	id := a.reserve(p, stream, size, segment)
	if id == none && a.releaseOversize(p, stream, size) {
		id = a.reserve(p, stream, size, segment)
	}
	if id == none {
		a.EmptyCache()
		a.stats.AllocRetries++
		id = a.reserve(p, stream, size, segment)
	}
	if id != none {
		return id, nil
	}
	a.stats.OOMs++
	oom := &OOM{Tried: segment, Total: a.cfg.total(), Allowed: a.allowed(),
		Allocated: a.stats.AllocatedBytes.All.Current, Reserved: a.stats.ReservedBytes.All.Current}
	oom.Free = oom.Total - oom.Reserved
	if a.cfg.Capacity > 0 {
		oom.Free = a.cfg.Capacity - oom.Reserved
	}
	oom.Free = max(oom.Free, 0)
	a.record(TraceEntry{Action: OutOfMemory, Bytes: size, Stream: stream})
	return none, oom
}

// reserve makes a block from new memory: a segment of its own, or mapped pages.
// The block is in no pool.
func (a *Allocator) reserve(p *pool, stream int32, size, segment int64) int32 {
	reserved := a.stats.ReservedBytes.All.Current + segment
	if reserved > a.limit {
		return none
	}
	if a.cfg.Options.ExpandableSegments {
		return a.reserveExpandable(p, stream, size) // looks at the capacity page by page
	}
	if reserved > a.capacity {
		return none
	}
	id := a.newBlock(block{addr: a.cfg.Address(segment), size: segment, stream: stream, small: p.small, state: cached})
	a.stats.Segment.add(p.small, 1)
	a.stats.ReservedBytes.add(p.small, segment)
	if segment >= a.maxSplit {
		a.stats.OversizeSegments.add(1)
	}
	a.stats.DeviceAllocs++
	a.record(TraceEntry{Action: SegmentAlloc, Address: a.at(id).addr, Bytes: segment, Stream: stream})
	return id
}

// handOut makes the block active, and puts what is left of it back into the pool.
func (a *Allocator) handOut(p *pool, id int32, bytes, size int64) int32 {
	b := a.at(id)
	split := b.prev != none || b.next != none
	counted := b.segment == none // parts of expandable segments are not counted as split
	rest := b.size - size
	if a.shouldSplit(p, size, rest) {
		front := a.cut(id, size)
		a.cache(p, id)
		if counted && split {
			a.stats.InactiveSplitBytes.add(p.small, -size)
		} else if counted {
			a.stats.InactiveSplitBytes.add(p.small, rest)
			a.stats.InactiveSplit.add(p.small, 1)
		}
		id = front
		b = a.at(id)
	} else if counted && split {
		a.stats.InactiveSplitBytes.add(p.small, -b.size)
		a.stats.InactiveSplit.add(p.small, -1)
	}
	b.state = active
	b.requested = bytes
	a.stats.Allocation.add(p.small, 1)
	a.stats.AllocatedBytes.add(p.small, b.size)
	a.stats.RequestedBytes.add(p.small, bytes)
	if b.size >= a.maxSplit {
		a.stats.OversizeAllocations.add(1)
	}
	a.record(TraceEntry{Action: AllocBlock, Address: b.addr, Bytes: bytes, Stream: b.stream})
	return id
}

func (a *Allocator) shouldSplit(p *pool, size, rest int64) bool {
	if p.small || a.cfg.Options.ExpandableSegments {
		return rest >= minBlock
	}
	return size < a.maxSplit && rest > smallSize
}
