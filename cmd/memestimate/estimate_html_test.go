package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/test/must"
)

// Blocks that one call makes share their lines: a recording of 2 MB has 600,000 blocks.
func TestLinesAreShared(t *testing.T) {
	in := resolve(filepath.Join("..", "..", "recording", "testdata", "net.b8.mrec"))
	rec, err := in.recording(&env{})
	must.OK(t, err)
	r, err := estimate.Recorded(rec, estimate.Options{Step: &estimate.Step{Record: true}})
	must.OK(t, err)
	of, shared := about(r.Simulation), 0
	first := map[string]*string{}
	for block := range r.Simulation.Timeline().Blocks {
		lines := of(block)
		if len(lines) == 0 {
			continue
		}
		switch key := strings.Join(lines, "\n"); first[key] {
		case nil:
			first[key] = &lines[0]
		case &lines[0]:
			shared++
		}
	}
	if len(first) < 10 || shared < 20 {
		t.Errorf("%d texts, and %d blocks share one", len(first), shared)
	}
}
