package report_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestModelMutants is FuzzModel without a fuzzer: so many mutants as MEMESTIMATE_MUTATIONS says, on all processors,
// from the seed that MEMESTIMATE_SEED says. It needs no Go: see test/catalogue.md.
func TestModelMutants(t *testing.T) {
	all, err := graphs()
	if err != nil {
		t.Fatal(err)
	}
	mutants(t, "onnx", 5, func(rng *rand.Rand) (raw []byte, wrong string, ran bool) {
		raw = mutant(rng, all[rng.IntN(len(all))], all[rng.IntN(len(all))])
		wrong, ran = execute(rng, raw)
		return raw, wrong, ran
	})
}

// What mutants have found stays found: each file, under many settings.
func TestFoundMutants(t *testing.T) {
	forms := map[string]func(*rand.Rand, []byte) (string, bool){"onnx": execute, "mrec": executeRecording}
	for ext, execute := range forms {
		paths, err := filepath.Glob("testdata/mutants/*." + ext)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%q: %v", paths, err)
		}
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(100) {
				if wrong, _ := execute(rand.New(rand.NewPCG(seed, 3)), raw); wrong != "" {
					t.Errorf("%s, seed %d: %s", path, seed, wrong)
					break
				}
			}
		}
	}
}

// A tally is what so many mutants came to.
type tally struct {
	sync.Mutex
	made, ran, failed int
	slowest, largest  struct {
		seed uint64
		n    int64 // nanoseconds; bytes
	}
}

func (y *tally) String() string {
	return fmt.Sprintf("%d mutants, %d had a peak, %d failed; slowest %v (seed %d), most memory allocated %d bytes (seed "+
		"%d)", y.made, y.ran, y.failed, time.Duration(y.slowest.n).Round(time.Millisecond), y.slowest.seed, y.largest.n,
		y.largest.seed)
}

// mutants runs execute for one seed after the other on all processors, until there are enough or the time of the test
// ends. One of few must have had a peak. Where MEMESTIMATE_OUT names a folder, each mutant that fails is written there
// as SEED.EXT, and FIRST.now holds the seed at work, for the case that the whole process ends.
func mutants(t *testing.T, ext string, few int, execute func(*rand.Rand) (raw []byte, wrong string, ran bool)) {
	n, err := strconv.Atoi(os.Getenv("MEMESTIMATE_MUTATIONS"))
	if err != nil {
		n = 2000
		if testing.Short() {
			n = 300
		}
	}
	first, _ := strconv.ParseUint(os.Getenv("MEMESTIMATE_SEED"), 10, 64)
	out := os.Getenv("MEMESTIMATE_OUT")
	now := func(uint64) {}
	if out != "" {
		f, err := os.Create(filepath.Join(out, fmt.Sprintf("%d.now", first)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		now = func(seed uint64) { f.WriteAt(fmt.Appendf(nil, "%020d\n", seed), 0) }
	}
	const told = 20 * time.Second // so often a figure is said
	end := time.Now().Add(24 * time.Hour)
	if d, ok := t.Deadline(); ok {
		end = d.Add(-longest - time.Second)
		if time.Until(end) < 0 {
			end = d.Add(-time.Until(d) / 4)
		}
	}
	workers := make([]struct {
		seed  atomic.Uint64
		since atomic.Int64 // in nanoseconds; 0 while nothing runs
	}, runtime.GOMAXPROCS(0))
	var next atomic.Int64
	var sum tally
	done := make(chan struct{})
	go func() { // what never ends, or takes all memory, is named before it takes the process along
		var m runtime.MemStats
		for at := time.Now(); ; {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			runtime.ReadMemStats(&m)
			for i := range workers {
				w := &workers[i]
				if at := w.since.Load(); at > 0 && time.Since(time.Unix(0, at)) > longest {
					panic(fmt.Sprintf("seed %d takes longer than %v", w.seed.Load(), longest))
				}
				if m.HeapAlloc > uint64(len(workers))*allocation {
					fmt.Fprintf(os.Stderr, "%d bytes in use, seed %d runs\n", m.HeapAlloc, w.seed.Load())
				}
			}
			if time.Since(at) > told {
				at = time.Now()
				sum.Lock()
				fmt.Fprintf(os.Stderr, "so far %v\n", &sum)
				sum.Unlock()
			}
		}
	}()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			w := &workers[i]
			for k := next.Add(1) - 1; k < int64(n) && time.Now().Before(end); k = next.Add(1) - 1 {
				seed := first + uint64(k)
				now(seed)
				w.seed.Store(seed)
				begin, before := time.Now(), allocated()
				w.since.Store(begin.UnixNano())
				raw, wrong, ran := execute(rand.New(rand.NewPCG(seed, 19)))
				w.since.Store(0)
				if sum.add(seed, time.Since(begin), allocated()-before, wrong, ran) > 20 {
					return
				}
				if wrong != "" {
					t.Errorf("seed %d: %s", seed, wrong)
					if out != "" {
						if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("%d.%s", seed, ext)), raw, 0o600); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	close(done)
	took := time.Since(start)
	t.Logf("%v; %v, %.0f a second; %s", &sum, took.Round(time.Millisecond), float64(sum.made)/took.Seconds(), resident())
	if sum.failed == 0 && sum.ran < sum.made/few {
		t.Errorf("%d of %d mutants had a peak: mutation is too rough", sum.ran, sum.made)
	}
}

// add counts one mutant, and returns how many have failed.
func (y *tally) add(seed uint64, took time.Duration, bytes int64, wrong string, ran bool) int {
	y.Lock()
	defer y.Unlock()
	y.made++
	if ran {
		y.ran++
	}
	if wrong != "" {
		y.failed++
	}
	if int64(took) > y.slowest.n {
		y.slowest.seed, y.slowest.n = seed, int64(took)
	}
	if bytes > y.largest.n { // those of other workers too, where there are any
		y.largest.seed, y.largest.n = seed, bytes
	}
	return y.failed
}

// allocated is how many bytes the process has allocated so far, what was freed since included.
func allocated() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// resident is the most memory that the process had, as Linux says it.
func resident() string {
	b, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	most, _, _ := strings.Cut(after, "\n")
	return "most resident " + cmp.Or(strings.TrimSpace(most), "not known")
}
