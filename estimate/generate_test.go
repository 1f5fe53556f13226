package estimate

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// generated simulates model.generate() in bfloat16 of a built-in graph: with an open length where there is such a one,
// else of 512 tokens.
func generated(t *testing.T, model string, batch, prompt int64, how Generate) *Simulation {
	t.Helper()
	bound, err := Bind(openOpen(t, model), Options{Batch: batch, Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	step := Step{Infer: true, Generate: how}
	step.Precision = "bf16"
	sim, err := bound.Simulate(step)
	if err != nil {
		t.Fatalf("%s, %+v: %v", model, how, err)
	}
	return sim
}

// The cache of a transformer by its published widths: two tensors a layer of kv heads times their size, for every token
// but the last one that is made, which nothing reads.
func TestGeneration(t *testing.T) {
	for _, c := range []struct {
		model               string
		layers, heads, head int64
		batch               int64
	}{
		{"llama_160m", 12, 12, 64, 8},
		{"qwen2_0_5b", 24, 2, 64, 2}, // 14 heads of queries
		{"gpt2", 12, 12, 64, 4},
	} {
		token := 2 * 2 * c.layers * c.heads * c.head * c.batch
		for _, w := range []struct {
			how   Generate
			token int64
			kept  int64
		}{
			{Generate{NewTokens: 40}, token, 100 + 39},
			{Generate{NewTokens: 40, Cache: "static"}, token, 100 + 39},
			{Generate{NewTokens: 40, CacheType: "fp8"}, token / 2, 100 + 39},
			{Generate{NewTokens: 40, Cache: "static", Window: 64}, token, 64},
			{Generate{NewTokens: 40, Window: 64}, token, 100}, // a window of all tokens of the prompt, until the next one
			{Generate{NewTokens: 40, Window: 120}, token, 120},
		} {
			sim := generated(t, c.model, c.batch, 100, w.how)
			g := sim.Generation
			if g.Prompt != 100 || g.NewTokens != 40 || g.Token != w.token || g.Cache != w.token*w.kept {
				t.Errorf("%s, %+v: %+v, want %d bytes a token, %d of them", c.model, w.how, g, w.token, w.kept)
			}
			if got := max(g.Prefill, g.Last); got != sim.Peak.Allocated {
				t.Errorf("%s, %+v: at most %d, and %d in all", c.model, w.how, got, sim.Peak.Allocated)
			}
			held, _ := heldAtEnd(sim.Run.Log)
			for category, bytes := range held {
				if category != 0 && bytes > 64<<20 {
					t.Errorf("%s, %+v: %d bytes of category %d are left", c.model, w.how, bytes, category)
				}
			}
		}
	}
}

// The last token is not read again: gpt2 has a row for each of 1,024 positions, and BERT two rows for types of tokens.
func TestGeneratingBeyondPositions(t *testing.T) {
	for _, c := range []struct {
		model  string
		tokens int
		want   string
	}{
		{"gpt2", 25, ""},
		{"gpt2", 26, `1025 tokens of each sample are read, and the model has 1024 positions, the rows of ` +
			`"m.transformer.wpe.weight": want at most 25 new ones`},
		{"llama_160m", 26, ""},
	} {
		bound, err := Bind(openModel(t, c.model, "dynamo"), Options{Batch: 1, Prompt: 1000})
		if err != nil {
			t.Fatal(err)
		}
		_, err = bound.Simulate(Step{Infer: true, Generate: Generate{NewTokens: c.tokens}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %d new tokens: %v, want %q", c.model, c.tokens, err, c.want)
		}
	}
}

// What PyTorch itself allocates for the same, recorded without a GPU (scripts/measure/generate.py): batch 8, a prompt
// of 128 tokens and 12 new ones, bfloat16. The graphs do not say that two embeddings of GPT-2 keep their names to the
// end.
func TestGenerationAsRecorded(t *testing.T) {
	for _, c := range []struct {
		model, cache        string
		allocated, reserved int64
	}{
		{"gpt2", "dynamic", 363609088, 387973120},
		{"gpt2", "static", 366425088, 387973120},
		{"llama_160m", "dynamic", 363536896, 390070272},
		{"llama_160m", "static", 367618560, 390070272},
		{"qwen2_0_5b", "dynamic", 1082077696, 1132462080},
		{"qwen2_0_5b", "static", 1083171328, 1132462080},
	} {
		p := generated(t, c.model, 8, 128, Generate{NewTokens: 12, Cache: c.cache}).Peak
		if off := float64(p.Allocated)/float64(c.allocated) - 1; math.Abs(off) > 0.015 {
			t.Errorf("%s, %s: %d allocated, recorded %d, %+.2f %%", c.model, c.cache, p.Allocated, c.allocated, 100*off)
		}
		if off := float64(p.Reserved)/float64(c.reserved) - 1; math.Abs(off) > 0.005 {
			t.Errorf("%s, %s: %d reserved, recorded %d, %+.2f %%", c.model, c.cache, p.Reserved, c.reserved, 100*off)
		}
	}
}

// What has no cache generates nothing, and a graph whose number of tokens is a size of its weights too says so.
func TestGenerationRefused(t *testing.T) {
	bound, err := Bind(openModel(t, "resnet50", "dynamo"), Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bound.Simulate(Step{Infer: true, Generate: Generate{NewTokens: 1}})
	if !errors.Is(err, program.ErrNoCache) {
		t.Errorf("resnet50 generates text: %v", err)
	}
	bound, err = Bind(openModel(t, "llama_160m", "dynamo"), Options{Batch: 4}) // 4 times 512 is the width of its MLP
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bound.Simulate(Step{Infer: true, Generate: Generate{NewTokens: 1}}); err == nil {
		t.Error("512 tokens of 4 samples are told from a width of 2048")
	}
	tooMany := Step{Infer: true, Generate: Generate{NewTokens: MostNewTokens + 1}}
	if _, err := bound.Simulate(tooMany); err == nil || !strings.Contains(err.Error(), "131073 new tokens, want at most") {
		t.Errorf("131,073 tokens: %v", err)
	}
}
