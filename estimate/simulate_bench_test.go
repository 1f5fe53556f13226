package estimate

import (
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// simulated are models of three kinds: convolutions, windows of attention in a graph of shape arithmetic, a large
// language model.
var simulated = []struct {
	model string
	batch int64
}{{"resnet50", 32}, {"swin_t:ts-train", 32}, {"qwen2_0_5b", 4}}

// BenchmarkSimulate measures what comes after loading and shape inference: the calls recovered, executed
// and replayed.
func BenchmarkSimulate(b *testing.B) {
	for _, c := range simulated {
		b.Run(c.model, func(b *testing.B) {
			m := open(b, c.model)
			events := 0
			b.ReportAllocs()
			for b.Loop() {
				bound, err := Bind(m, Options{Batch: c.batch})
				must.OK(b, err)
				begun := time.Now()
				s, err := bound.Simulate(Step{})
				must.OK(b, err)
				b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "ms/simulation")
				events = len(s.Timeline().Events)
			}
			b.ReportMetric(float64(events), "events")
		})
	}
}

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
