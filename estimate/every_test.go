package estimate

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
)

// everyCase has each test take all of its cases, which the nightly workflow asks for by MEMESTIMATE_TESTS=every: CI and
// go test ./... take some of them.
var everyCase = flag.Bool("every", os.Getenv("MEMESTIMATE_TESTS") == "every", "all cases of tests that take some in turn")

// inTurn reports whether a test takes a case: every eighth, or all of them.
func inTurn(i int) bool { return *everyCase || i%8 == 0 }

// TestGuessesOfEveryGraph asks of every graph that was measured what a person sees, with all guesses weighed: each by
// another program, made where the model gives it a place. A graph whose batch is free has two samples.
func TestGuessesOfEveryGraph(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.onnx.zst")
	if err != nil || len(files) < 800 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	refused := map[string]bool{ // its Concat cannot be
		"testdata/published78/mamba2_minimal.ts-train.onnx.zst": true,
	}
	next := make(chan string)
	var todo sync.WaitGroup
	for range 2 {
		todo.Go(func() {
			for file := range next {
				for _, infer := range []bool{false, true} {
					if err := weighed(file, infer); (err != nil) != refused[file] {
						t.Errorf("%s, inference %v: %v", file, infer, err)
					}
				}
			}
		})
	}
	for i, file := range files {
		if inTurn(i) {
			next <- file
		}
	}
	close(next)
	todo.Wait()
}

// weighed asks for the report of a graph. Its error says what no graph may lead to.
func weighed(file string, infer bool) (err error) {
	raw, err := readGraph(file)
	if err != nil {
		return err
	}
	m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{})
	if err != nil {
		return err
	}
	var b *Model
	for _, opt := range []Options{{Batch: 2}, {}, {Batch: 2, Dims: map[string]int64{"sequence": 64}}} {
		opt.Step, opt.Weigh = &Step{Infer: infer}, true
		if b, err = Bind(m, opt); err == nil {
			_, err = b.Report(opt)
			return err
		}
	}
	return err
}
