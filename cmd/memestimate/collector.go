package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// A collector decides when garbage is collected. The program lives for milliseconds, and on a fresh page of memory the
// system spends about as long as the runtime does on a page of garbage. A nil collector leaves everything as it is.
type collector struct {
	percent bool         // GOGC is ours to set: nobody asked for another
	growing atomic.Bool  // GOGC is smallPercent, and shrinks as more is kept
	large   atomic.Bool  // GOGC follows from what is kept and from least: see raise
	limit   atomic.Int64 // the memory limit as we have set it; 0: it is not ours
	least   atomic.Int64 // the limit where little is kept
}

const (
	// smallPercent is the growth after which the garbage of a small model is collected, 40 MB at first. Runs that
	// are simulated again and again stay within as much, which the processor's cache has in part.
	smallPercent = 1000

	// manyValues is how many values a large graph has: what nodes make, weights, inputs. Nearly all that is made of it is
	// kept to the end, hundreds of megabytes: nothing is collected below what its file's size allows, and little is left
	// lying beyond that.
	manyValues = 20_000

	// keptPercent is how much garbage, of what is kept, lies beside it where it is more than the file's size allows.
	keptPercent = 4

	// smallGrowth is how many bytes of garbage are left lying beside what is kept, unless more is kept.
	smallGrowth = 40 << 20

	// memoryLimit is how much may be in use before the collector does what it can to stay below, where nothing is known
	// of the input. It rises with what is kept, see raise: to collect again and again what is no garbage makes a run
	// several times slower.
	memoryLimit = 1 << 30

	// modelLimit and modelFactor are the limit once a model is read: bytes, and bytes for each of the file. With what the
	// program's own pages take, and what is made on busy processors while garbage is collected, it is less than
	// docs/RELIABILITY.md promises.
	modelLimit, modelFactor = 26 << 20, 11

	// largePercent is for large graphs where the user has set a limit.
	largePercent = 400
)

func startCollector() *collector {
	c := &collector{percent: os.Getenv("GOGC") == ""}
	if c.percent {
		debug.SetGCPercent(smallPercent)
		c.growing.Store(true)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		c.least.Store(memoryLimit)
		c.set(memoryLimit)
		c.watch()
	}
	return c
}

// pause has nothing collected below the limit until resume: while a model is read, nearly all that is made is kept.
func (c *collector) pause() {
	if c != nil && c.percent && c.limit.Load() > 0 {
		c.growing.Store(false)
		debug.SetGCPercent(-1)
	}
}

// resume ends a pause after which there is a graph of so many values, read from a file of so many bytes.
func (c *collector) resume(values int, bytes int64) {
	if c != nil && c.limit.Load() > 0 {
		c.least.Store(min(modelLimit+modelFactor*min(bytes, memoryLimit), memoryLimit))
		c.raise()
	}
	switch {
	case c == nil || !c.percent:
	case values <= manyValues:
		debug.SetGCPercent(smallPercent)
		c.growing.Store(true)
	case c.limit.Load() == 0:
		debug.SetGCPercent(largePercent)
	default:
		dropPages()
		c.large.Store(true)
		c.raise()
	}
}

// answered gives back what a large model's answer was made of: what it is written as is made next, and needs memory in
// one piece, which was taken in small ones.
func (c *collector) answered() {
	if c != nil && inUse() > smallGrowth/4 {
		debug.FreeOSMemory()
	}
}

// tidy has garbage collected as it comes, from here on: what a snapshot makes the program hold is bounded by the file's
// size, and so is garbage on top of it.
func (c *collector) tidy() {
	if c != nil && c.percent {
		c.growing.Store(false)
		c.large.Store(false)
		debug.SetGCPercent(100)
	}
}

// watch calls raise after each collection from now on.
func (c *collector) watch() {
	type sentinel struct{ _ *sentinel } // with a pointer, so that it has an allocation of its own
	runtime.SetFinalizer(new(sentinel), func(*sentinel) {
		c.raise()
		c.watch()
	})
}

// set sets the limit.
func (c *collector) set(limit int64) {
	c.limit.Store(limit)
	debug.SetMemoryLimit(limit)
}

// raise keeps the limit at four thirds of what the last collection found in use, or at its least, and garbage in
// bounds. What a run needed for a while is no room for the garbage of the next.
func (c *collector) raise() {
	kept := inUse()
	if c.growing.Load() {
		debug.SetGCPercent(int(min(max(smallGrowth*100/max(kept, 1), 100), smallPercent)))
	}
	least := c.least.Load()
	if c.large.Load() {
		dropPages()
		if kept < least*3/4 {
			debug.SetGCPercent(-1)
			c.set(least)
		} else { // the limit would have no end of collecting what is kept
			debug.SetGCPercent(int(max((least-kept)*100/kept, keptPercent)))
			c.set(memoryLimit << 10)
		}
		return
	}
	limit := max(kept+kept/3, least)
	if was := c.limit.Load(); limit > was || limit < was-was/16 {
		c.set(limit)
	}
}

// inUse returns how many bytes the last collection found in use.
func inUse() int64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}
