package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A simulatedStep is what came of simulating a step.
type simulatedStep struct {
	step Step // an inference where there was nothing to train
	sim  *Simulation
	prog *program.Program
	why  string // it is an inference
	err  error
}

// manySteps is from how many steps on the layers are made while the run is simulated, on another core: 1 ms of work.
const manySteps = 2000

// layersAndRun makes the rows of the layers, and simulates a step unless that is nil. The error is one about the
// layers or the settings; simulatedStep.err says that the model cannot be run. Of a large model AddLayers makes the
// rows, once the run's memory is free.
func (b *Model) layersAndRun(r *Report, s *Step) (run *simulatedStep, err error) {
	var rows group
	var rowErr error
	makeRows := func() { rowErr = b.rows(r) }
	// The simulation reads constants, which may tell how large a dimension can be. The layers read that too, so that the
	// two run at the same time, or the other way about, only where every dimension is a number.
	anyOrder := s != nil && b.analysis.Types.Numbers()
	switch {
	case anyOrder && b.large():
	case anyOrder && len(b.analysis.Steps) >= manySteps:
		rows.do(makeRows)
	default:
		if makeRows(); rowErr != nil || s == nil {
			return nil, rowErr
		}
	}
	if err = s.Check(); err == nil {
		run = &simulatedStep{step: s.free()}
		run.sim, run.prog, run.why, run.err = b.simulate(&run.step)
	}
	rows.end()
	return run, cmp.Or(rowErr, err)
}

// rows makes the rows of the layers.
func (b *Model) rows(r *Report) (err error) {
	r.Layers, r.Activations.Forward, err = b.analysis.Layers(b.ownWeights())
	return err
}

// AddLayers adds the layers to what Simulated returned, with what the run saves in each. Of a large model nothing that
// the runs were made of is kept beside them.
func (b *Model) AddLayers(r *Report) error {
	sim := r.Simulation
	if b.large() {
		b.forget()
	}
	if r.Layers == nil {
		if err := b.rows(r); err != nil {
			return err
		}
	}
	sums := &r.Activations
	sums.WithBackward = sums.Forward
	if err := module.Add(&sums.WithBackward, sums.Forward); err != nil {
		return fmt.Errorf("activations: %w", err)
	}
	if sim != nil && r.Settings.Mode == "train" {
		sums.LossSaved = sums.Saved - b.analysis.AddSaved(r.Layers, b.programs.nodes, sim.Run.SavedBy)
	}
	return nil
}

// addStep adds what came of a run. That a model cannot be run is no error, unless strict
// asks for one: the sums stand, and a warning says why they stand alone.
func (b *Model) addStep(r *Report, run *simulatedStep, opt Options) error {
	s, sim, p, err := run.step, run.sim, run.prog, run.err
	s.Limited, s.MemoryLimit, s.unlimited = opt.Step.Limited, opt.Step.MemoryLimit, false
	if run.why != "" {
		r.Notes = append(r.Notes, Note{Warning, run.why})
	}
	if err == nil && sim.Replay.OOM != nil && !s.limitedByGPU() && s.MemoryLimit == 0 {
		err = errors.New("it takes more than 1 PiB, beyond which nothing is simulated") // caching.Config without limits
	}
	if wrong, ok := errors.AsType[*program.MatchError](err); ok {
		return wrong
	}
	switch {
	case opt.Strict && err != nil:
		return fmt.Errorf("%w: the run cannot be simulated: %w", ErrIncomplete, err)
	case opt.Strict && sim.Unknown > 0:
		name := slices.Sorted(maps.Keys(p.Unknown))[0]
		return fmt.Errorf("%w: %s no PyTorch counterpart here, the first operator is %q", ErrIncomplete,
			plural(sim.Unknown, "node has", "nodes have"), name)
	case err != nil:
		r.Notes = append(r.Notes, Note{Warning, fmt.Sprintf("the run is not simulated, so there is no peak: %v", err)})
		return nil
	}
	r.Settings.describe(s, sim.Run.Loss)
	if !s.Infer {
		r.Gradients = &Size{sim.gradients}
		r.Optimizer = &Size{sim.held[timeline.OptimizerState]}
		r.Activations.Saved = sim.Run.Saved
	}
	if sim, err = r.limit(s, s.AllocConf, sim, b.Simulate); err != nil {
		return err
	}
	r.Notes = append(r.Notes, searchNotes(sim.Run.Log)...)
	r.Notes = append(r.Notes, b.questionNotes(s, p)...)
	if opt.Weigh {
		if r.Guesses, err = b.guesses(s, sim); err != nil {
			return err
		}
	}
	r.NCCL = sim.NCCL
	if sim.NCCL > 0 && s.NCCL == 0 {
		r.Notes = append(r.Notes, Note{Info,
			"what NCCL takes on the device was measured on two H200s of one host: other numbers of GPUs and other links are " +
				"taken to be alike, --nccl SIZE says otherwise"})
	}
	r.Peak, r.Context, r.Phases = &sim.Peak, sim.Context, phasesOf(sim.Replay, sim.Peak.Step)
	if !s.Infer && p.InferOnly != "" {
		r.Notes = append(r.Notes, Note{Warning, "this graph is for inference: it has " + p.InferOnly +
			". What training the model that it came from takes is not what is estimated here: export that in training mode"})
	}
	r.Notes = append(r.Notes, infos(p.Notes)...)
	r.Notes = append(r.Notes, sim.Notes...)
	r.Notes = append(r.Notes, b.programNotes(s, p)...)
	return nil
}

