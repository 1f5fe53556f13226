package onnxgo_test

import (
	"bytes"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
)

// FuzzCheck looks for an input that the two readers take for different models.
func FuzzCheck(f *testing.F) {
	for _, m := range fixtures {
		if b := m.Bytes(); len(b) < 1<<16 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{Limits: onnxload.Limits{Nodes: 10_000}})
		if err != nil {
			return
		}
		if _, err := onnxgo.Check(m); err != nil {
			t.Error(err)
		}
	})
}
