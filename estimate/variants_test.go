package estimate

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/testfile"
)

var variantsFile = flag.String("accuracy.variants", "testdata/truth/variants.json.gz", "the measured variants")

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
	testfile.JSON(t, *variantsFile, &all)
	return all.Cases
}

// A capped is a run under a cap on the process's memory: what was measured, and what is predicted.
type capped struct {
	c      variantCase
	oom    *OOM
	sim    *Simulation
	strict bool // out of memory if no convolution could do without its workspace
}

func (x capped) right() bool { return (x.oom != nil) == x.c.OOM }

// TestVariants compares every variant with its measurement, by kind; with -accuracy.write it also
// writes the section of the documentation.
func TestVariants(t *testing.T) {
	kinds := map[string][]outcome{}
	var all []outcome
	var caps []capped
	for _, c := range readVariants(t) {
		name := c.name() + " " + c.kind()
		if *onlyModel != "" && !slices.Contains(strings.Split(*onlyModel, ","), c.Model) ||
			!strings.Contains(name, *onlyCase) {
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
			caps = append(caps, capped{c, sim.OOM(), sim, failsStrictly(t, sim, c)})
		}
		if c.OOM || sim.Replay.OOM != nil {
			continue
		}
		held := sim.Peak.Reserved
		if c.CapMiB > 0 { // the peak was measured anew after the last release
			held = sim.Replay.End.Reserved
		}
		o := outcome{c: c.measuredCase, alloc: rel(sim.Peak.Allocated, c.PeakAlloc), reserved: rel(held, c.PeakReserved)}
		o.c.DType = name
		kinds[c.kind()] = append(kinds[c.kind()], o)
		all = append(all, o)
		if *verbose {
			t.Logf("%-60s alloc %+7.2f%%  reserved %+7.2f%%   (%d, want %d)", name, 100*o.alloc, 100*o.reserved,
				sim.Peak.Allocated, c.PeakAlloc)
		}
	}
	var rows strings.Builder
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		logSpread(t, &rows, k, kinds[k])
	}
	logSpread(t, &rows, "all", all)
	right := 0
	for _, x := range caps {
		if x.right() {
			right++
		}
		if *verbose || !x.right() {
			t.Logf("%-40s cap %5d MiB: right %v, predicted %s, %d retries; measured %s, %d retries", x.c.name(), x.c.CapMiB,
				x.right(), fate(x.oom), x.sim.Replay.Stats.AllocRetries, x.c.fate(), x.c.Retries)
		}
	}
	t.Logf("memory caps: %d of %d rightly called", right, len(caps))
	slices.SortFunc(all, func(x, y outcome) int { return cmp.Compare(math.Abs(y.alloc), math.Abs(x.alloc)) })
	for _, o := range all[:min(10, len(all))] {
		t.Logf("  worst: %-50s alloc %+.2f%% reserved %+.2f%%", o.c.DType, 100*o.alloc, 100*o.reserved)
	}
	if *onlyModel != "" || *onlyCase != "" || *onlyForm != "" {
		return
	}
	if len(all) < 170 || len(caps) != 40 {
		t.Errorf("%d cases compared, %d of them under a cap, want 170 and more, and 40", len(all), len(caps))
	}
	if m := spreadOf(all, allocated); m.median > 0.05 || m.p90 > 0.5 {
		t.Errorf("allocated: median error %.2f%%, nine of ten within %.2f%%, want at most 0.05%% and 0.5%%", m.median, m.p90)
	}
	if m := spreadOf(all, reserved); m.median > 0.5 || m.p90 > 6 {
		t.Errorf("reserved: median error %.2f%%, nine of ten within %.2f%%, want at most 0.5%% and 6%%", m.median, m.p90)
	}
	if right*100 < 95*len(caps) {
		t.Errorf("%d of %d runs under a memory cap are rightly called, want 95%%", right, len(caps))
	}
	if *writeDoc {
		writeVariants(t, rows.String(), caps)
	}
}

func logSpread(t *testing.T, w *strings.Builder, name string, g []outcome) {
	if len(g) == 0 {
		return
	}
	a, r := spreadOf(g, allocated), spreadOf(g, reserved)
	t.Logf("%-36s %3d cases  allocated: median %.2f%% p90 %.2f%% worst %.2f%%   reserved: median %.2f%% p90 "+
		"%.2f%% worst %.2f%%",
		name, len(g), a.median, a.p90, a.worst, r.median, r.p90, r.worst)
	fmt.Fprintf(w, "| %s | %d | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %.2f %% |\n", name, len(g), a.median,
		a.p90, a.worst, r.median, r.p90, r.worst)
}

// failsStrictly replays a run in which no request can be done without.
func failsStrictly(t *testing.T, sim *Simulation, c variantCase) bool {
	tl := *sim.Timeline()
	tl.Events = slices.Clone(tl.Events)
	for i := range tl.Events {
		tl.Events[i].Plan = 0
	}
	r, err := caching.Replay(&tl, caching.Config{Limit: c.step().MemoryLimit})
	if err != nil {
		t.Fatal(err)
	}
	return r.OOM != nil
}

// fate says how a predicted run ends.
func fate(o *OOM) string {
	if o == nil {
		return "survives"
	}
	return fmt.Sprintf("fails on %d MiB", o.Tried>>20)
}

// fate says how a measured run ended.
func (c variantCase) fate() string {
	if !c.OOM {
		return "survives"
	}
	return "fails on " + strings.Replace(c.Tried, ".00", "", 1)
}

const (
	variantsBegin = "<!-- variants: make accuracy writes them -->\n"
	variantsEnd   = "<!-- end of variants -->\n"
)

// writeVariants replaces the tables of variants in the documentation.
func writeVariants(t *testing.T, rows string, caps []capped) {
	var w strings.Builder
	fmt.Fprint(&w, "\n| variant | cases | allocated: median | 90 % | worst | reserved: median | 90 % | worst "+
		"|\n|---|---:|---:|---:|---:|---:|---:|---:|\n", rows)
	right, strict, tried, failed := 0, 0, 0, 0
	for _, x := range caps {
		if x.strict == x.c.OOM {
			strict++
		}
		if x.right() {
			right++
		}
		if x.c.OOM && x.oom != nil {
			failed++
			if fate(x.oom) == x.c.fate() {
				tried++
			}
		}
	}
	fmt.Fprintf(&w, "\nUnder a cap on the process's memory %d of %d runs are rightly called as surviving or not (%d if "+
		"no convolution\ncould do without its workspace); of %d that fail, the segment that could not be had is the "+
		"measured one in %d.\n", right, len(caps), strict, failed, tried)
	fmt.Fprint(&w, "\n| run | cap | measured | predicted | plans dropped |\n|---|---:|---|---|---:|\n")
	for _, x := range caps {
		fmt.Fprintf(&w, "| %s | %d MiB | %s | %s | %d |\n", x.c.name(), x.c.CapMiB, x.c.fate(), fate(x.oom),
			len(x.sim.Replay.Dropped))
	}
	testfile.Between(t, docFile, variantsBegin, variantsEnd).Write(t, w.String()+"\n")
}
