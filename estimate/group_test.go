package estimate

import (
	"strings"
	"sync/atomic"
	"testing"
)

// A bug on another goroutine is told as one on the caller's is, with its place, after everything else is done.
func TestCrewPanics(t *testing.T) {
	var c group
	var done atomic.Int32
	empty := []int{}
	for i := range 8 {
		c.do(func() {
			if i%2 == 1 {
				done.Add(int32(empty[i-i%2]))
			}
			done.Add(1)
		})
	}
	defer func() {
		p, _ := recover().(string)
		if done.Load() != 4 || !strings.Contains(p, "index out of range") || !strings.Contains(p, " in group_test.go:") {
			t.Errorf("%d done, panic %q", done.Load(), p)
		}
	}()
	c.end()
}
