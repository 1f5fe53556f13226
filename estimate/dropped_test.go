package estimate

import (
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// TestDroppedWorkspaceNote sees that a report says when convolutions have to do without their workspace.
func TestDroppedWorkspaceNote(t *testing.T) {
	bound, err := Bind(openModel(t, "vgg16", "ts-train"), Options{Batch: 32})
	must.OK(t, err)
	noted := func(limit int64) bool {
		t.Helper()
		r, err := bound.Report(Options{Batch: 32, Step: &Step{MemoryLimit: limit}})
		must.OK(t, err)
		if r.OOM != nil {
			t.Errorf("out of memory under %d", limit)
		}
		return slices.ContainsFunc(r.Notes, func(n Note) bool {
			return n.Level == Warning && strings.Contains(n.Text, "workspace of cuDNN's first choice")
		})
	}
	if !noted(4747<<20) || noted(0) {
		t.Error("want the note under a tight limit alone")
	}
}
