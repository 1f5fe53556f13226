package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/parallel"
)

// The cache of a transformer by its published widths, in bfloat16: two tensors a layer of kv heads times their size.
func TestGeneration(t *testing.T) {
	for _, c := range []struct {
		model                 string
		layers, heads, head   int64
		vocabulary, batch, of int64 // of: tokens of the input
	}{
		{"llama_160m", 12, 12, 64, 32000, 4, 512},
		{"qwen2_0_5b", 24, 2, 64, 151936, 2, 512}, // 14 heads of queries
		{"gpt2", 12, 12, 64, 50257, 4, 512},
	} {
		bound, err := Bind(openModel(t, c.model, "dynamo"), Options{Batch: c.batch})
		if err != nil {
			t.Fatal(err)
		}
		step := Step{Infer: true, NewTokens: 1536}
		step.Precision = "bf16"
		sim, err := bound.Simulate(step)
		if err != nil {
			t.Fatal(err)
		}
		token := 2 * 2 * c.layers * c.heads * c.head * c.batch
		g := sim.Generation
		if g.Prompt != c.of || g.Token != token || g.Cache != token*(c.of+1536) || g.Last <= g.Cache {
			t.Errorf("%s: %+v, want %d bytes a token after %d tokens", c.model, g, token, c.of)
		}
		step.NewTokens = 0
		plain, err := bound.Simulate(step)
		if err != nil {
			t.Fatal(err)
		}
		if plain.Generation != nil {
			t.Errorf("%s: an inference that generates nothing has a cache", c.model)
		}
		// It makes logits of one token of each sample, and holds the cache of its input.
		logits := 2 * c.batch * c.of * c.vocabulary
		if sim.Peak.Allocated >= plain.Peak.Allocated || sim.Peak.Allocated <= plain.Peak.Allocated-2*logits+token*c.of/2 {
			t.Errorf("%s: %d with a cache, %d without, logits of %d", c.model, sim.Peak.Allocated, plain.Peak.Allocated, logits)
		}
		p, err := bound.Program(false)
		if err != nil {
			t.Fatal(err)
		}
		calls, outputs := len(p.Calls), len(p.Outputs)
		if _, cache := parallel.Prefill(p); cache.Whole || len(p.Calls) != calls || len(p.Outputs) != outputs {
			t.Errorf("%s: the last layer is not found, or the program that was given is changed", c.model)
		}
	}
	bound, err := Bind(openModel(t, "resnet50", "dynamo"), Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bound.Simulate(Step{Infer: true, NewTokens: 1}); err == nil {
		t.Error("resnet50 generates text")
	}
}
