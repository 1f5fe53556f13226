package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// addStep simulates the run and adds what came of it. That a model cannot be run is no error:
// the sums stand, and a warning says why they stand alone.
func (b *Bound) addStep(r *Report, s Step) error {
	if err := s.Check(); err != nil {
		return err
	}
	p, err := b.Program(!s.Infer)
	if err == nil && !s.Infer && !trains(p) {
		r.Notes = append(r.Notes, Note{Warning, "the model has no parameter of a float type to train: an inference is simulated instead"})
		s.Infer = true
		p, err = b.Program(false)
	}
	var sim *Simulation
	if err == nil {
		sim, err = b.Simulate(s)
	}
	if err != nil {
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("the run is not simulated, so there is no peak: %v", err)})
		return nil
	}
	r.Settings.Mode, r.Settings.Precision, r.Settings.GPU = "train", cmp.Or(s.Precision, "fp32"), s.GPU.ID
	held, gradients := heldAtEnd(sim.Timeline())
	if s.Infer {
		r.Settings.Mode = "infer"
	} else {
		r.Settings.Optimizer, r.Settings.Loss = cmp.Or(s.Optimizer, "adamw"), sim.Run.Loss
		r.Gradients = &Size{gradients}
		r.Optimizer = &Size{held[timeline.OptimizerState]}
		r.Activations.Saved = sim.Run.Saved
		b.addSaved(r, p, sim.Run.SavedBy)
	}
	r.Simulation, r.OOM = sim, sim.OOM()
	if r.OOM != nil { // what it would take is the answer, not how far it came
		s.Limited, s.MemoryLimit, s.Record = false, 0, false
		if sim, err = b.Simulate(s); err != nil {
			return err
		}
	}
	r.Peak, r.Context, r.Phases = &sim.Peak, sim.Context, phasesOf(sim.Replay)
	if n := len(sim.Replay.Dropped); n > 0 {
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("memory is so short that %s not get the workspace of cuDNN's first choice and will be slower", plural(n, "kind of convolution does", "kinds of convolutions do"))})
	}
	for _, text := range p.Notes {
		r.Notes = append(r.Notes, Note{Info, text})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Unknown)) {
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("operator %q: %s no PyTorch counterpart here, so what they save and need is not in the peak", name, plural(p.Unknown[name], "node has", "nodes have"))})
	}
	return nil
}

// trains reports whether a program has a parameter that can have a gradient.
func trains(p *eager.Program) bool {
	return slices.ContainsFunc(p.State, func(id eager.ValueID) bool {
		v := &p.Values[id]
		return v.Kind == eager.Parameter && v.DType.IsFloat()
	})
}

// addSaved gives each layer what its nodes save, by the program's nodes.
func (b *Bound) addSaved(r *Report, p *eager.Program, saved []int64) {
	row := make(map[*onnxload.Node]int32, len(b.a.steps))
	for i, s := range b.a.steps {
		row[s.node] = b.a.rowOf[i]
	}
	for i, n := range p.Nodes {
		if k, ok := row[n]; ok && k >= 0 && i < len(saved) {
			r.Layers[k].SavedBytes += saved[i]
		}
	}
}

// Incomplete reports whether the peak lacks what some operators need.
func (r *Report) Incomplete() bool {
	return !r.Coverage.Complete() || r.Simulation != nil && r.Simulation.Unknown > 0
}
