package estimate

import (
	"math"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

// What LitGPT's authors measured with LoRA on an A100 of 40 GB (tutorials/resource-tables.md of Lightning-AI/litgpt,
// 2023-10-20): max_memory_allocated in units of 1e9 bytes, printed to a hundredth; 0 where it ran out of memory. The
// micro-batches are recorded as all of the longest sample's length, which the first one is.
func TestLitGPT(t *testing.T) {
	steps := publishedSteps{of: packedRecordings(t, publishedGPUs+"/litgpt.tar.zst")}
	card, err := gpu.Find("a100-40gb")
	must.OK(t, err)
	var off []float64
	for _, c := range []struct {
		name     string
		measured float64
	}{
		{"litgpt-phi-1_5-lora-none-b1", 4.82}, {"litgpt-phi-1_5-lora-none-b2", 6.76},
		{"litgpt-phi-1_5-lora-none-b4", 10.68}, {"litgpt-stablelm-base-alpha-3b-lora-none-b1", 9.69},
		{"litgpt-stablelm-base-alpha-3b-lora-none-b2", 12.1}, {"litgpt-stablelm-base-alpha-3b-lora-none-b4", 16.92},
		{"litgpt-Llama-2-7b-hf-lora-none-b1", 21.3}, {"litgpt-Llama-2-7b-hf-lora-none-b2", 29.07},
		{"litgpt-Llama-2-7b-hf-lora-none-b4", 0}, {"litgpt-Llama-2-13b-hf-lora-none-b1", 38.12},
		{"litgpt-Llama-2-13b-hf-lora-none-b2", 0},
	} {
		sim, _, err := replayRecording(steps.read(t, c.name), Step{GPU: card, Limited: true, process: bareContext})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if fails := sim.OOM() != nil; fails != (c.measured == 0) {
			t.Errorf("%s: predicted to fail: %v", c.name, fails)
		}
		if c.measured > 0 {
			by := 100 * (float64(sim.Peak.Allocated)/(1e9*c.measured) - 1)
			t.Logf("%s: %+.2f %%", c.name, by)
			off = append(off, math.Abs(by))
		}
	}
	if median := medianOf(off); median > 0.2 {
		t.Errorf("median %.2f %%", median)
	}
}
