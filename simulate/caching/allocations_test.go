package caching

import (
	"testing"

	"github.com/memestimate/memestimate/test/testfile"
)

// A replay allocates for its tables, not for its events.
func TestReplayAllocations(t *testing.T) {
	var events []truthEvent
	testfile.JSON(t, "testdata/traces/resnet50.train.json.gz", &events)
	tl, _ := toTimeline(t, events)
	n := testing.AllocsPerRun(5, func() {
		if _, err := Replay(tl, Config{}); err != nil {
			t.Fatal(err)
		}
	})
	if per := n / float64(len(tl.Events)); per > 0.04 {
		t.Errorf("%.0f allocations for %d events, want less than one in twenty-five", n, len(tl.Events))
	}
}
