package estimate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// A group does things at the same time. A panic in one of them, which in a goroutine of its own would end the program
// with a trace, becomes one of whoever waits for them, and says where it was.
type group struct {
	wait  sync.WaitGroup
	mu    sync.Mutex
	panic string // the first one; "" for none
}

// do starts f.
func (c *group) do(f func()) {
	c.wait.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.panic = cmp.Or(c.panic, fmt.Sprintf("%v in %s", p, PanicPlace()))
			}
		}()
		f()
	})
}

// end waits for everything.
func (c *group) end() {
	c.wait.Wait()
	if c.panic != "" {
		panic(c.panic)
	}
}

// manyEvents is how many events a run has whose memory is not taken twice at once. Most nodes make few; an einsum of
// many letters or an attention makes dozens.
const manyEvents = 100_000

// each calls f with every number below n and waits for all: as many at a time as there are processors, one of a large
// model or of one whose runs have many events, whose memory is bounded by its file and not by how many processors there
// are.
func (b *Model) each(n int, f func(i int)) {
	var c group
	atOnce := runtime.GOMAXPROCS(0)
	if b.large() || b.busy.Load() {
		atOnce = 1
	}
	running := make(chan struct{}, atOnce)
	for i := range n {
		running <- struct{}{}
		c.do(func() {
			defer func() { <-running }()
			f(i)
		})
	}
	c.end()
}

// PanicPlace returns the file and line that panicked, for the deferred function that recovers from it.
func PanicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for panicking := false; ; {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicking = panicking || f.Function == "runtime.gopanic"
		case panicking:
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
