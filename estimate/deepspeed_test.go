package estimate

import (
	"math"
	"testing"

	"github.com/memestimate/memestimate/estimate/program/parallel"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// TestDeepSpeedDivides holds what a rank of DeepSpeed's ZeRO keeps between steps of AdamW in bf16 against what its
// documentation counts for a parameter (docs/_tutorials/zero.md): 12 bytes of float32 divided, beside 2 whole under
// stage 2, and 2 + 2 divided under stage 3. Nobody has measured the rest.
func TestDeepSpeedDivides(t *testing.T) {
	bound, err := Bind(openModel(t, "bert_base", formOf("bert_base")), Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	held := func(scheme string, gpus int) (byCategory [timeline.NumCategories]int64) {
		sim, err := bound.Simulate(Step{Settings: torch.Settings{Precision: torch.BF16},
			Plan: parallel.Plan{GPUs: gpus, Parallel: scheme}})
		if err != nil {
			t.Fatal(err)
		}
		byCategory, _ = heldAtEnd(sim.Run.Log)
		return byCategory
	}
	const parameters = 109_514_298.0
	for _, c := range []struct {
		scheme             string
		whole, own, states float64 // bytes a parameter: on each rank, divided, and divided of float32
	}{{parallel.ZeRO2, 2, 0, 12}, {parallel.ZeRO3, 0, 4, 12}} {
		for _, gpus := range []int{2, 8} {
			got := held(c.scheme, gpus)
			states := float64(got[timeline.OptimizerState]) / parameters
			model := float64(got[timeline.Parameter]+got[timeline.Gradient]) / parameters
			// Stage 3 keeps parameters of up to 100,000 elements whole on each rank: 0.1 % of these.
			if math.Abs(states-c.states/float64(gpus)) > 0.02 || math.Abs(model-c.whole-c.own/float64(gpus)) > 0.02 {
				t.Errorf("%s on %d GPUs: %.3f bytes a parameter of parameters and gradients, %.3f of states, want %.3f and %.3f",
					c.scheme, gpus, model, states, c.whole+c.own/float64(gpus), c.states/float64(gpus))
			}
		}
	}
	if _, err := bound.Simulate(Step{Settings: torch.Settings{Precision: torch.AMPBF16},
		Plan: parallel.Plan{GPUs: 2, Parallel: parallel.ZeRO2}}); err == nil {
		t.Error("autocast under DeepSpeed is no error")
	}
}

// The weights of an RNN share one piece of memory, which is let go once, when the last of them moves into DeepSpeed's
// flat one; those that are frozen stay in it.
func TestDeepSpeedMovesRNNs(t *testing.T) {
	bound, err := Bind(openModel(t, "lstm_lm", formOf("lstm_lm")), Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	whole := bound.heldParameters(t, parallel.Plan{})
	for _, frozen := range []string{"", "hh_l1", "^r\\."} {
		for _, scheme := range []string{parallel.ZeRO1, parallel.ZeRO2} {
			got := bound.heldParameters(t, parallel.Plan{GPUs: 4, Parallel: scheme, Freeze: frozen})
			// Frozen weights keep the memory of those beside them; the flat one is of a multiple of eight elements.
			if got < whole || frozen == "" && got > whole+8*4 {
				t.Errorf("%s with %q frozen: %d bytes of parameters, want %d", scheme, frozen, got, whole)
			}
		}
	}
}

// heldParameters is how many bytes of parameters there are at the end of a step in float32.
func (b *Bound) heldParameters(t *testing.T, plan parallel.Plan) int64 {
	t.Helper()
	sim, err := b.Simulate(Step{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	held, _ := heldAtEnd(sim.Run.Log)
	return held[timeline.Parameter]
}

// TestFewestGPUs holds the smallest number of GPUs that fit names: so many hold a batch of one safely, one less does
// not.
func TestFewestGPUs(t *testing.T) {
	m := openModel(t, "bert_base", formOf("bert_base"))
	const memory = 3 << 30
	step := Step{Plan: parallel.Plan{GPUs: 2, Parallel: parallel.FSDP, MetaDevice: true}}
	f, err := Largest(m, Options{Step: &step}, memory)
	if err != nil {
		t.Fatal(err)
	}
	if f.Fewest < 3 {
		t.Fatalf("%d GPUs are said to hold it", f.Fewest)
	}
	bound, err := Bind(m, Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{f.Fewest: true, f.Fewest - 1: false} {
		s := step
		s.GPUs = n
		sim, err := bound.Simulate(s)
		if err != nil {
			t.Fatal(err)
		}
		if fits := sim.Peak.Safe <= memory; fits != want {
			t.Errorf("%d GPUs: fits is %v, want %v: %d are said to be the fewest", n, fits, want, f.Fewest)
		}
	}
}
