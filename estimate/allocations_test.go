package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// simulated are models of three kinds: convolutions, windows of attention in a graph of shape arithmetic, a large
// language model.
var simulated = []struct {
	model string
	batch int64
}{{"resnet50", 32}, {"swin_t:ts-train", 32}, {"qwen2_0_5b", 4}}

// mostAllocations bounds the heap allocations that an event of a simulation may cost, so that a rule which
// allocates in a loop is noticed.
const mostAllocations = 4

func TestAllocationsPerEvent(t *testing.T) {
	for _, c := range simulated {
		bound, err := Bind(open(t, c.model), Options{Batch: c.batch})
		must.OK(t, err)
		events := 0
		allocations := testing.AllocsPerRun(1, func() {
			s, err := bound.Simulate(Step{})
			must.OK(t, err)
			events = len(s.Timeline().Events)
		})
		if per := allocations / float64(events); per > mostAllocations {
			t.Errorf("%s: %.1f allocations an event, more than %d", c.model, per, mostAllocations)
		}
	}
}
