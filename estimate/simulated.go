package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// A simulatedStep is what came of simulating a step.
type simulatedStep struct {
	step Step // an inference where there was nothing to train
	sim  *Simulation
	prog *eager.Program
	why  string // it is an inference
	err  error
}

// manySteps is from how many steps on the layers are made while the run is simulated, on another core: 1 ms of work.
const manySteps = 2000

// layersAndRun makes the rows of the layers, and simulates a step unless that is nil. The error is one about the layers or
// the settings; simulatedStep.err says that the model cannot be run.
func (b *Bound) layersAndRun(r *Report, s *Step) (run *simulatedStep, err error) {
	var rows crew
	var rowErr error
	makeRows := func() { r.Layers, r.Activations.Forward, rowErr = b.a.layers(b.ws) }
	// The simulation reads constants, from which new limits of dimensions may follow. Only where no size has one are the two apart.
	if s == nil || len(b.a.steps) < manySteps || !b.a.types.Numbers() {
		if makeRows(); rowErr != nil || s == nil {
			return nil, rowErr
		}
	} else {
		rows.do(makeRows)
	}
	if err = s.Check(); err == nil {
		run = &simulatedStep{step: *s}
		run.sim, run.prog, run.why, run.err = b.simulate(&run.step)
	}
	rows.end()
	return run, cmp.Or(rowErr, err)
}

// addStep adds what came of a run. That a model cannot be run is no error, unless strict
// asks for one: the sums stand, and a warning says why they stand alone.
func (b *Bound) addStep(r *Report, run *simulatedStep, strict bool) error {
	s, sim, p, err := run.step, run.sim, run.prog, run.err
	if run.why != "" {
		r.Notes = append(r.Notes, Note{Warning, run.why})
	}
	if err == nil && sim.Replay.OOM != nil && !s.Limited && s.MemoryLimit == 0 {
		err = errors.New("it takes more than 1 PiB, beyond which nothing is simulated") // caching.Config without limits
	}
	switch {
	case strict && err != nil:
		return fmt.Errorf("%w: the run cannot be simulated: %w", ErrIncomplete, err)
	case strict && sim.Unknown > 0:
		name := slices.Sorted(maps.Keys(p.Unknown))[0]
		return fmt.Errorf("%w: %s no PyTorch counterpart here, the first operator is %q", ErrIncomplete, plural(sim.Unknown, "node has", "nodes have"), name)
	case err != nil:
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("the run is not simulated, so there is no peak: %v", err)})
		return nil
	}
	r.Settings.describe(s, sim.Run.Loss)
	held, gradients := heldAtEnd(sim.Run.Log)
	if !s.Infer {
		r.Gradients = &Size{gradients}
		r.Optimizer = &Size{held[timeline.OptimizerState]}
		r.Activations.Saved = sim.Run.Saved
		r.Activations.LossSaved = sim.Run.Saved - b.addSaved(r, p, sim.Run.SavedBy)
	}
	r.Simulation, r.OOM = sim, sim.OOM()
	if r.OOM != nil { // what it would take is the answer, not how far it came
		s.Limited, s.MemoryLimit, s.Record = false, 0, false
		if sim, err = b.Simulate(s); err != nil {
			return err
		}
	}
	if n := sim.Replay.Stats.AllocRetries; n > 0 && r.OOM == nil {
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("the run survives only because the allocator gives its cached blocks back, %s: it will be slow", plural(int(n), "time"))})
	}
	if s.GPU.ID != "" && !s.GPU.Measured {
		r.Notes = append(r.Notes, Note{Info, fmt.Sprintf("the rules were measured on an H200: for %s its memory, multiprocessors and cuBLAS workspace are known, context and cuDNN's choices are taken to be alike", s.GPU.Name)})
	}
	r.Peak, r.Context, r.Phases = &sim.Peak, sim.Context, phasesOf(sim.Replay, sim.Peak.Step)
	if n := len(sim.Replay.Dropped); n > 0 {
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("memory is so short that %s not get the workspace of cuDNN's first choice and will be slower", plural(n, "kind of convolution does", "kinds of convolutions do"))})
	}
	if !s.Infer && p.InferOnly != "" {
		r.Notes = append(r.Notes, Note{Warning, "this graph is for inference: it has " + p.InferOnly + ". What training the model that it came from takes is not what is estimated here: export that in training mode"})
	}
	for _, text := range p.Notes {
		r.Notes = append(r.Notes, Note{Info, text})
	}
	if n := p.InPlace(); !s.Infer && n != b.a.relus { // else the note about the sums says it
		r.Notes = append(r.Notes, Note{Info, fmt.Sprintf("in the simulated run %s in place, as the common style of code has it: ONNX does not record it", plural(n, "activation works", "activations work"))})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Unknown)) {
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("operator %q: %s no PyTorch counterpart here, so what they save and need is not in the peak", name, plural(p.Unknown[name], "node has", "nodes have"))})
	}
	return nil
}

