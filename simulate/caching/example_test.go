package caching_test

import (
	"fmt"
	"log"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Three tensors of 3 MiB share a segment of 20 MiB; a fourth, of 30 MiB, takes one of its own.
func ExampleReplay() {
	var b timeline.Builder
	for _, mib := range []int64{3, 3, 3, 30} {
		b.Alloc(timeline.Temporary, mib<<20)
	}
	r, err := caching.Replay(b.Timeline(), caching.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("allocated MiB", r.PeakAllocated.Allocated>>20)
	fmt.Println("reserved MiB", r.PeakReserved.Reserved>>20)
	fmt.Println("segments", r.Stats.Segment.All.Current)
	// Output:
	// allocated MiB 39
	// reserved MiB 50
	// segments 2
}

// A run under a limit fails as PyTorch does, and says so in its words.
func ExampleReplay_outOfMemory() {
	var b timeline.Builder
	b.Alloc(timeline.Activation, 3<<30)
	r, err := caching.Replay(b.Timeline(), caching.Config{Limit: 1 << 30, Total: 16 << 30})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("survives:", r.OOM == nil, "tried:", r.OOM.Tried>>30, "GiB")
	// Output:
	// survives: false tried: 3 GiB
}

// PyTorch's own settings of its allocator are understood.
func ExampleParseOptions() {
	_, err := caching.ParseOptions("expandable_segments:True,garbage_collection_threshold:0.8")
	fmt.Println(err)
	_, err = caching.ParseOptions("expandable_segments:maybe")
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}
