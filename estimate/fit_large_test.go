package estimate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// In a graph of many nodes few batches are tried, and what is found is still a batch that fits whose next one does not.
func TestLargestOfManyNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 20 steps of 20,000 nodes")
	}
	g := onnxtest.Graph{In: []onnxtest.Value{onnxtest.Float("x", "batch", 64)}}
	in := "x"
	for i := range manyNodes / 2 {
		gemm, relu := fmt.Sprintf("/l.%d/Gemm", i), fmt.Sprintf("/l.%d/Relu", i)
		weight := fmt.Sprintf("l.%d.weight", i%8) // shared, so that a step is quick
		if i < 8 {
			g.Inits = append(g.Inits, onnxtest.Bare(weight, onnxload.Float32, 64, 64))
		}
		g.Nodes = append(g.Nodes,
			onnxtest.Node{Op: "Gemm", Name: gemm, In: []string{in, weight}, Out: []string{gemm}},
			onnxtest.Node{Op: "Relu", Name: relu, In: []string{gemm}, Out: []string{relu}})
		in = relu
	}
	g.Out = []onnxtest.Value{{Name: in}}
	raw := onnxtest.Model{Opset: 17, Graph: g}.Bytes()
	m := readModel(t, raw, "")
	const memory = 24 << 30
	f, err := Largest(m, Options{}, memory)
	must.OK(t, err)
	sizes := map[int64]Point{}
	for _, p := range f.Curve {
		sizes[p.Batch] = p
	}
	if p, next := sizes[f.Batch], sizes[f.Batch+1]; !p.Fits || next.Device == 0 || next.Fits {
		t.Errorf("batch %d: %+v, the next one %+v", f.Batch, p, next)
	}
	for _, c := range []Confidence{Likely, Safe} {
		batch := f.Largest(c)
		past := slices.ContainsFunc(f.Curve, func(p Point) bool {
			return p.Batch > batch && p.Batch <= batch+batch/fewNear && p.At(c) > memory
		})
		if p := sizes[batch]; batch == 0 || p.At(c) > memory || !past {
			t.Errorf("%s batch %d: %+v, and none that does not fit is near: %v", c, batch, p, f.Curve)
		}
	}
	// Doubling and halving would try 46 for the three of them. The wider the margins, the further apart the three lie and
	// the fewer runs they share: it was 23 before safe had 48 % for files of which nothing is known.
	if len(f.Curve) > 25 || f.Batch < 8192 {
		t.Errorf("batch %d took %d runs", f.Batch, len(f.Curve))
	}
}
