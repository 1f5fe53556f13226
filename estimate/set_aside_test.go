package estimate

import (
	"fmt"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The run of a large model that is set aside while others take the memory is the same one when it is resumed, and ways
// for it to fit are tried by few runs.
func TestSetAside(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 18 steps of 20,000 nodes and weights")
	}
	g := onnxtest.Graph{In: []onnxtest.Value{onnxtest.Float("x0", 4)}}
	for i := range manyNodes / 2 {
		g.Inits = append(g.Inits, onnxtest.Bare(fmt.Sprint("w", i), onnxload.Float32, 4))
		g.Nodes = append(g.Nodes, onnxtest.Op("Mul", fmt.Sprintf("x%d w%d", i, i), fmt.Sprint("x", i+1)))
	}
	g.Out = []onnxtest.Value{{Name: fmt.Sprint("x", manyNodes/2)}}
	raw := onnxtest.Model{Opset: 17, Graph: g}.Bytes()
	m := readModel(t, raw, "")
	bound, err := Bind(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := bound.Simulate(Step{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	log, replay := sim.Run.Log, sim.Replay
	bound.SetAside(sim)
	if sim.Run.Log != nil || sim.Replay.Allocator != nil {
		t.Fatal("the events are still there")
	}
	ways, err := bound.Ways(Step{}, 1<<30, Safe)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ways {
		if len(ways) > 15 || w.GPUs > 1 && w.changes > 0 {
			t.Errorf("%d ways, one of them %+v", len(ways), w)
		}
	}
	if err := bound.Resume(sim); err != nil {
		t.Fatal(err)
	}
	if !sim.Run.Log.Same(log) || sim.Replay.PeakReserved != replay.PeakReserved || sim.Replay.End != replay.End {
		t.Errorf("it ends at %+v, and ended at %+v", sim.Replay.End, replay.End)
	}
}
