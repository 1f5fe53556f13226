package estimate

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// BenchmarkStep reads a model, infers its shapes, recovers its calls and simulates three training steps of it. What it
// allocates for each event of the run is reported and bounded: 20 objects, most of them made by reading and inference.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"resnet50", "swin_t", "qwen2_0_5b"} {
		raw, err := models.Open(name)
		must.OK(b, err)
		load := func(b *testing.B) *Model {
			m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{Path: name})
			must.OK(b, err)
			bound, err := Bind(m, Options{Batch: 8})
			must.OK(b, err)
			return bound
		}
		b.Run(name+"/bind", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				load(b)
			}
		})
		b.Run(name+"/recover", func(b *testing.B) {
			b.ReportAllocs()
			bound := load(b)
			for b.Loop() {
				bound.programs.of[toTrain] = nil
				if _, err := bound.Program(true); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/simulate", func(b *testing.B) {
			b.ReportAllocs()
			bound := load(b)
			for b.Loop() {
				if _, err := bound.Simulate(Step{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/all", func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			events := 0
			for b.Loop() {
				sim, err := load(b).Simulate(Step{})
				must.OK(b, err)
				events += len(sim.Timeline().Events)
			}
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs) / float64(events)
			b.ReportMetric(each, "allocs/event")
			if each > 20 {
				b.Errorf("%.1f allocations for each event", each)
			}
		})
	}
}
