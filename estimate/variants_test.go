package estimate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// A variantCase is a measured run that differs by a flag or two from the plain loop: see
// testdata/truth/README.md.
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
		total := float64(gpus[0].Total)
		s.MemoryLimit = int64(float64(c.CapMiB<<20) / total * total)
	}
	return s
}

func readVariants(t testing.TB) []variantCase {
	t.Helper()
	b, err := os.ReadFile("testdata/truth/variants.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []variantCase `json:"cases"`
	}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

func TestVariants(t *testing.T) {
	kinds := map[string][]outcome{}
	var all []outcome
	right, wrong := 0, 0
	for _, c := range readVariants(t) {
		name := c.name() + " " + c.kind()
		if *onlyModel != "" && !slices.Contains(strings.Split(*onlyModel, ","), c.Model) || !strings.Contains(name, *onlyCase) {
			continue
		}
		bound, err := Bind(openModel(t, c.Model, formOf(c.Model)), Options{Batch: c.Batch})
		if err != nil {
			t.Fatal(err)
		}
		sim, err := bound.Simulate(c.step())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.CapMiB > 0 {
			ok := (sim.Replay.OOM != nil) == c.OOM
			if ok {
				right++
			} else {
				wrong++
			}
			if *verbose || !ok {
				got := "survives"
				if o := sim.OOM(); o != nil {
					got = fmt.Sprintf("out of memory in %s %d %s, tried %d MiB, allocated %d", o.Phase, o.Step, o.Layer, o.Tried>>20, o.Allocated)
				}
				t.Logf("%-40s cap %5d MiB: right %v, %s, retries %d; measured oom %v %s, retries %d", c.name(), c.CapMiB, ok, got, sim.Replay.Stats.AllocRetries, c.OOM, c.Tried, c.Retries)
			}
		}
		if c.OOM || sim.Replay.OOM != nil {
			continue
		}
		reserved := sim.Peak.Reserved
		if c.CapMiB > 0 { // the peak was measured anew after the last release
			reserved = sim.Replay.End.Reserved
		}
		o := outcome{c: c.measuredCase, alloc: rel(sim.Peak.Allocated, c.PeakAlloc), reserved: rel(reserved, c.PeakReserved)}
		o.c.DType = name
		kinds[c.kind()] = append(kinds[c.kind()], o)
		all = append(all, o)
		if *verbose {
			t.Logf("%-60s alloc %+7.2f%%  reserved %+7.2f%%   (%d, want %d)", name, 100*o.alloc, 100*o.reserved, sim.Peak.Allocated, c.PeakAlloc)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		logSpread(t, k, kinds[k])
	}
	logSpread(t, "all", all)
	t.Logf("memory caps: %d of %d rightly called", right, right+wrong)
	if *onlyModel == "" && *onlyCase == "" {
		if len(all) < 160 {
			t.Errorf("%d cases compared, want 160 and more", len(all))
		}
		if m := spreadOf(all, allocated).median; m > 0.1 {
			t.Errorf("allocated: median error %.2f%%, want at most 0.1%%", m)
		}
		if m := spreadOf(all, reserved).median; m > 1 {
			t.Errorf("reserved: median error %.2f%%, want at most 1%%", m)
		}
		if right*100 < 85*(right+wrong) {
			t.Errorf("%d of %d runs under a memory cap are rightly called, want 85%%", right, right+wrong)
		}
	}
	slices.SortFunc(all, func(x, y outcome) int { return cmp.Compare(math.Abs(y.alloc), math.Abs(x.alloc)) })
	for _, o := range all[:min(10, len(all))] {
		t.Logf("  worst: %-50s alloc %+.2f%% reserved %+.2f%%", o.c.DType, 100*o.alloc, 100*o.reserved)
	}
}

func logSpread(t *testing.T, name string, g []outcome) {
	if len(g) == 0 {
		return
	}
	t.Logf("%-36s %3d cases  allocated: %v   reserved: %v", name, len(g), spreadOf(g, allocated), spreadOf(g, reserved))
}
