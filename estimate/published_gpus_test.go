package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
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
	LLMem     []verdict `json:"LLMem"`

	predict  func(limit int64) (reserved int64, fails bool) // under a cap on what is reserved, unless that is 0
	reserved int64                                          // by our prediction
	fails    bool                                           // it runs out of memory, likewise
}

// A verdict is an estimate in bytes; and of a second run under a cap at the estimate 1 for one that ran out of memory,
// or 0 and by how much its peak was off.
type verdict *float64

func (r *publishedRun) String() string {
	return fmt.Sprintf("%s %s %s b%d", r.Card, r.Model, r.Optimizer, r.Batch)
}

func (r *publishedRun) device(t *testing.T) gpu.Device {
	t.Helper()
	d, err := gpu.Find(strings.ReplaceAll(strings.ToLower(r.Card), " ", "-"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// step is xMem's loop: four iterations in float32 with the optimizers' defaults.
func (r *publishedRun) step(t *testing.T) Step {
	return Step{Settings: torch.Settings{Precision: torch.FP32, Optimizer: r.Optimizer, Loss: "cross-entropy"},
		GPU: r.device(t), Limited: true, Profile: Profile{Context: bareContext}}
}

// graph predicts the run of a network of images from its graph.
func (r *publishedRun) graph(t *testing.T) {
	form := "ts-train"
	if strings.HasPrefix(r.Model, "vgg") { // whose pooling TorchScript does not export at this size
		form = "dynamo-train"
	}
	b, err := Bind(openGraph(t, publishedGPUs, r.Model, form), Options{Batch: r.Batch})
	if err != nil {
		t.Fatal(err)
	}
	r.predict = func(limit int64) (int64, bool) {
		step := r.step(t)
		step.MemoryLimit = limit
		sim, err := b.simulateOnce(step)
		if err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		return sim.Peak.Reserved, sim.OOM() != nil
	}
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
// context nobody published: it is one constant a card, the median of every third row, or none where that is negative,
// and the others are judged.
func TestPublishedGPUs(t *testing.T) {
	var runs []*publishedRun
	for _, r := range xMemRuns(t) {
		// Zeroing between forward and backward is a loop that no setting names.
		if images := graphFileIn(publishedGPUs, r.Model, "ts-train") != "" || strings.HasPrefix(r.Model, "vgg"); images &&
			(r.ZeroGrad == nil || *r.ZeroGrad != 1) {
			r.graph(t)
			runs = append(runs, r)
		}
	}
	others := []string{"xMem", "DNNMem", "SchedTune"}
	text := publishedHead(others)
	for _, card := range []string{"RTX 3060", "RTX 4060"} {
		text += publishedRow(t, card, runs, others)
	}
	holdPart(t, "published GPUs", text)
}

// xMemRuns are all of xMem's runs that were taken over.
func xMemRuns(t *testing.T) []*publishedRun {
	t.Helper()
	var file struct {
		Runs []*publishedRun `json:"runs"`
	}
	testfile.JSON(t, publishedGPUs+"/xmem.json.gz", &file)
	return file.Runs
}

// estimates are what another estimator said of the run.
func (r *publishedRun) estimates(of string) []verdict {
	return map[string][]verdict{"xMem": r.XMem, "DNNMem": r.DNNMem, "SchedTune": r.SchedTune, "LLMem": r.LLMem}[of]
}

func publishedHead(others []string) string {
	var w strings.Builder
	fmt.Fprint(&w, "\n| card | rows | constant | judged | memestimate: median | 90 % | worst |")
	for _, o := range others {
		fmt.Fprintf(&w, " %s: median |", o)
	}
	fmt.Fprint(&w, " died: called | survived: called | under a cap: right |\n|---|---:|---:|---:|---:|---:|---:|")
	fmt.Fprintf(&w, "%s---:|---:|---:|\n", strings.Repeat("---:|", len(others)))
	return w.String()
}

// publishedRow is a card's row of a table of docs/ACCURACY.md.
func publishedRow(t *testing.T, card string, all []*publishedRun, others []string) string {
	t.Helper()
	var runs []*publishedRun
	var caps secondRuns
	rows, died, called, survived, wrongly := 0, 0, 0, 0, 0
	for _, r := range all {
		if r.Card != card {
			continue
		}
		rows++
		r.reserved, r.fails = r.predict(0)
		caps.add(t, r)
		if r.OOM {
			died++
			if r.fails {
				called++
			} else {
				t.Logf("%v ran out of memory; predicted %d MiB", r, r.reserved>>20)
			}
			continue
		}
		survived++
		if r.fails {
			wrongly++
			t.Logf("%v survived and is predicted not to", r)
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
	constant := max(medianOf(left), 0)
	var ours []float64
	theirs := map[string][]float64{}
	for i, r := range runs {
		off := 100 * ((float64(r.reserved)+constant)/float64(r.Peak) - 1)
		t.Logf("%v: %+.2f%%, %d MiB reserved of %d", r, off, r.reserved>>20, r.Peak>>20)
		if i%3 == 0 {
			continue
		}
		ours = append(ours, math.Abs(off))
		for _, o := range others {
			if of := r.estimates(o); len(of) > 0 && of[0] != nil {
				theirs[o] = append(theirs[o], 100*math.Abs(*of[0]/float64(r.Peak)-1))
			}
		}
	}
	median := medianOf(ours)
	var w strings.Builder
	fmt.Fprintf(&w, "| %s | %d | %.0f MiB | %d | %.1f %% | %.1f %% | %.1f %% |", card, rows, constant/(1<<20), len(ours),
		median, ours[len(ours)*9/10], ours[len(ours)-1])
	for _, o := range others {
		if len(theirs[o]) == 0 {
			fmt.Fprint(&w, " - |")
			continue
		}
		fmt.Fprintf(&w, " %.1f %% |", medianOf(theirs[o]))
	}
	fmt.Fprintf(&w, " %d of %d | %d of %d | %d of %d |\n", called, died, survived-wrongly, survived, caps.right, caps.all)
	return w.String()
}

// secondRuns counts the verdicts on second runs, each under a cap at what an estimator had said, rounded to a hundredth
// of the card: whether it survives.
type secondRuns struct{ right, all int }

func (c *secondRuns) add(t *testing.T, r *publishedRun) {
	t.Helper()
	total := r.device(t).Memory
	for _, v := range [][]verdict{r.XMem, r.DNNMem, r.SchedTune, r.LLMem} {
		if len(v) < 2 || v[0] == nil || v[1] == nil {
			continue
		}
		share := math.Round(100**v[0]/float64(total)) / 100
		if _, fails := r.predict(int64(share * float64(total))); fails == (*v[1] == 1) {
			c.right++
		} else {
			t.Logf("%v under a cap of %.0f %%: predicted to fail: %v", r, 100*share, fails)
		}
		c.all++
	}
}

// bareContext is what the card had in use once the process had a context, which the rows leave out: the most that any
// of xMem's runs reached stays 107 to 141 MiB below the card's memory.
const bareContext = 141 << 20
