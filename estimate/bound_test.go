package estimate

import (
	"cmp"
	"encoding/csv"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
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
		for e := range sim.Run.Log.Events {
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

// marginsFolder has measured runs and their recordings, which today's program answers anew, and first answers about
// runs without a doubt, whose recordings are not kept: its README says from where.
const marginsFolder = "testdata/margins"

// judgingSet was measured and answered once before anybody had looked at it, and judges the shares: they are not
// computed from it.
const judgingSet = "first60"

// A marginRun is a measured run: what it took beyond its doubts, and what it varies by, in bytes. Where the recording
// is kept above says by how much safe is above what the process took, in percent.
type marginRun struct {
	set, name, kind, doubt string
	beyond, varies         float64
	kept, holds            bool
	above                  float64
}

// readTable reads a file of comma-separated values without its head.
func readTable(t *testing.T, file string) [][]string {
	t.Helper()
	f, err := os.Open(file)
	must.OK(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %d rows, %v", file, len(rows), err)
	}
	return rows[1:]
}

func count(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	must.OK(t, err)
	return n
}

// marginRuns are the runs, of a recording as today's program answers it.
func marginRuns(t *testing.T) (all []marginRun) {
	steps := publishedSteps{of: packedRecordings(t, marginsFolder+"/recordings.tar.zst")}
	for _, row := range readTable(t, marginsFolder+"/measured.csv") {
		rec := steps.read(t, row[0])
		sim, _, err := replayRecording(rec, Step{})
		if err != nil {
			t.Errorf("%s: %v", row[0], err)
			continue
		}
		p, d, depends := &sim.Peak, &sim.doubts, dependence(rec)
		took := count(t, row[2]) + p.Device - p.Reserved
		r := marginRun{kept: true, holds: p.Safe >= took, above: 100 * (float64(p.Safe)/float64(took) - 1)}
		r.set, r.name, _ = strings.Cut(row[0], "/")
		r.varies = float64(varying(p.Reserved, sim.held[timeline.Parameter]+sim.held[timeline.OptimizerState]+sim.gradients))
		var m margin
		r.kind, m = recordedMarginOf(rec, depends)
		engine := d.engine(p.Reserved, safeChance)
		switch most := max(engine, d.addresses, d.guesses); {
		case r.kind != "the others":
			r.doubt = r.kind
		case most == p.Reserved:
			r.doubt = "none"
		case most == d.guesses:
			r.doubt = "guesses"
		case most == engine:
			r.doubt = "convolutions"
		default:
			r.doubt = "addresses"
		}
		r.beyond = float64(took-p.Safe) + float64(int64(m.safe*r.varies))
		all = append(all, r)
	}
	for _, row := range readTable(t, marginsFolder+"/first_sight.csv") {
		reserved, state, took := count(t, row[2]), count(t, row[3]), count(t, row[4])
		r := marginRun{set: row[0], name: row[1], kind: "the others", doubt: "none", beyond: float64(took - reserved)}
		if r.varies = float64(varying(reserved, state)); row[5] == "1" {
			r.kind, r.doubt = "values", "values"
		}
		all = append(all, r)
	}
	return all
}

// leastShare is the least margin that holds in a share of the runs, of n in so many of n + 1 as far as there are.
func leastShare(runs []marginRun, share float64) float64 {
	var needs []float64
	for _, r := range runs {
		needs = append(needs, r.beyond/r.varies)
	}
	slices.Sort(needs)
	return needs[min(int(math.Ceil(share*float64(len(needs)+1))), len(needs))-1]
}

// TestMargins computes the margins of recordings: the least that hold in 98.5 and 95 % of the runs, the most of those
// with one set left out in turn; those of runs that hang on values apart. It fails where the program has others.
func TestMargins(t *testing.T) {
	runs := marginRuns(t)
	for _, c := range []struct {
		name string
		m    margin
	}{
		{"values", valuesMargin}, {"lengths", lengthsMargin}, {"compiled", compiledMargin}, {"the others", recordedMargin},
	} {
		var some []marginRun
		sets := map[string]bool{}
		for i := range runs {
			if runs[i].kind == c.name && runs[i].set != judgingSet {
				some = append(some, runs[i])
				sets[runs[i].set] = true
			}
		}
		for _, want := range []struct{ share, is float64 }{{recordedShare, c.m.safe}, {1 - likelyChance, c.m.likely}} {
			most, held := 0.0, 0
			for set := range maps.Keys(sets) {
				others := slices.DeleteFunc(slices.Clone(some), func(r marginRun) bool { return r.set == set })
				need := leastShare(others, want.share)
				most = max(most, need)
				for _, r := range some {
					if r.set == set && r.beyond <= need*r.varies {
						held++
					}
				}
			}
			t.Logf("%s: %d runs of %d sets, %.1f %%: share %.4f; held in %.2f %% of the sets left out", c.name, len(some),
				len(sets), 100*want.share, most, 100*float64(held)/float64(len(some)))
			if want.is < most || want.is > most+0.003 {
				t.Errorf("%s, %.1f %%: the share is %.4f, the program has %.4f", c.name, 100*want.share, most, want.is)
			}
		}
	}
	judgeSafe(t, runs)
}

// judgeSafe holds safe, as the program gives it about the recordings, to how often it is to hold and how tight it is.
func judgeSafe(t *testing.T, runs []marginRun) {
	t.Helper()
	by := map[string][]marginRun{}
	for _, r := range runs {
		if r.kept {
			for _, group := range []string{"all", "set " + r.set, "doubt " + r.doubt} {
				by[group] = append(by[group], r)
			}
			if !r.holds {
				t.Logf("%s/%s: safe is %.2f %% too low, %s", r.set, r.name, -r.above, r.doubt)
			}
		}
	}
	for _, group := range slices.SortedFunc(maps.Keys(by), cmp.Compare) {
		held, sum, above := 0, 0.0, []float64{}
		for _, r := range by[group] {
			if above = append(above, r.above); r.holds {
				held++
			}
			sum += r.above
		}
		n := float64(len(above))
		rate, mean, median := 100*float64(held)/n, sum/n, medianOf(above)
		t.Logf("%-24s %3d runs, safe holds in %5.1f %%, above by %+.2f %% on average, %+.2f %% in the median", group, len(above),
			rate, mean, median)
		if group == "all" && (rate < 98.5 || mean > 5 || median > 2.5 || len(above) < 150) {
			t.Error("safe is to hold in 98.5 %, at 5 % on average and 2.5 % in the median")
		}
	}
}