// simulate simulates a step, or an inference where there is nothing to train: then it changes s, and says why.
func (b *Bound) simulate(s *Step) (sim *Simulation, p *eager.Program, why string, err error) {
	if p, err = b.Program(!s.Infer); err != nil {
		return nil, nil, "", err
	}
	if !s.Infer && !trains(p) {
		why = "the model has no parameter of a float type to train: an inference is simulated instead"
	} else {
		sim, err = b.Simulate(*s)
		if untrained, ok := errors.AsType[*eager.NoGradientError](err); ok {
			why = fmt.Sprintf("there is nothing to train: %v: an inference is simulated instead", untrained)
		}
	}
	if why != "" {
		s.Infer = true
		if p, err = b.Program(false); err == nil {
			sim, err = b.Simulate(*s)
		}
	}
	return sim, p, why, err
}

// describe says which run a step is.
func (t *Settings) describe(s Step, loss string) {
	t.Mode, t.Precision, t.GPU = "infer", cmp.Or(s.Precision, "fp32"), s.GPU.ID
	t.ChannelsLast, t.AllocConf, t.MemoryLimit = s.ChannelsLast, s.AllocConf, s.MemoryLimit
	if s.Infer {
		return
	}
	t.Mode, t.Optimizer, t.Loss = "train", cmp.Or(s.Optimizer, "adamw"), loss
	t.ClipNorm, t.ZeroGrads, t.ForLoop, t.Scaler, t.DropOutput = s.ClipNorm, s.ZeroGrads, s.ForLoop, s.Scaler, s.DropOutput
	if s.Accumulate > 1 {
		t.Accumulate = s.Accumulate
	}
}

// trains reports whether a program has a parameter that can have a gradient.
func trains(p *eager.Program) bool {
	return slices.ContainsFunc(p.State, func(id eager.ValueID) bool {
		v := &p.Values[id]
		return v.Kind == eager.Parameter && v.DType.IsFloat()
	})
}

// addSaved gives each layer what its nodes save, by the program's nodes, and returns the sum.
func (b *Bound) addSaved(r *Report, p *eager.Program, saved []int64) (sum int64) {
	steps := stepFinder{a: b.a}
	var all map[*onnxload.Node]int32 // steps by their nodes; nil until one is asked for out of order
	for i, n := range p.Nodes[:min(len(p.Nodes), len(saved))] {
		k := steps.next(n)
		if saved[i] == 0 {
			continue
		}
		if k < 0 {
			if all == nil {
				all = make(map[*onnxload.Node]int32, len(b.a.steps))
				for j := range b.a.steps {
					all[b.a.steps[j].node] = int32(j)
				}
			}
			j, ok := all[n]
			if !ok {
				continue
			}
			k = int(j)
		}
		if row := b.a.rowOf[k]; row >= 0 {
			r.Layers[row].SavedBytes += saved[i]
			sum += saved[i]
		}
	}
	return sum
}

// Incomplete reports whether the peak lacks what some operators need.
func (r *Report) Incomplete() bool {
	return !r.Coverage.Complete() || r.Simulation != nil && r.Simulation.Unknown > 0
}
