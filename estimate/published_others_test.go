package estimate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/testfile"
)

// An otherRun is a run of other publishers. What its figure is differs: allocated, or what the device had in use.
type otherRun struct {
	Source    string `json:"source"`
	Card      string `json:"card"`
	Model     string `json:"model"`
	Optimizer string `json:"optimizer"`
	Batch     int64  `json:"batch"`
	Allocated int64  `json:"allocated_bytes"`
	Device    int64  `json:"device_bytes"`
	Recording string `json:"recording"` // "" for a built-in network
}

// measured is the figure, whichever it is.
func (r *otherRun) measured() int64 { return r.Allocated + r.Device }

// fits reports whether what the process takes beyond the allocator has to be fitted.
func (r *otherRun) fits() bool { return r.Device > 0 }

// predicted is what the run allocates, or reserves where the figure is the device's.
func (r *otherRun) predicted(t *testing.T, steps *publishedSteps) int64 {
	t.Helper()
	d, err := gpu.Find(strings.ReplaceAll(strings.ToLower(r.Card), " ", "-"))
	if err != nil {
		t.Fatal(err)
	}
	step := Step{Settings: torch.Settings{Precision: torch.FP32, Optimizer: r.Optimizer, Loss: "cross-entropy"}, GPU: d}
	var sim *Simulation
	if r.Recording != "" {
		sim, _, err = replayRecording(steps.read(t, r.Recording), step)
	} else {
		var b *Bound
		if b, err = Bind(openGraph(t, "", r.Model, "ts-train"), Options{Batch: r.Batch, BuiltIn: true}); err == nil {
			sim, err = b.simulateOnce(step)
		}
	}
	switch {
	case err != nil:
		t.Fatalf("%s b%d: %v", r.Model, r.Batch, err)
	case r.Allocated > 0:
		return sim.Peak.Allocated
	}
	return sim.Peak.Reserved
}

// TestPublishedOthers compares the prediction with runs of other publishers, by source. A process's unknown share is
// one constant for each kind, the median of every third row, and the others are judged.
func TestPublishedOthers(t *testing.T) {
	var file struct {
		Runs []*otherRun `json:"runs"`
	}
	testfile.JSON(t, publishedGPUs+"/others.json.gz", &file)
	steps := publishedSteps{of: packedRecordings(t, publishedGPUs+"/others.tar.zst")}
	var w strings.Builder
	fmt.Fprint(&w, "\n| source | card | runs | figure | rows | constant | judged | median | 90 % | worst |\n"+
		"|---|---|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, kind := range []struct {
		source, runs string
		of           func(*otherRun) bool
	}{
		{"GPUMemNet", "networks of images", func(r *otherRun) bool { return r.Optimizer == "adam" && r.Model != "encoder" }},
		{"GPUMemNet", "encoders, sizes at random", func(r *otherRun) bool { return r.Model == "encoder" }},
		{"GPUMemNet", "language models, optimizer not said, taken for AdamW",
			func(r *otherRun) bool { return r.Optimizer == "not said" }},
		{"GPUMemNet, timm", "timm's networks, settings not said, taken for SGD with momentum",
			func(*otherRun) bool { return true }},
		{"mmsegmentation", "PSPNet", func(*otherRun) bool { return true }},
	} {
		var runs []*otherRun
		var predicted []int64
		for _, r := range file.Runs {
			if r.Source == kind.source && kind.of(r) {
				runs, predicted = append(runs, r), append(predicted, r.predicted(t, &steps))
			}
		}
		if len(runs) == 0 {
			t.Fatalf("no runs of %s: %s", kind.source, kind.runs)
		}
		constant, fitted := 0.0, "none"
		if runs[0].fits() {
			var left []float64
			for i := 0; i < len(runs); i += 3 {
				left = append(left, float64(runs[i].measured()-predicted[i]))
			}
			constant = max(medianOf(left), 0)
			fitted = fmt.Sprintf("%.0f MiB", constant/(1<<20))
		}
		var off []float64
		for i, r := range runs {
			e := 100 * ((float64(predicted[i])+constant)/float64(r.measured()) - 1)
			t.Logf("%s %s %s %s b%d: %+.2f%%, %d MiB predicted of %d", r.Source, r.Card, r.Model, r.Recording, r.Batch, e,
				predicted[i]>>20, r.measured()>>20)
			if !r.fits() || i%3 != 0 {
				off = append(off, math.Abs(e))
			}
		}
		slices.Sort(off)
		figure := "device"
		if runs[0].Allocated > 0 {
			figure = "allocated"
		}
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %d | %s | %d | %.1f %% | %.1f %% | %.1f %% |\n", kind.source, runs[0].Card,
			kind.runs, figure, len(runs), fitted, len(off), medianOf(off), off[len(off)*9/10], off[len(off)-1])
	}
	holdPart(t, "published others", w.String())
}
