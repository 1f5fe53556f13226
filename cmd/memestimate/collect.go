package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// A heap is what this process may take for the models that it reads. A nil heap leaves everything to Go.
type heap struct {
	models atomic.Int64 // bytes of the files read so far
}

// test/catalogue.md promises 64 MB and 24 bytes for each byte of a file. The rest is the program's own pages, and what
// is made while garbage is collected.
const (
	heapBase   = 40_000_000
	heapFactor = 22
)

// newHeap has the garbage collector begin at 40 MB rather than 4, and continue as usual: most runs end before. A user's
// GOGC and GOMEMLIMIT stay.
func newHeap() *heap {
	if os.Getenv("GOGC") == "" {
		usual := debug.SetGCPercent(1000)
		type sentinel struct{ _ *sentinel } // with a pointer, so that it has an allocation of its own
		runtime.AddCleanup(new(sentinel), func(percent int) { debug.SetGCPercent(percent) }, usual)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return new(heap)
}

// hold has garbage collected more often rather than more memory taken than is promised for a model of so many bytes,
// and those before it.
func (h *heap) hold(bytes int64) {
	if h != nil {
		debug.SetMemoryLimit(heapBase + heapFactor*h.models.Add(min(bytes, 1<<40)))
	}
}
