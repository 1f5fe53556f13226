package report_test

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"math/rand/v2"

	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

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
