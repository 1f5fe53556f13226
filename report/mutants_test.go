package report_test

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// TestModelMutants is FuzzModel without a fuzzer: so many mutants as MEMESTIMATE_MUTATIONS says, on all processors,
// from the seed that MEMESTIMATE_SEED says. It needs no Go: see test/catalogue.md.
func TestModelMutants(t *testing.T) {
	all, err := graphs()
	must.OK(t, err)
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
			raw := must.Read(t, path)
			for seed := range uint64(100) {
				if wrong, _ := execute(rand.New(rand.NewPCG(seed, 3)), raw); wrong != "" {
					t.Errorf("%s, seed %d: %s", path, seed, wrong)
					break
				}
			}
		}
	}
}

// mutants runs execute for one seed after the other on all processors, until there are enough or the time of the test
// ends. One of few must have had a peak. Where MEMESTIMATE_OUT names a folder, each mutant that fails is written there
// as SEED.EXT. One that does not end takes the process along, and is named.
func mutants(t *testing.T, ext string, few int, execute func(*rand.Rand) (raw []byte, wrong string, ran bool)) {
	n, err := strconv.Atoi(os.Getenv("MEMESTIMATE_MUTATIONS"))
	if err != nil {
		n = 2000
		if testing.Short() {
			n = 300
		}
	}
	first, _ := strconv.ParseUint(os.Getenv("MEMESTIMATE_SEED"), 10, 64)
	end := time.Now().Add(24 * time.Hour)
	if d, ok := t.Deadline(); ok {
		end = d.Add(-time.Until(d) / 10)
	}
	var next, made, peaks, failed atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for k := next.Add(1) - 1; k < int64(n) && time.Now().Before(end) && failed.Load() < 20; k = next.Add(1) - 1 {
				seed := first + uint64(k)
				watch := time.AfterFunc(longest, func() { panic(fmt.Sprintf("seed %d takes longer than %v", seed, longest)) })
				raw, wrong, ran := execute(rand.New(rand.NewPCG(seed, 19)))
				watch.Stop()
				made.Add(1)
				if ran {
					peaks.Add(1)
				}
				if wrong == "" {
					continue
				}
				failed.Add(1)
				t.Errorf("seed %d: %s", seed, wrong)
				if out := os.Getenv("MEMESTIMATE_OUT"); out != "" {
					if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("%d.%s", seed, ext)), raw, 0o600); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d mutants, %d had a peak, %d failed, in %v", made.Load(), peaks.Load(), failed.Load(),
		time.Since(start).Round(time.Millisecond))
	if failed.Load() == 0 && peaks.Load() < made.Load()/int64(few) {
		t.Errorf("%d of %d mutants had a peak: mutation is too rough", peaks.Load(), made.Load())
	}
}

// A modelInput is one of FuzzModel's: a model, which other one it is crossed with, and the seed of everything else.
type modelInput struct {
	raw   []byte
	other uint16
	seed  uint64
}

// run executes what FuzzModel executes.
func (x modelInput) run(all [][]byte) (wrong string) {
	rng := rand.New(rand.NewPCG(x.seed, 1))
	wrong, _ = execute(rng, mutant(rng, x.raw, all[int(x.other)%len(all)]))
	return wrong
}

// plainInputs are those that FuzzModel begins with: every twelfth graph.
func plainInputs(all [][]byte) (list []modelInput) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := 0; i < len(all); i += 12 {
		list = append(list, modelInput{all[i], uint16(rng.IntN(len(all))), rng.Uint64()})
	}
	return list
}

//go:embed testdata/FuzzModel.tar.gz
var kept []byte

// keptInputs are inputs of FuzzModel that run code which those before them do not.
func keptInputs() (list []modelInput, err error) {
	var misnamed error
	err = onnxtest.Archive(bytes.NewReader(kept), func(name string, b []byte) {
		x := modelInput{raw: b}
		if _, err := fmt.Sscanf(name, "%d-%d.onnx", &x.other, &x.seed); err != nil {
			misnamed = fmt.Errorf("%q: %w", name, err)
		}
		list = append(list, x)
	})
	return list, cmp.Or(err, misnamed)
}
