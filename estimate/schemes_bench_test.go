package estimate

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
)

// BenchmarkSchemes answers for a step beyond the plain one, and in turn for the plain one: x-simulated is how many
// times as long it takes to simulate, x-answered the same with the file read and the program recovered, as a process
// does it. Both are medians, since other programs may keep the processors busy.
func BenchmarkSchemes(b *testing.B) {
	for _, model := range []string{"resnet50", "qwen2_0_5b"} {
		raw, err := models.Open(model)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range []struct {
			name string
			plan program.Plan
		}{
			{"checkpoint", program.Plan{Checkpoint: program.Blocks}},
			{"lora", program.Plan{LoRA: "r=16,targets=q_proj|v_proj"}},
			{"ddp", program.Plan{GPUs: 8, Parallel: program.DDP}},
			{"zero1", program.Plan{GPUs: 8, Parallel: program.ZeRO1}},
			{"fsdp", program.Plan{GPUs: 8, Parallel: program.FSDP}},
		} {
			if model == "resnet50" && c.plan.LoRA != "" {
				continue // a net of convolutions has no layers for it
			}
			b.Run(model+"/"+c.name, func(b *testing.B) {
				var simulated, answered []float64
				for b.Loop() {
					read, plain := timeOf(b, model, raw, program.Plan{})
					again, planned := timeOf(b, model, raw, c.plan)
					simulated = append(simulated, float64(planned)/float64(plain))
					answered = append(answered, float64(again+planned)/float64(read+plain))
				}
				slices.Sort(simulated)
				slices.Sort(answered)
				b.ReportMetric(simulated[len(simulated)/2], "x-simulated")
				b.ReportMetric(answered[len(answered)/2], "x-answered")
			})
		}
	}
}

// timeOf is how long it takes to read a model and to recover its program, and to simulate a training step of it.
func timeOf(b *testing.B, model string, raw []byte, plan program.Plan) (read, simulated time.Duration) {
	b.Helper()
	runtime.GC() // of what the run before left
	began := time.Now()
	m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{Path: model})
	if err != nil {
		b.Fatal(err)
	}
	bound, err := Bind(m, Options{Batch: 8})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := bound.Program(true); err != nil {
		b.Fatal(err)
	}
	read = time.Since(began)
	began = time.Now()
	if _, err := bound.Simulate(Step{Plan: plan}); err != nil {
		b.Fatal(err)
	}
	return read, time.Since(began)
}
