package caching

import "testing"

// A pool that one block comes to and leaves over and over asks for no memory each time.
func TestSetKeepsASpareChunk(t *testing.T) {
	var s set
	e := entry{}
	n := testing.AllocsPerRun(100, func() {
		s.insert(e)
		if !s.remove(e) || s.n != 0 {
			t.Fatal("what was put in is not there")
		}
	})
	if n >= 1 {
		t.Errorf("%v allocations for a block in and out, want none", n)
	}
}
