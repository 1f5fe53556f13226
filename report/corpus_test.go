package report_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

var (
	corpusFrom = flag.String("corpus.from", "", "a folder of inputs that fuzzing FuzzModel left, to be made smaller")
	corpusMore = flag.Int("corpus.more", 0, "so many inputs made at random besides")
)

// keptPath holds the inputs of FuzzModel that run code which those before them do not. make corpus writes it.
const keptPath = "testdata/FuzzModel.tar.gz"

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

// keptInputs are those of keptPath.
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

// parseInput reads an input as Go's fuzzing writes it.
func parseInput(text string) (x modelInput, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 4 || lines[0] != "go test fuzz v1" {
		return x, fmt.Errorf("not an input of FuzzModel: %.40q", text)
	}
	inside := func(line, typ string) string { return strings.TrimSuffix(strings.TrimPrefix(line, typ+"("), ")") }
	raw, err := strconv.Unquote(inside(lines[1], "[]byte"))
	if err != nil {
		return x, err
	}
	other, err := strconv.ParseUint(inside(lines[2], "uint16"), 0, 16)
	if err != nil {
		return x, err
	}
	x.seed, err = strconv.ParseUint(inside(lines[3], "uint64"), 0, 64)
	x.raw, x.other = []byte(raw), uint16(other)
	return x, err
}

// TestMinimiseCorpus keeps, of the inputs in the folder of -corpus.from and those kept before, the small ones that run
// blocks of code which those before them do not, and writes them to keptPath. It needs -coverpkg: see make corpus.
func TestMinimiseCorpus(t *testing.T) {
	if *corpusFrom == "" {
		t.Skip("run by make corpus")
	}
	if testing.Coverage() == 0 {
		t.Fatal("which code runs is not counted: want -coverpkg")
	}
	all, err := graphs()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range plainInputs(all) {
		x.run(all)
	}
	found, err := keptInputs()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(*corpusFrom, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		x, err := parseInput(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		found = append(found, x)
	}
	rng := rand.New(rand.NewPCG(2, 1))
	for range *corpusMore {
		found = append(found, modelInput{all[rng.IntN(len(all))], uint16(rng.IntN(len(all))), rng.Uint64()})
	}
	slices.SortStableFunc(found, func(a, b modelInput) int { return cmp.Compare(len(a.raw), len(b.raw)) })
	before := testing.Coverage()
	covered := before
	var better []modelInput
	for _, x := range found {
		if wrong := x.run(all); wrong != "" {
			t.Errorf("%d-%d: %s", x.other, x.seed, wrong)
		}
		if now := testing.Coverage(); now > covered {
			covered, better = now, append(better, x)
		}
	}
	packed := pack(t, better)
	if err := os.WriteFile(keptPath, packed, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d inputs kept in %d bytes: %.2f %% of the blocks instead of %.2f %%", len(better), len(found),
		len(packed), 100*covered, 100*before)
}

// pack writes inputs in the order of what they hold, so that the same ones are the same bytes.
func pack(t *testing.T, list []modelInput) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, x := range list {
		h := &tar.Header{Name: fmt.Sprintf("%d-%d.onnx", x.other, x.seed), Mode: 0o644, Size: int64(len(x.raw))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(x.raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What is kept is little: FuzzModel runs it in every test, and every clone has it.
func TestKeptCorpusIsSmall(t *testing.T) {
	list, err := keptInputs()
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) > 1<<20 || len(list) < 100 || len(list) > 2000 {
		t.Errorf("%d inputs in %d bytes: want 100 to 2000 in 1 MiB", len(list), len(kept))
	}
}
