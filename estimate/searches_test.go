package estimate

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A folder with recordings of all measured cases: scripts/measure/record_zoo.py makes it of
// testdata/searches/steps.json.gz.
var searches = flag.String("searches", "testdata/searches", "a folder of recordings under cudnn.benchmark")

// Built-in models were measured with torch.backends.cudnn.benchmark on: what is allocated at most in each step of a
// recording, that in which cuDNN searches for its fastest engines among them, is within a twentieth of it, and the
// largest of all within a fiftieth in nine of ten. What is reserved when a step has ended is below the bound.
func TestSearches(t *testing.T) {
	var measured struct{ Cases []map[string]any }
	testfile.JSON(t, "testdata/searches/steps.json.gz", &measured)
	var index []map[string]any
	testfile.JSON(t, filepath.Join(*searches, "index.json"), &index)
	kinds, without := map[string][]float64{}, []float64{}
	for _, entry := range index {
		at := slices.IndexFunc(measured.Cases, func(m map[string]any) bool {
			keys := []string{"model", "mode", "dtype", "opt", "batch", "channels_last"}
			return !slices.ContainsFunc(keys, func(k string) bool { return m[k] != entry[k] })
		})
		if at < 0 {
			t.Fatalf("%v was not measured", entry)
		}
		name := entry["file"].(string)
		rec := openRecordingAt(t, filepath.Join(*searches, name))
		sim, _, err := replayRecording(rec, Step{})
		must.OK(t, err)
		said := map[int32]int64{}
		for _, s := range sim.Replay.Spans {
			if s.Step > 0 && s.Phase != timeline.Load {
				said[s.Step] = max(said[s.Step], s.PeakAllocated.Allocated)
			}
		}
		most := int64(0)
		for i, step := range measured.Cases[at]["steps"].([]any) {
			took := int64(0)
			for key, v := range step.(map[string]any) {
				if strings.HasPrefix(key, "peak") {
					took = max(took, int64(v.(float64)))
				}
			}
			most = max(most, took)
			reserved := int64(step.(map[string]any)["reserved"].(float64))
			off := math.Abs(float64(said[int32(i+1)])/float64(took) - 1)
			if off > 0.05 && entry["mode"] == "train" { // a recording has no steps of inference
				t.Errorf("%s: step %d allocates %d, %d measured", name, i+1, said[int32(i+1)], took)
			}
			if sim.Peak.UpperBound < reserved && reserved-sim.Peak.UpperBound > reserved/40 {
				t.Errorf("%s: %d reserved after step %d, at most %d said", name, reserved, i+1, sim.Peak.UpperBound)
			}
		}
		kind := fmt.Sprint(entry["mode"], " ", entry["dtype"])
		off := 100 * math.Abs(float64(sim.Peak.Allocated)/float64(most)-1)
		rec.Searches = nil
		if sim, _, err = replayRecording(rec, Step{}); err != nil {
			t.Fatal(err)
		}
		without = append(without, 100*math.Abs(float64(sim.Peak.Allocated)/float64(most)-1))
		kinds[kind], kinds["all"] = append(kinds[kind], off), append(kinds["all"], off)
	}
	for kind, off := range kinds {
		t.Logf("%-16s %3d runs, allocated off by %.2f %% (median), %.2f %% (90 %%), %.2f %% (worst)", kind, len(off),
			at(off, 0.5), at(off, 0.9), at(off, 1))
	}
	if at(kinds["all"], 0.9) > 2 {
		t.Errorf("nine of ten are within %.2f %%, wanted 2", at(kinds["all"], 0.9))
	}
	t.Logf("without searches  %.2f %% (median), %.2f %% (90 %%)", at(without, 0.5), at(without, 0.9))
	if at(without, 0.5) < 2 {
		t.Errorf("without searches half are within %.2f %%: they were to matter", at(without, 0.5))
	}
}

// The built-in graphs give the same with Settings.Benchmark, where what cuDNN offers is known by the operands' sizes
// alone.
func TestSearchesOfGraphs(t *testing.T) {
	var measured struct {
		Cases []struct {
			variantCase
			ChannelsLast bool `json:"channels_last"`
		}
	}
	testfile.JSON(t, "testdata/searches/steps.json.gz", &measured)
	var all []float64
	for _, c := range measured.Cases {
		most := int64(0)
		for _, step := range c.Steps {
			for key, v := range step {
				if strings.HasPrefix(key, "peak") {
					most = max(most, v)
				}
			}
		}
		settings := torch.Settings{Precision: torch.Precision(c.DType), Optimizer: c.Opt, Benchmark: true,
			ChannelsLast: c.ChannelsLast}
		b, err := Bind(open(t, c.Model), Options{Batch: c.Batch})
		must.OK(t, err)
		sim, err := b.Simulate(Step{Infer: c.Mode == "infer", Settings: settings})
		must.OK(t, err)
		off := 100 * math.Abs(float64(sim.Peak.Allocated)/float64(most)-1)
		if all = append(all, off); off > 5 {
			t.Errorf("%s, %s in %s: %d allocated, %d measured", c.Model, c.Mode, c.DType, sim.Peak.Allocated, most)
		}
	}
	t.Logf("%d runs, allocated off by %.2f %% (median), %.2f %% (90 %%), %.2f %% (worst)", len(all), at(all, 0.5),
		at(all, 0.9), at(all, 1))
	if at(all, 0.5) > 0.2 || at(all, 0.9) > 2 {
		t.Errorf("half are within %.2f %%, nine of ten within %.2f %%", at(all, 0.5), at(all, 0.9))
	}
}

// A search leaves out what the GPU has not free, so that no figure of a run goes beyond the GPU's memory unless that of
// the same run without searches does, or all that is reserved where each search is left out: whatever the process takes
// beside the allocator.
func TestSearchesFit(t *testing.T) {
	b, err := Bind(open(t, "resnet18"), Options{Batch: 8})
	must.OK(t, err)
	tests := map[string]Step{
		"alone": {}, "ddp": {Plan: program.Plan{GPUs: 4}}, "a larger context": {process: 3 << 30},
	}
	for name, s := range tests {
		figures := func(benchmark bool, memory int64) [4]int64 {
			s.Benchmark, s.GPU = benchmark, gpu.Other("small", memory, gpu.Capability{Major: 9}, 132)
			sim, err := b.Simulate(s)
			must.OK(t, err)
			p := &sim.Peak
			return [4]int64{p.Device, p.Likely, p.Safe, p.UpperBound}
		}
		searched, without, none := false, figures(false, 1<<30), figures(true, 1<<20)
		for memory := int64(2 << 30); memory < 6<<30; memory += 128 << 20 {
			with := figures(true, memory)
			ordered := with[0] <= with[1] && with[1] <= with[2] && with[0] <= with[3]
			for k := range with {
				if with[k] > max(memory, without[k], none[0]) || !ordered {
					t.Errorf("%s with %d: the figures are %d, without searches %d and %d", name, memory, with, without, none)
				}
			}
			searched = searched || with[0] > without[0]+1<<30
		}
		if !searched {
			t.Errorf("%s: no search took anything", name)
		}
	}
}
