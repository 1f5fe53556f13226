package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// A limit below what is kept would have the collector run without end.
func TestLimitRises(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const kept = 64 << 20
	c := &collector{}
	c.limit.Store(1 << 20)
	defer c.least.Store(math.MaxInt64) // which the next collection sets, and nothing changes
	debug.SetMemoryLimit(1 << 20)
	c.watch()
	var lists [][]byte
	for range kept >> 20 {
		lists = append(lists, make([]byte, 1<<20))
	}
	deadline := time.Now().Add(10 * time.Second)
	for debug.SetMemoryLimit(-1) < kept*4/3 && time.Now().Before(deadline) {
		runtime.GC() // what it finds is raised to in a goroutine of its own
		time.Sleep(time.Millisecond)
	}
	if got := debug.SetMemoryLimit(-1); got < kept*4/3 {
		t.Errorf("with %d bytes kept the limit is %d", kept, got)
	}
	runtime.KeepAlive(lists)
}

// Who set GOGC or GOMEMLIMIT has what was set; and a model that is read changes nothing where there is no collector.
func TestCollectorLeavesSettings(t *testing.T) {
	percent := debug.SetGCPercent(123)
	limit := debug.SetMemoryLimit(5 << 30)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	t.Setenv("GOGC", "123")
	t.Setenv("GOMEMLIMIT", "5GiB")
	for _, c := range []*collector{startCollector(), nil} {
		for _, nodes := range []int{10, manyValues + 1} {
			c.pause()
			c.resume(nodes, 1<<20)
		}
	}
	if got := debug.SetMemoryLimit(-1); got != 5<<30 {
		t.Errorf("the limit is %d", got)
	}
	if got := debug.SetGCPercent(123); got != 123 {
		t.Errorf("GOGC is %d", got)
	}
}