// questionNotes say where what is asked, of which device, in which precision, is not what was measured.
func (b *Model) questionNotes(s Step, p *program.Program) (notes []Note) {
	if s.GPU.ID != "" {
		notes = elsewhere(s.GPU, gpu.Default())
	}
	notes = append(notes, b.precisionNote(s)...)
	if !s.Infer {
		notes = append(notes, lossNote(b.way, b.analysis.Model, p)...)
	}
	return append(notes, wayNote(b.way, s.Infer)...)
}

// programNotes say what of the program is a custom of code, and what of it nobody here knows.
func (b *Model) programNotes(s Step, p *program.Program) (notes []Note) {
	if n := p.InPlace(); n > 0 && !s.Infer && n != b.analysis.Relus { // else the note about the sums says it
		notes = append(notes, Note{Info,
			fmt.Sprintf("in the simulated run %s in place, as the common style of code has it: ONNX does not record it",
				plural(n, "activation works", "activations work"))})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Unknown)) {
		notes = append(notes, Note{Warning,
			fmt.Sprintf("operator %q: %s no PyTorch counterpart here, so what they save and need is not in the peak", name,
				plural(p.Unknown[name], "node has", "nodes have"))})
	}
	return notes
}

// simulate simulates a step, or an inference where there is nothing to train: then it changes s, and says why.
func (b *Model) simulate(s *Step) (sim *Simulation, p *program.Program, why string, err error) {
	if p, err = b.Program(!s.Infer); err != nil {
		return nil, nil, "", err
	}
	if !s.Infer && !trains(p) {
		why = "the model has no parameter of a float type to train: an inference is simulated instead"
	} else {
		sim, err = b.Simulate(*s)
		if untrained, ok := errors.AsType[*torch.NoGradientError](err); ok {
			why = fmt.Sprintf("there is nothing to train: %v: an inference is simulated instead", untrained)
		}
	}
	if why != "" {
		s.Infer = true
		b.recovering.Lock()
		b.programs.of[toTrain] = nil // nobody asks for it again
		b.recovering.Unlock()
		if p, err = b.Program(false); err == nil {
			sim, err = b.Simulate(*s)
		}
	}
	return sim, p, why, err
}

// describe says which run a step is.
func (t *Settings) describe(s Step, loss string) {
	t.Mode, t.GPU, t.AllocConf, t.MemoryLimit = "train", s.GPU.ID, s.AllocConf, s.MemoryLimit
	if t.Settings = s.Settings; s.Infer {
		t.Mode, t.Settings = "infer", torch.Settings{ChannelsLast: s.ChannelsLast, Benchmark: s.Benchmark}
	} else {
		t.Plan = s.Plan
		t.Optimizer, t.Loss = cmp.Or(s.Optimizer, "adamw"), loss
		if t.Accumulate < 2 {
			t.Accumulate = 0
		}
	}
	t.Precision = cmp.Or(s.Precision, torch.FP32)
}

// trains reports whether a program has a parameter that can have a gradient.
func trains(p *program.Program) bool {
	return slices.ContainsFunc(p.State, func(id program.ValueID) bool {
		v := &p.Values[id]
		return v.Kind == program.Parameter && v.DType.IsFloat()
	})
}

// Incomplete reports whether the peak lacks what some operators need.
func (r *Report) Incomplete() bool {
	return !r.Coverage.Complete() || r.Simulation != nil && r.Simulation.Unknown > 0
}
