package estimate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A variantCase is a measured run that differs by a flag or two from the plain loop: see
// testdata/README.md.
type variantCase struct {
	measuredCase
	Accumulate int     `json:"accum"`
	Clip       float64 `json:"clip"`
	SetToNone  *bool   `json:"set_to_none"`
	Foreach    *bool   `json:"foreach"`
	Scaler     truthy  `json:"scaler"`
	AllocConf  string  `json:"alloc_conf"`
	CapMiB     int64   `json:"cap_mib"`
	OOM        bool    `json:"oom"`
	Tried      string  `json:"tried"`
	Retries    int64   `json:"alloc_retries"`
}

// kind names what is special about a case; cases of one kind are judged together.
func (c variantCase) kind() string {
	if c.CapMiB > 0 {
		return "memory cap"
	}
	parts := []string{}
	if c.Mode == "infer" || c.DType != "fp32" {
		parts = append(parts, c.Mode, c.DType)
	}
	if c.Opt != "" && (c.Opt != "adamw" || c.DType != "fp32") {
		parts = append(parts, c.Opt)
	}
	if c.Scaler {
		parts = append(parts, "scaler")
	}
	if c.Accumulate > 1 {
		parts = append(parts, fmt.Sprintf("accumulate %d", c.Accumulate))
	}
	if c.Clip > 0 {
		parts = append(parts, "clip")
	}
	if c.SetToNone != nil && !*c.SetToNone {
		parts = append(parts, "zeros")
	}
	if c.Foreach != nil && !*c.Foreach {
		parts = append(parts, "for-loop")
	}
	if c.AllocConf != "" {
		parts = append(parts, c.AllocConf)
	}
	return strings.Join(parts, " ")
}

func (c variantCase) step() Step {
	s := c.measuredCase.step()
	s.Accumulate, s.ClipNorm, s.Scaler, s.AllocConf = c.Accumulate, c.Clip > 0, bool(c.Scaler), c.AllocConf
	s.ZeroGrads = c.SetToNone != nil && !*c.SetToNone
	s.ForLoop = c.Foreach != nil && !*c.Foreach
	if c.CapMiB > 0 { // the fraction that set_per_process_memory_fraction was given, of what the device has
		total := float64(gpu.Default().Memory)
		s.MemoryLimit = int64(float64(c.CapMiB<<20) / total * total)
	}
	return s
}

func readVariants(t testing.TB) []variantCase {
	t.Helper()
	var all struct {
		Cases []variantCase `json:"cases"`
	}
	testfile.JSON(t, "testdata/truth/variants.json.gz", &all)
	return all.Cases
}

// TestMemoryCaps replays runs under caps on the process's memory: which of them run out of memory was measured.
func TestMemoryCaps(t *testing.T) {
	capped, right := 0, 0
	for _, c := range readVariants(t) {
		if c.CapMiB == 0 {
			continue
		}
		bound, err := Bind(openModel(t, c.Model, formOf(c.Model)), Options{Batch: c.Batch})
		must.OK(t, err)
		sim, err := bound.Simulate(c.step())
		if err != nil {
			t.Fatalf("%s: %v", c.name(), err)
		}
		capped++
		if oom := sim.OOM(); (oom != nil) == c.OOM {
			right++
		} else {
			t.Logf("%s under %d MiB: predicted to run out of memory %v, measured %v %s", c.name(), c.CapMiB, oom != nil, c.OOM,
				c.Tried)
		}
	}
	if capped != 40 || right < 38 {
		t.Errorf("%d of %d runs under a memory cap are rightly called, want 38 of 40", right, capped)
	}
}
