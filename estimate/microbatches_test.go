package estimate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program/parallel"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
)

// A pipeline's work grows with its microbatches and no faster, by the events that its runs write; more of them than are
// simulated are refused before any run, of a model of many calls sooner.
func TestMicrobatchesAreBounded(t *testing.T) {
	raw, err := models.Open("gpt2")
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Bind(m, Options{Name: "gpt2", Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	step := func(n int, schedule string) Step {
		return Step{Plan: parallel.Plan{GPUs: 2, Parallel: parallel.PP, Microbatches: n, Schedule: schedule}}
	}
	p, err := b.Program(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, schedule := range parallel.Schedules {
		var events [2]int
		for i, n := range []int{8, 64} {
			sim, err := b.Simulate(step(n, schedule))
			if err != nil {
				t.Fatal(err)
			}
			events[i] = sim.Run.Log.Written()
		}
		if each := (events[1] - events[0]) / (64 - 8); each > 12*len(p.Calls) {
			t.Errorf("%s: %d events, then %d: a microbatch of %d calls writes %d", schedule, events[0], events[1],
				len(p.Calls), each)
		}
	}
	if _, err := b.Simulate(step(4096, "")); err == nil || !strings.Contains(err.Error(), "want 2304 at most") {
		t.Errorf("4096 microbatches: %v", err)
	}
	for n, refused := range map[int]bool{2304: false, 2305: true} {
		if _, err := step(n, "").Plan.Apply(p); (err != nil) != refused {
			t.Errorf("%d microbatches of %d calls: %v", n, len(p.Calls), err)
		}
	}
}
