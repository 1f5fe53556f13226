// Package caching is PyTorch's CUDA caching allocator (the native backend of
// PyTorch 2.11) as a simulation: the same pools, rounding, best fit, splits,
// merges, segments, releases and statistics, without a GPU. Given the same
// requests and the same addresses from cudaMalloc it makes the same decisions,
// so what it counts is what torch.cuda.memory_stats counts, to the byte.
//
// The rules are those of c10/cuda/CUDACachingAllocator.cpp and
// c10/core/AllocatorConfig.h. Left out, because a step on one GPU does not meet
// them: the pools of CUDA graphs, recordStream, and the cudaMallocAsync backend.
package caching

import (
	"cmp"
	"math/bits"
)

// The constants of c10/core/AllocatorConfig.h, in bytes.
const (
	minBlock      = 512      // sizes are rounded up to a multiple of it
	smallSize     = 1 << 20  // the largest request of the small pool
	smallSegment  = 2 << 20  // segments, and pages of expandable ones, of the small pool
	minLargeAlloc = 10 << 20 // requests from here on get segments of their own
	roundLarge    = 2 << 20  // such segments are rounded up to a multiple of it
	largeSegment  = 20 << 20 // default of large_segment_size_mb and max_non_split_rounding_mb
)

// maxRequest bounds one request, in bytes, so that sums of sizes cannot
// overflow. It is far above the memory of any device.
const maxRequest = 1 << 50

// A Config says which allocator to simulate. The zero Config is PyTorch's
// default on a device whose memory never ends.
type Config struct {
	Options Options

	// Capacity is how many bytes cudaMalloc can hand out before it fails: the
	// device's memory less contexts and other processes. 0 is no bound.
	Capacity int64
	// Limit is what torch.cuda.set_per_process_memory_fraction allows the
	// allocator to reserve, in bytes: fraction times the device's total memory.
	// 0 is no limit.
	Limit int64
	// Total is the device's memory in bytes. It sizes the address range of
	// expandable segments and is what an out-of-memory message calls the total
	// capacity. 0: Capacity, or 1 TiB without one.
	Total int64

	// Address returns the address that cudaMalloc gives a new segment of so many
	// bytes. Addresses decide between free blocks of equal size alone. nil is
	// TopDown.
	Address func(bytes int64) int64

	// Workspaces are the bytes of the Allocs that have a plan, by plan less 1, in place of the timeline's: what a
	// library may take instead. nil leaves the timeline's; plans beyond it keep theirs.
	Workspaces []int64

	// Room is how many bytes the device has for segments as a timeline.Searching sees it, which is left out where that
	// would be exceeded. 0 is no bound.
	Room int64

	// Told, where set, is called with each line that PyTorch's memory history would record.
	Told func(TraceEntry)
}

// TopDown returns addresses much as the driver hands them out: it takes ranges
// of a multiple of 32 MiB downwards from the top of the address space, puts a
// segment at the low end of its range, and later ones that fit into what was left
// over at the high end, the youngest range first. What it cannot know is where
// the process already has something mapped. Replaying 64 measured runs it gives
// PyTorch's peaks exactly in 59 of them.
func TopDown() func(bytes int64) int64 {
	const top, step = int64(1) << 47, int64(32) << 20
	type gap struct{ addr, bytes int64 }
	var gaps []gap // left over, oldest first
	next := top
	return func(bytes int64) int64 {
		for i := len(gaps) - 1; i >= 0; i-- {
			if g := &gaps[i]; g.bytes >= bytes {
				addr := g.addr
				g.addr += bytes
				g.bytes -= bytes
				return addr
			}
		}
		n := (bytes + step - 1) &^ (step - 1)
		if next-n < step {
			next, gaps = top, gaps[:0] // everything was handed out once; freed ranges come again
		}
		next = max(next-n, step)
		if n > bytes {
			if len(gaps) == 512 {
				gaps = gaps[:copy(gaps, gaps[256:])] // the old ones are rarely asked for
			}
			gaps = append(gaps, gap{next + bytes, n - bytes})
		}
		return next
	}
}

// Rising returns addresses of ever higher ranges: another order that the driver may hand them out in, as it does
// where it fills a range that something else gave back.
func Rising() func(bytes int64) int64 {
	next := int64(1) << 32
	return func(bytes int64) int64 {
		addr := next
		if next += bytes; next > 1<<62-maxRequest {
			next = 1 << 32 // everything was handed out; freed ranges come again
		}
		return addr
	}
}

// Scattered returns addresses in no order but the seed's: those of an address space in which much is mapped already.
// Where the driver alternates between several holes, as it did in half of the measured runs, which is next follows no
// rule that could be seen.
func Scattered(seed uint64) func(bytes int64) int64 {
	const ranges, each = 1 << 20, int64(1) << 40 // no GPU has as much memory as one range
	random := seed*0x9e3779b97f4a7c15 + 88172645463325252
	used := make(map[int64]bool)
	return func(int64) int64 {
		if len(used) > ranges/2 {
			clear(used) // everything was handed out; freed ranges come again
		}
		for {
			random ^= random << 13 // Marsaglia's xorshift
			random ^= random >> 7
			random ^= random << 17
			if at := int64(random>>40)%ranges + 1; !used[at] {
				used[at] = true
				return at * each
			}
		}
	}
}

func (c *Config) largeSegment() int64 { return cmp.Or(c.Options.LargeSegmentSize, largeSegment) }

func (c *Config) total() int64 { return min(cmp.Or(c.Total, c.Capacity, 1<<40), maxRequest) }

// RoundSize returns the size of the block that serves a request.
func (o *Options) RoundSize(bytes int64) int64 {
	if bytes < minBlock {
		return minBlock
	}
	// Intervals begin at 1 MiB and end at 64 GiB.
	interval := min(max(bits.Len64(uint64(bytes))-1-20, 0), len(o.RoundupDivisions)-1)
	if d := o.RoundupDivisions[interval]; d > 1 && bytes > minBlock*d {
		return roundDivisions(bytes, d)
	}
	return (bytes + minBlock - 1) &^ (minBlock - 1)
}

// roundDivisions rounds up to the next of so many equal steps between two powers of two.
func roundDivisions(bytes, divisions int64) int64 {
	if bytes&(bytes-1) == 0 {
		return bytes
	}
	floor := int64(1) << (bits.Len64(uint64(bytes)) - 1)
	step := floor >> (bits.Len64(uint64(divisions)) - 1)
	if step == 0 {
		return floor << 1
	}
	return (bytes + step - 1) &^ (step - 1)
}

// segmentSize returns how much cudaMalloc is asked for when no cached block
// serves a block of so many bytes.
func (c *Config) segmentSize(size int64) int64 {
	switch {
	case size <= smallSize:
		return smallSegment
	case size < minLargeAlloc:
		// With a small large_segment_size the request itself may be larger.
		return max(c.largeSegment(), (size+roundLarge-1)&^(roundLarge-1))
	}
	return (size + roundLarge - 1) &^ (roundLarge - 1)
}
