package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// mutantCommands are what is asked of a mutant; MODEL is the mutant and ORIGINAL what it was made of.
var mutantCommands = [][]string{
	{"MODEL", "--batch", "2"}, {"MODEL", "--mode", "infer", "--batch", "1"}, {"table", "MODEL", "--batch", "2"}, {"table",
		"MODEL", "--format", "csv"},
	{"table", "MODEL", "--format", "json"}, {"fit", "MODEL", "--gpu", "t4"}, {"diff", "ORIGINAL",
		"MODEL", "--batch", "2"},
	{"MODEL", "--batch", "2", "--format", "json", "--precision", "amp-bf16"},
	{"MODEL", "--batch", "2", "--format", "markdown"}, {"MODEL", "--batch", "2", "--format", "html"}, {"MODEL", "--batch",
		"2", "--what-if"},
	{"MODEL", "--batch", "3", "--channels-last", "--precision", "fp16"}, {"MODEL", "--batch", "2", "--snapshot",
		"SNAPSHOT"},
}

// Whatever happened to a file, every command answers or refuses it in a line: without a panic, soon, in memory that the
// file justifies, and without printing a control character out of it.
func TestMutants(t *testing.T) {
	var graphs [][]byte
	for _, name := range models.Names() {
		info, err := models.Info(name)
		must.OK(t, err)
		for _, form := range info.Forms {
			b, err := models.Open(name + ":" + form)
			must.OK(t, err)
			if len(b) < 300<<10 {
				graphs = append(graphs, b)
			}
		}
	}
	small := len(graphs)
	if err := onnxtest.Archives("../../estimate/shape/testdata/onnx-nodes*.tar.gz",
		func(_ string, b []byte) { graphs = append(graphs, b) }); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	paths := map[string]string{"MODEL": filepath.Join(dir, "mutant.onnx"),
		"ORIGINAL": filepath.Join(dir, "original.onnx"), "SNAPSHOT": filepath.Join(dir, "s.pickle")}
	answered, n := 0, 250
	if testing.Short() {
		n = 60
	}
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 99))
		graph := graphs[small+rng.IntN(len(graphs)-small)]
		if rng.IntN(3) == 0 {
			graph = graphs[rng.IntN(small)]
		}
		mutant := onnxtest.Mutate(rng, graph)
		if rng.IntN(25) == 0 {
			mutant = mutant[:rng.IntN(len(mutant)+1)]
		}
		for name, data := range map[string][]byte{"MODEL": mutant, "ORIGINAL": graph} {
			must.OK(t, os.WriteFile(paths[name], data, 0o600))
		}
		var args []string
		for _, a := range mutantCommands[rng.IntN(len(mutantCommands))] {
			if p, ok := paths[a]; ok {
				a = p
			}
			args = append(args, a)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		out, errOut, code := try(t, args...)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if code == exitOK {
			answered++
		}
		if code == exitBug {
			t.Errorf("seed %d, %q: %s", seed, args, errOut)
		}
		if took > 30*time.Second { // a tenth of a second, on a computer that does nothing else
			t.Errorf("seed %d, %q: took %v", seed, args, took)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20+2000*uint64(len(mutant)) {
			t.Errorf("seed %d, %q: %d bytes allocated for a file of %d", seed, args, grown, len(mutant))
		}
		if c := actsOnTerminals(out + errOut); c >= 0 {
			all := out + errOut
			t.Errorf("seed %d, %q: prints %q", seed, args, all[max(0, c-40):min(len(all), c+40)])
		}
		if code > exitNo && bytes.Count([]byte(errOut), []byte("\n")) > 2 || len(errOut) > 20_000 {
			t.Errorf("seed %d, %q: an error of %d bytes: %.200q", seed, args, len(errOut), errOut)
		}
	}
	t.Logf("%d of %d answered", answered, n)
	if answered < n/5 {
		t.Errorf("%d of %d mutants were answered: mutation is too rough", answered, n)
	}
}

// actsOnTerminals returns where a character is that does more than show in a terminal, or -1.
func actsOnTerminals(s string) int {
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069)
	})
}
