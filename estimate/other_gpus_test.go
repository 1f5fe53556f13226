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
	"github.com/memestimate/memestimate/test/must"
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
	must.OK(t, err)
	return d
}

// step is xMem's loop: four iterations in float32 with the optimizers' defaults.
func (r *publishedRun) step(t *testing.T) Step {
	return Step{Settings: torch.Settings{Precision: torch.FP32, Optimizer: r.Optimizer, Loss: "cross-entropy"},
		GPU: r.device(t), Limited: true, process: bareContext}
}

// graph predicts the run of a network of images from its graph.
func (r *publishedRun) graph(t *testing.T) {
	form := "ts-train"
	if strings.HasPrefix(r.Model, "vgg") { // whose pooling TorchScript does not export at this size
		form = "dynamo-train"
	}
	b, err := Bind(openGraph(t, publishedGPUs, r.Model, form), Options{Batch: r.Batch})
	must.OK(t, err)
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

// TestOtherGPUs compares the prediction with runs that others published, on GPUs on which nothing of ours was measured.
// What a process takes beyond the allocator and a bare context nobody published: it is one constant a group, the median
// of every third row, or none where that is negative, and the others are judged. Texts of xMem's language models are cut
// at 128 tokens: a batch of ten or more has one as long all but surely.
func TestOtherGPUs(t *testing.T) {
	groups := map[string][]*publishedRun{}
	steps := publishedSteps{of: packedRecordings(t, publishedGPUs+"/tokens.tar.zst")}
	for _, r := range xMemRuns(t) {
		kind := "images"
		// Zeroing between forward and backward is a loop that no setting names.
		if images := graphFileIn(publishedGPUs, r.Model, "ts-train") != "" || strings.HasPrefix(r.Model, "vgg"); images &&
			(r.ZeroGrad == nil || *r.ZeroGrad != 1) {
			r.graph(t)
		} else if steps.has(r) {
			steps.predict(t, r)
			if kind = "text"; r.Batch < 10 {
				kind = "text in small batches"
			}
		} else {
			continue
		}
		groups[r.Card+" "+kind] = append(groups[r.Card+" "+kind], r)
	}
	for _, want := range []struct {
		group                 string
		judged                int
		median                float64 // of absolute errors, in percent
		died, survived, under int     // that are rightly called: of all, and of second runs under a cap
	}{
		{"RTX 3060 images", 37, 6.5, 6, 56, 163}, {"RTX 4060 images", 16, 2.5, 11, 25, 78},
		{"RTX 3060 text", 29, 1.5, 8, 44, 163}, {"RTX 4060 text", 8, 2.5, 7, 13, 54},
		{"RTX 3060 text in small batches", 4, 5, 0, 7, 24}, {"RTX 4060 text in small batches", 4, 2, 0, 6, 21},
		{"A100 40GB text in small batches", 10, 1, 0, 16, 14},
	} {
		got := judge(t, groups[want.group])
		t.Logf("%s: %+v", want.group, got)
		if len(got.off) < want.judged || medianOf(got.off) > want.median || got.died < want.died ||
			got.survived < want.survived || got.caps.right < want.under {
			t.Errorf("%s: median %.1f %%, %+v, want at least %+v", want.group, medianOf(got.off), got, want)
		}
	}
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

// judged is how the predictions of some runs do.
type judged struct {
	off            []float64 // absolute errors of the peaks, in percent
	died, survived int       // rightly called
	caps           secondRuns
}

func judge(t *testing.T, all []*publishedRun) (j judged) {
	t.Helper()
	var runs []*publishedRun
	for _, r := range all {
		reserved, fails := r.predict(0)
		r.reserved = reserved
		j.caps.add(t, r)
		switch {
		case r.OOM && fails:
			j.died++
		case !r.OOM && !fails:
			j.survived++
			runs = append(runs, r)
		default:
			t.Logf("%v ran out of memory: %v; predicted %d MiB", r, r.OOM, r.reserved>>20)
		}
	}
	slices.SortStableFunc(runs, func(a, b *publishedRun) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Optimizer, b.Optimizer), cmp.Compare(a.Batch, b.Batch))
	})
	measured, predicted := make([]int64, len(runs)), make([]int64, len(runs))
	for i, r := range runs {
		measured[i], predicted[i] = r.Peak, r.reserved
	}
	j.off = offBeside(measured, predicted)
	return j
}

// offBeside are the absolute errors of two rows in three, in percent, beside a constant that is the median of the others.
func offBeside(measured, predicted []int64) (off []float64) {
	var left []float64
	for i := 0; i < len(measured); i += 3 {
		left = append(left, float64(measured[i]-predicted[i]))
	}
	constant := max(medianOf(left), 0)
	for i, m := range measured {
		if i%3 != 0 {
			off = append(off, 100*math.Abs((float64(predicted[i])+constant)/float64(m)-1))
		}
	}
	return off
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
