package estimate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// What people estimate with before they launch: formulas of parameters, and for transformers of their widths. Each
// answers only for the cases that it is about; bytes.
type calculator struct {
	name   string
	answer func(c beyondCase, m calculated) (bytes float64, ok bool)
}

// calculated is what the formulas are about.
type calculated struct {
	params, largest float64 // parameters, and those of the module that has most itself
}

// A decoder is what EleutherAI's calculator asks about a transformer.
type decoder struct{ hidden, layers, heads, vocab, expansion, linears, keys float64 }

var decoders = map[string]decoder{
	"gpt2":       {768, 12, 12, 50257, 4, 2, 1},
	"llama_160m": {768, 12, 12, 32000, 2048.0 / 768, 3, 1},
	"qwen2_0_5b": {896, 24, 14, 151936, 4864.0 / 896, 3, 2.0 / 14},
}

var calculators = []calculator{
	// accelerate/commands/estimate.py, estimate_training_usage: the largest of model, gradients, optimizer and step.
	{"accelerate estimate-memory", func(c beyondCase, m calculated) (float64, bool) {
		switch {
		case c.Parallel != "":
			return 0, false
		case c.DType == "fp32":
			return 4 * 4 * m.params, true
		}
		return 2 * 4 * m.params, true // with mixed precision
	}},
	// deepspeed/runtime/zero/stage_1_and_2.py and stage3.py, without offloading; there is no formula of stage 1.
	{"DeepSpeed estimate_zero2/3_model_states_mem_needs", func(c beyondCase, m calculated) (float64, bool) {
		switch c.Parallel {
		case "zero1":
			return 4*m.params + 16*m.params/2, true
		case "fsdp2":
			return 4*m.largest + 18*m.params/2, true
		}
		return 0, false
	}},
	// EleutherAI/cookbook, calc/calc_transformer_mem.py, with its defaults where nothing else is known.
	{"EleutherAI calc_transformer_mem.py", func(c beyondCase, _ calculated) (float64, bool) {
		d, ok := decoders[c.Model]
		if !ok {
			return 0, false
		}
		const sequence, bucket, live = 512, 5e8, 1e9
		params := 2*d.vocab*d.hidden + d.hidden*sequence + 8*d.hidden*d.layers + 2*d.hidden +
			2*(1+d.keys)*d.layers*d.hidden*d.hidden + d.linears*d.layers*d.hidden*d.expansion*d.hidden
		value := 2.0 // bytes of a value where precision is mixed or low
		if c.DType == "fp32" && c.Mixed == nil {
			value = 4
		}
		model, gradients, optimizer, buffers := params*value, 4*params, 12*params, 0.0
		switch c.Parallel {
		case "zero1":
			optimizer, buffers = optimizer/2, bucket*value
		case "fsdp2":
			model, gradients, optimizer, buffers = model/2, gradients/2, optimizer/2, (bucket+live)*value
		}
		each := 16*value + 2
		if c.Checkpoint == nil {
			each += (2*value + 1) * d.heads * sequence / d.hidden
		}
		return model + gradients + optimizer + buffers + sequence*float64(c.Batch)*d.hidden*d.layers*each, true
	}},
}

// TestCalculators holds formulas beside the simulation on the measured steps beyond the plain one; docs/ACCURACY.md
// has what it prints.
func TestCalculators(t *testing.T) {
	needsEveryCase(t)
	type key struct{ scheme, name string }
	errs := map[key][2][]float64{} // the formula's, and the simulation's on the same cases
	for _, c := range readBeyond(t, "testdata/beyond/beyond.json.gz") {
		scheme := c.scheme()
		if scheme == "" {
			continue
		}
		bound, s := c.bind(t)
		p, err := bound.Program(true)
		if err != nil {
			t.Fatal(err)
		}
		m, modules := calculated{}, map[string]float64{}
		for _, id := range p.Params {
			v := &p.Values[id]
			m.params += float64(program.Numel(v.Shape))
			module := v.Name[:max(strings.LastIndexByte(v.Name, '.'), 0)]
			modules[module] += float64(program.Numel(v.Shape))
			m.largest = max(m.largest, modules[module])
		}
		sim, err := bound.Simulate(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, calc := range calculators {
			if bytes, ok := calc.answer(c, m); ok {
				k := key{scheme, calc.name}
				e := errs[k]
				e[0] = append(e[0], math.Abs(bytes/float64(c.PeakAlloc)-1))
				e[1] = append(e[1], math.Abs(rel(sim.Peak.Allocated, c.PeakAlloc)))
				errs[k] = e
			}
		}
	}
	keys := make([]key, 0, len(errs))
	for k := range errs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.name+a.scheme, b.name+b.scheme) })
	var w strings.Builder
	fmt.Fprint(&w, "\n| calculator | steps | cases | its median | its worst | simulated: median | worst |\n"+
		"|---|---|---:|---:|---:|---:|---:|\n")
	for _, k := range keys {
		theirs, ours := errs[k][0], errs[k][1]
		slices.Sort(theirs)
		slices.Sort(ours)
		n := len(theirs)
		fmt.Fprintf(&w, "| %s | %s | %d | %.1f %% | %.1f %% | %.2f %% | %.2f %% |\n", k.name, k.scheme, n,
			100*theirs[n/2], 100*theirs[n-1], 100*ours[n/2], 100*ours[n-1])
		if ours[n-1] >= theirs[n-1] || ours[n/2] >= theirs[n/2] {
			t.Errorf("%v: the formula is nearer than the simulation", k)
		}
	}
	holdPart(t, "calculators", w.String())
	if len(keys) < 8 {
		t.Errorf("%d kinds of cases, want 8", len(keys))
	}
}
