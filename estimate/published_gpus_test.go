package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/estimate/gpu"
	"github.com/memestimate/memestimate/test/testfile"
)

const publishedGPUs = "testdata/published_gpus"

// A publishedRun is a run that somebody else measured, on a GPU on which nothing of ours was: the most that the device
// had in use, less what it had once the process had a CUDA context.
type publishedRun struct {
	Card      string `json:"card"`
	Model     string `json:"model"`
	Optimizer string `json:"optimizer"`
	Batch     int64  `json:"batch"`
	// 0: before the forward pass, as where it is not said; 1: before backward; 2: after the step
	ZeroGrad  *int      `json:"zero_grad"`
	Peak      int64     `json:"peak_bytes"`
	OOM       bool      `json:"oom"` // it ran out of memory
	XMem      []verdict `json:"xMem"`
	DNNMem    []verdict `json:"DNNMem"`
	SchedTune []verdict `json:"SchedTune"`

	reserved int64 // by our prediction
	fails    bool  // it runs out of memory, likewise
}

// A verdict is an estimate in bytes; and of a second run under a cap at the estimate 1 for one that ran out of memory,
// or 0 and by how much its peak was off.
type verdict *float64

func (r *publishedRun) device(t *testing.T) gpu.Device {
	t.Helper()
	d, err := gpu.Find(strings.ReplaceAll(strings.ToLower(r.Card), " ", "-"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// step is xMem's loop: four iterations in float32 with the optimizers' defaults.
func (r *publishedRun) step(d gpu.Device) Step {
	return Step{Settings: eager.Settings{Precision: eager.FP32, Optimizer: r.Optimizer, Loss: "cross-entropy"}, GPU: d,
		Limited: true, Profile: Profile{Context: bareContext}}
}

// simulate predicts the run, under a cap on what the allocator may reserve unless that is 0.
func (r *publishedRun) simulate(t *testing.T, limit int64) (reserved int64, fails bool) {
	t.Helper()
	form := "ts-train"
	if strings.HasPrefix(r.Model, "vgg") { // whose pooling TorchScript does not export at this size
		form = "dynamo-train"
	}
	b, err := Bind(openGraph(t, publishedGPUs, r.Model, form), Options{Batch: r.Batch})
	if err != nil {
		t.Fatal(err)
	}
	step := r.step(r.device(t))
	step.MemoryLimit = limit
	sim, err := b.simulateOnce(step)
	if err != nil {
		t.Fatalf("%s: %v", r.Model, err)
	}
	return sim.Peak.Reserved, sim.OOM() != nil
}

// medianOf is the median of some figures; 0 of none.
func medianOf(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[len(x)/2]
}

// TestPublishedGPUs compares the prediction with xMem's runs of torchvision's networks on two cards, beside the
// estimates of xMem, DNNMem and SchedTune on the same rows. What a process takes beyond the allocator and a bare
// context nobody published: it is one constant a card, the median of every third row, and the others are judged.
func TestPublishedGPUs(t *testing.T) {
	var file struct {
		Runs []publishedRun `json:"runs"`
	}
	testfile.JSON(t, publishedGPUs+"/xmem.json.gz", &file)
	var w strings.Builder
	fmt.Fprint(&w, "\n| card | rows | constant | judged | memestimate: median | 90 % | worst | xMem: median | DNNMem: "+
		"median | SchedTune: median | died: called | survived: called | under a cap: right |\n")
	fmt.Fprint(&w, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, card := range []string{"RTX 3060", "RTX 4060"} {
		var runs []*publishedRun
		var caps secondRuns
		rows, died, called, survived, wrongly := 0, 0, 0, 0, 0
		for i := range file.Runs {
			r := &file.Runs[i]
			if r.Card != card || r.ZeroGrad != nil && *r.ZeroGrad == 1 { // a loop that no setting names
				continue
			}
			rows++
			r.reserved, r.fails = r.simulate(t, 0)
			caps.add(t, r)
			if r.OOM {
				died++
				if r.fails {
					called++
				} else {
					t.Logf("%s %s %s b%d ran out of memory; predicted %d MiB", card, r.Model, r.Optimizer, r.Batch, r.reserved>>20)
				}
				continue
			}
			survived++
			if r.fails {
				wrongly++
				t.Logf("%s %s %s b%d survived and is predicted not to", card, r.Model, r.Optimizer, r.Batch)
				continue
			}
			runs = append(runs, r)
		}
		slices.SortStableFunc(runs, func(a, b *publishedRun) int {
			return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Optimizer, b.Optimizer), cmp.Compare(a.Batch, b.Batch))
		})
		var left []float64
		for i, r := range runs {
			if i%3 == 0 {
				left = append(left, float64(r.Peak-r.reserved))
			}
		}
		constant := medianOf(left)
		var ours, xmem, dnnmem, schedtune []float64
		for i, r := range runs {
			if i%3 == 0 {
				continue
			}
			off := (float64(r.reserved) + constant) / float64(r.Peak)
			ours = append(ours, 100*math.Abs(off-1))
			t.Logf("%s %s %s b%d: %+.2f%%", card, r.Model, r.Optimizer, r.Batch, 100*(off-1))
			for _, other := range []struct {
				of   []verdict
				into *[]float64
			}{{r.XMem, &xmem}, {r.DNNMem, &dnnmem}, {r.SchedTune, &schedtune}} {
				if len(other.of) > 0 && other.of[0] != nil {
					*other.into = append(*other.into, 100*math.Abs(*other.of[0]/float64(r.Peak)-1))
				}
			}
		}
		median := medianOf(ours)
		fmt.Fprintf(&w, "| %s | %d | %.0f MiB | %d | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %d of %d "+
			"| %d of %d | %d of %d |\n", card,
			rows, constant/(1<<20), len(ours), median, ours[len(ours)*9/10], ours[len(ours)-1], medianOf(xmem), medianOf(dnnmem),
			medianOf(schedtune), called, died, survived-wrongly, survived, caps.right, caps.all)
	}
	holdPart(t, "published GPUs", w.String())
}

// secondRuns counts the verdicts on second runs, each under a cap at what an estimator had said, rounded to a hundredth
// of the card: whether it survives.
type secondRuns struct{ right, all int }

func (c *secondRuns) add(t *testing.T, r *publishedRun) {
	t.Helper()
	total := r.device(t).Memory
	for _, v := range [][]verdict{r.XMem, r.DNNMem, r.SchedTune} {
		if len(v) < 2 || v[0] == nil || v[1] == nil {
			continue
		}
		share := math.Round(100**v[0]/float64(total)) / 100
		if _, fails := r.simulate(t, int64(share*float64(total))); fails == (*v[1] == 1) {
			c.right++
		} else {
			t.Logf("%s %s %s b%d under a cap of %.0f %%: predicted to fail: %v", r.Card, r.Model, r.Optimizer, r.Batch,
				100*share, fails)
		}
		c.all++
	}
}

// bareContext is what the card had in use once the process had a context, which the rows leave out: the most that any
// of xMem's runs reached stays 107 to 141 MiB below the card's memory.
const bareContext = 141 << 20
