package estimate

import (
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/test/must"
)

// The bound is above the prediction, and above whatever any other choice of workspaces or addresses reserves.
func TestUpperBound(t *testing.T) {
	for _, c := range []struct {
		model string
		step  Step
		convs bool
	}{
		{"resnet50", Step{Settings: torch.Settings{Precision: "bf16"}}, true}, {"resnet50", Step{Infer: true}, true},
		{"gpt2", Step{}, false}, {"gpt2", Step{Infer: true}, false},
	} {
		// 5 images, which nobody measured: the trees disagree.
		bound, err := Bind(open(t, c.model), Options{Batch: 5})
		must.OK(t, err)
		sim, err := bound.Simulate(c.step)
		must.OK(t, err)
		if c.convs != (len(sim.Run.Workspaces) > 0) {
			t.Errorf("%s %+v: %d other choices of workspaces", c.model, c.step, len(sim.Run.Workspaces))
		}
		if sim.Peak.UpperBound < sim.Peak.Device+spareBytes {
			t.Errorf("%s %+v: at most %d, and predicted is %d", c.model, c.step, sim.Peak.UpperBound, sim.Peak.Device)
		}
		// Without the small pool and without repetitions it comes to the same.
		if large, ok := caching.LargeOf(sim.Run.Log, caching.Options{}).Reserved(caching.Config{}); !ok ||
			large+sim.Replay.Stats.ReservedBytes.Small.Peak != sim.Peak.Reserved {
			t.Errorf("%s %+v: the large pool reserves %d and the small one %d, of %d", c.model, c.step, large,
				sim.Replay.Stats.ReservedBytes.Small.Peak, sim.Peak.Reserved)
		}
		configs := []caching.Config{{Address: caching.Rising()}}
		for _, w := range sim.Run.Workspaces {
			configs = append(configs, caching.Config{Workspaces: w})
		}
		for i, cfg := range configs {
			r, err := caching.NewReplayer(cfg).Finish(sim.Run.Log)
			must.OK(t, err)
			if device := r.PeakReserved.Reserved + sim.Context; device+spareBytes > sim.Peak.UpperBound {
				t.Errorf("%s %+v: at most %d, and choice %d takes %d", c.model, c.step, sim.Peak.UpperBound, i, device)
			}
		}
		largest := largestRequest(sim.Run.Log)
		for _, e := range sim.Timeline().Events {
			if e.Step > 0 && e.Bytes > largest {
				t.Fatalf("%s %+v: %d bytes are requested, and the largest request is %d", c.model, c.step, e.Bytes, largest)
			}
		}
	}
}

// A run that just survives its limit has a bound all the same, from the choices that survive it as well.
func TestUpperBoundUnderLimit(t *testing.T) {
	bound, err := Bind(open(t, "resnet50"), Options{Batch: 5})
	must.OK(t, err)
	free, err := bound.Simulate(Step{})
	must.OK(t, err)
	sim, err := bound.Simulate(Step{MemoryLimit: free.Peak.Allocated + 64<<20})
	must.OK(t, err)
	if sim.OOM() != nil {
		t.Fatal(sim.OOM())
	}
	if sim.Peak.UpperBound < sim.Peak.Device || sim.Peak.UpperBound > free.Peak.UpperBound {
		t.Errorf("at most %d under a limit; the device %d, without a limit at most %d", sim.Peak.UpperBound, sim.Peak.Device,
			free.Peak.UpperBound)
	}
}

// Several goroutines may ask one model that nobody has asked before, also one of which two programs are recovered.
func TestSimulateAtOnce(t *testing.T) {
	for _, c := range []struct{ model, form string }{{"mlp", ""}, {"bert_base", "ts-train"}} {
		b, err := Bind(open(t, strings.TrimSuffix(c.model+":"+c.form, ":")), Options{Batch: 2})
		must.OK(t, err)
		peaks := make([]Peak, 6)
		var done sync.WaitGroup
		for i := range peaks {
			done.Go(func() {
				sim, err := b.Simulate(Step{Infer: i%2 > 0})
				if err != nil {
					t.Error(err)
					return
				}
				peaks[i] = sim.Peak
			})
		}
		done.Wait()
		for i := 2; i < len(peaks); i++ {
			if peaks[i].Allocated != peaks[i-2].Allocated || peaks[i].UpperBound != peaks[i-2].UpperBound {
				t.Errorf("%s: run %d peaks at %d, another one at %d", c.model, i, peaks[i].Allocated, peaks[i-2].Allocated)
			}
		}
	}
}
