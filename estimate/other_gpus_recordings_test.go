package estimate

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
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

// predicted is what the run allocates, or reserves where the figure is the device's.
func (r *otherRun) predicted(t *testing.T, steps *publishedSteps) int64 {
	t.Helper()
	d, err := gpu.Find(strings.ReplaceAll(strings.ToLower(r.Card), " ", "-"))
	must.OK(t, err)
	step := Step{Settings: torch.Settings{Precision: torch.FP32, Optimizer: r.Optimizer, Loss: "cross-entropy"}, GPU: d}
	var sim *Simulation
	if r.Recording != "" {
		sim, _, err = replayRecording(steps.read(t, r.Recording), step)
	} else {
		var b *Model
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

// TestOtherPublishers compares the prediction with runs of other publishers, by source and kind, as TestOtherGPUs does
// xMem's; allocated bytes need no constant.
func TestOtherPublishers(t *testing.T) {
	var file struct {
		Runs []*otherRun `json:"runs"`
	}
	testfile.JSON(t, publishedGPUs+"/others.json.gz", &file)
	steps := publishedSteps{of: packedRecordings(t, publishedGPUs+"/others.tar.zst")}
	measured, predicted := map[string][]int64{}, map[string][]int64{}
	for _, r := range file.Runs {
		kind := r.Source
		switch {
		case r.Model == "encoder":
			kind += " encoders"
		case r.Source == "GPUMemNet" && r.Optimizer == "not said": // three language models, taken for AdamW
			continue
		}
		measured[kind] = append(measured[kind], r.Allocated+r.Device)
		predicted[kind] = append(predicted[kind], r.predicted(t, &steps))
	}
	for kind, median := range map[string]float64{ // of absolute errors, in percent
		"GPUMemNet": 3, "GPUMemNet encoders": 1, "GPUMemNet, timm": 3, "mmsegmentation": 9.5,
	} {
		off := offBeside(measured[kind], predicted[kind])
		if kind == "mmsegmentation" {
			off = nil
			for i, m := range measured[kind] {
				off = append(off, 100*math.Abs(float64(predicted[kind][i])/float64(m)-1))
			}
		}
		t.Logf("%s: %d judged, median %.1f %%", kind, len(off), medianOf(off))
		if len(off) < 6 || medianOf(off) > median {
			t.Errorf("%s: median %.1f %% of %d, want %.1f %%", kind, medianOf(off), len(off), median)
		}
	}
}

// publishedSteps are recordings of published runs, by name; of a model at two batches every other batch follows.
type publishedSteps struct {
	of       map[string][]byte
	families map[string]*recording.Family
}

// name is that of the recordings of a run, but for the batch.
func (*publishedSteps) name(r *publishedRun) string {
	when := 0
	if r.ZeroGrad != nil {
		when = *r.ZeroGrad
	}
	return fmt.Sprintf("%s-%s-zg%d", r.Model, r.Optimizer, when)
}

func (p *publishedSteps) has(r *publishedRun) bool {
	name := p.name(r)
	return p.of[name+"-b1"] != nil || p.of[name+"-b10"] != nil
}

func (p *publishedSteps) read(t *testing.T, name string) *recording.Recording {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
	must.OK(t, err)
	if _, err := z.Write(p.of[name]); err != nil {
		t.Fatal(err)
	}
	must.OK(t, z.Close())
	rec, err := recording.Read(&packed)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rec
}

// at is the recording of a run.
func (p *publishedSteps) at(t *testing.T, r *publishedRun) *recording.Recording {
	t.Helper()
	name := p.name(r)
	if one := fmt.Sprint(name, "-b", r.Batch); p.of[one] != nil {
		return p.read(t, one)
	}
	f := p.families[name]
	if f == nil {
		var err error
		if f, err = recording.NewFamily(p.read(t, name+"-b10"), p.read(t, name+"-b40")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.families == nil {
			p.families = map[string]*recording.Family{}
		}
		p.families[name] = f
	}
	rec, err := f.At(r.Batch)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return rec
}

func (p *publishedSteps) predict(t *testing.T, r *publishedRun) {
	rec := p.at(t, r)
	r.predict = func(limit int64) (int64, bool) {
		step := r.step(t)
		step.MemoryLimit = limit
		sim, _, err := replayRecording(rec, step)
		if err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		return sim.Peak.Reserved, sim.OOM() != nil
	}
}

// packedRecordings reads an archive of recordings, each without its compression: they differ little from each other.
func packedRecordings(t *testing.T, file string) map[string][]byte {
	t.Helper()
	packed, err := readGraph(file)
	must.OK(t, err)
	of := map[string][]byte{}
	for all := tar.NewReader(bytes.NewReader(packed)); ; {
		head, err := all.Next()
		if errors.Is(err, io.EOF) {
			return of
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		text, err := io.ReadAll(all)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		of[strings.TrimSuffix(head.Name, ".jsonl")] = text
	}
}

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
