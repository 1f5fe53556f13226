package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Recorded answers a question about a run that PyTorch itself made on fake tensors. The recording says which run it
// is; of the step only where it runs and what it may take count, and without a GPU it runs on the one that it was
// recorded for.
func Recorded(rec *recording.Recording, opt Options) (*Report, error) {
	if rec.GPUs > 1 {
		return recordedOnEach(rec, opt)
	}
	sum := rec.Summary()
	r := recordedModel(rec, sum, opt.Name)
	step := Step{}
	if opt.Step != nil {
		step = *opt.Step
	}
	sim, run, err := replayRecording(rec, step.free())
	if err != nil {
		return nil, err
	}
	r.Coverage = recordedCoverage(run)
	if opt.Strict && !r.Coverage.Complete() {
		u := r.Coverage.Unmodelled[0]
		return nil, fmt.Errorf("%w: what the kernels of %q take beside their results is not known: %s", ErrIncomplete,
			u.Domain+"::"+u.Op, plural(u.Count, "call"))
	}
	r.Settings = recordedSettings(run, step)
	r.Settings.Batch = opt.Batch
	if run.Trains {
		r.Gradients, r.Optimizer = &Size{sim.gradients}, &Size{sim.held[timeline.OptimizerState]}
		r.Activations.Saved, r.Activations.LossSaved = sum.Saved, sum.LossSaved
	}
	sim, err = r.limit(step, cmp.Or(step.AllocConf, rec.AllocConf), sim, func(s Step) (*Simulation, error) {
		limited, _, err := replayRecording(rec, s)
		return limited, err
	})
	if err != nil {
		return nil, err
	}
	r.Peak, r.Context, r.Phases = &sim.Peak, sim.Context, phasesOf(sim.Replay, sim.Peak.Step)
	r.NCCL = sim.NCCL
	r.Communicators = communicators(rec)
	r.Depends = dependence(rec)
	r.OOM = cmp.Or(r.OOM, sim.doubts.full.fails)
	r.Notes = append(r.Notes, recordedNotes(rec, run, step, r)...)
	return r, nil
}

// recordedModel is a report that says what the recording does of the model: its tensors and layers.
func recordedModel(rec *recording.Recording, sum *recording.Summary, name string) *Report {
	r := &Report{
		Schema: Schema, WayIn: RecordedWay,
		Model: ModelInfo{
			Name: name, Producer: strings.TrimSpace("torch " + rec.Torch), Opsets: map[string]int64{}, Nodes: len(rec.Calls),
			Inputs: make([]module.Tensor, 0, len(sum.Inputs)), Outputs: []module.Tensor{},
		},
		Parameters: module.Tensors{Count: sum.Parameters.Elements, Bytes: sum.Parameters.Bytes,
			Tensors: sum.Parameters.Tensors},
		Buffers: module.Tensors{Count: sum.Buffers.Elements, Bytes: sum.Buffers.Bytes, Tensors: sum.Buffers.Tensors},
		Layers:  make([]module.Layer, 0, len(sum.Layers)),
		Notes:   []Note{},
	}
	for _, in := range sum.Inputs {
		t := module.Tensor{Name: in.Name}
		if in.Meta >= 0 {
			t.DType, t.Shape = rec.Metas[in.Meta].DType, rec.Metas[in.Meta].Shape
		}
		r.Model.Inputs = append(r.Model.Inputs, t)
	}
	at := 0
	for i := range sum.Layers {
		l := &sum.Layers[i]
		r.Activations.Forward += l.Bytes
		row := module.Layer{
			Index: at, Name: cmp.Or(l.Name, recording.RootLayer), Op: cmp.Or(l.Class, "function"),
			Module: l.Name, Nodes: l.Calls, Inputs: []string{}, Outputs: []module.Tensor{},
			Params: l.Params.Elements, ParamBytes: l.Params.Bytes, Activation: l.Bytes, SavedBytes: l.Saved,
			InPlace: l.Bytes == 0,
		}
		if l.Output >= 0 {
			row.Outputs = append(row.Outputs, module.Tensor{DType: rec.Metas[l.Output].DType, Shape: rec.Metas[l.Output].Shape})
		}
		r.Layers = append(r.Layers, row)
		at += l.Calls
	}
	r.Activations.WithBackward = 2 * r.Activations.Forward
	return r
}

// recordedCoverage counts the calls whose kernels take what nobody here knows.
func recordedCoverage(run *recording.Run) Coverage {
	c := Coverage{Nodes: run.Calls, Modelled: run.Calls, Unmodelled: []Unmodeled{}}
	byName := func(a, b recording.Op) int { return cmp.Compare(a.String(), b.String()) }
	for _, op := range slices.SortedFunc(maps.Keys(run.Unknown), byName) {
		domain, name, _ := strings.Cut(op.Name, "::")
		c.Modelled -= run.Unknown[op]
		c.Unmodelled = append(c.Unmodelled, Unmodeled{name + "." + op.Overload, domain, run.Unknown[op]})
	}
	return c
}

// unbounded are the recorder's notes on what is nowhere in the figures, by their codes, and why there is no bound then.
type unboundedBy struct{ note, because string }

var unbounded = []unboundedBy{
	{"eager", "compiled code may take more"},
	{"ended", "only of the steps that were recorded"},
	{"cut", "steps that were like others were left out"},
	{"draws", "other draws may take more"},
	{"einsum", "einsum in another order may take more"},
	{"batches", "other batches may be larger"},
}

// recordedSettings are the settings of a recorded run.
func recordedSettings(run *recording.Run, s Step) Settings {
	t := Settings{Recorded: true, Mode: "infer", GPU: s.GPU.ID, AllocConf: s.AllocConf, MemoryLimit: s.MemoryLimit,
		World: run.Recording.WorldSize}
	if run.Trains {
		t.Mode = "train"
	}
	t.Eagerly = run.Recording.Noted("eager")
	t.Ended = run.Recording.Noted("ended") != ""
	t.Contracted = run.Recording.Noted("einsum") != ""
	for _, u := range unbounded {
		if t.NoBound == "" && run.Recording.Noted(u.note) != "" {
			t.NoBound = u.because
		}
	}
	t.Benchmark = run.Recording.Benchmark || len(run.Recording.Searches) > 0 // a program may set it once it is recorded
	return t
}

// recordedDevice is the device that a recording was made for.
func recordedDevice(rec *recording.Recording) gpu.Device {
	h := rec.GPU
	if h.Name == "" {
		return gpu.Default()
	}
	d, err := gpu.Find(h.Name)
	d = d.Like(gpu.Default())
	if err != nil {
		c := gpu.Capability{}
		if len(h.Capability) == 2 {
			c = gpu.Capability{Major: int(h.Capability[0]), Minor: int(h.Capability[1])}
		}
		d = gpu.Other(h.Name, max(h.Memory, 0), c, int(max(1, min(h.Multiprocessors, math.MaxInt16))))
	}
	return d
}

// replayRecording turns a recording into requests and replays them through the allocator.
func replayRecording(rec *recording.Recording, s Step) (*Simulation, *recording.Run, error) {
	sim, run, err := replayed(rec, s)
	if err != nil || len(rec.Searches) == 0 {
		return sim, run, err
	}
	unsearched := *rec
	unsearched.Searches = nil
	without, _, err := replayed(&unsearched, s)
	if err != nil {
		return nil, nil, err
	}
	sim.Peak.limitSearches(&without.Peak, s.on(recordedDevice(rec)).Memory)
	return sim, run, nil
}

// replayed is replayRecording without the limit that the GPU's memory is to searches.
func replayed(rec *recording.Recording, s Step) (*Simulation, *recording.Run, error) {
	options, err := caching.ParseOptions(cmp.Or(s.AllocConf, rec.AllocConf))
	if err != nil {
		return nil, nil, err
	}
	device := s.on(recordedDevice(rec))
	run := rec.Timeline(device)
	sim := &Simulation{
		Recorded: run,
		Run:      &torch.Run{Log: run.Log, BLAS: run.BLAS, DNN: run.DNN, Workspaces: run.Workspaces},
		NCCL:     recordedNCCL(rec, &s),
	}
	sim.Context = device.Context(run.BLAS, run.DNN) + sim.NCCL
	if s.process > 0 {
		sim.Context = s.process
	}
	cfg := caching.Config{Options: options, Limit: s.MemoryLimit, Total: device.Memory}
	if s.unlimited {
		cfg.Options.MemoryFraction = 0
	}
	cfg.Room = max(device.Memory-sim.Context, 1)
	if s.Limited {
		cfg.Capacity = cfg.Room
	}
	sim.doubts.full = full(run, s, &cfg, device, recordedDevice(rec))
	if err := sim.doubts.full.replay(sim, &cfg); err != nil {
		return nil, nil, err
	}
	sim.Peak = peakOf(run.Log, sim.Replay)
	sim.Peak.Device = sim.Peak.Reserved + sim.Context
	sim.doubt(cfg)
	sim.held, sim.gradients = heldAtEnd(run.Log)
	sim.confideRecorded(rec)
	sim.doubts.full.hold(&sim.Peak, device.Memory)
	return sim, run, nil
}

// recordedNotes tells what the reader of the figures should know.
func recordedNotes(rec *recording.Recording, run *recording.Run, s Step, r *Report) []Note {
	notes := []Note{}
	say := func(level, format string, args ...any) {
		notes = append(notes, Note{level, fmt.Sprintf(format, args...)})
	}
	if r.Peak.Reserved == 0 {
		say(Warning, "nothing is allocated: does the program move its model to the GPU?")
	}
	if r.Depends != nil {
		notes = append(notes, r.Depends.notes()...)
	}
	for _, u := range r.Coverage.Unmodelled {
		say(Warning, "operator %q: what its kernels take beside their results is not known, %s", u.Domain+"::"+u.Op,
			plural(u.Count, "call"))
	}
	for _, op := range slices.Sorted(maps.Keys(run.Guessed)) {
		say(Info, "operator %q: what its kernels take beside their results is guessed, %s; the bound has them at their most",
			op, plural(run.Guessed[op], "call"))
	}
	notes = append(notes, r.Simulation.doubts.notes(run.Convolutions, r.Peak)...)
	on := recordedDevice(rec)
	if s.GPU.ID != "" && !s.GPU.MemoryOnly && s.GPU.Capability != on.Capability {
		say(Warning, "recorded for %q of compute capability %s: on %s, of %s, PyTorch may choose other operators; "+
			"record it with gpu=%q",
			on.Name, on.Capability, s.GPU.Name, s.GPU.Capability, s.GPU.ID)
	}
	notes = append(notes, elsewhere(cmp.Or(s.GPU, on), on)...)
	if rec.WorldSize > 1 {
		say(Info, "rank %d of %d GPUs", rec.Rank, rec.WorldSize)
	}
	notes = append(notes, ncclNotes(rec, &s, r.NCCL)...)
	if run.Raced > 0 {
		say(Info, "DDP's first bucket, %s, may still be there in the next backward pass, until NCCL's watchdog has seen "+
			"that its all-reduce is over: at most and safe have it", inGiB(run.Raced))
	}
	if run.Crossing > 0 {
		say(Info, "%s on another stream than they were made on: they are taken to be free as soon as the "+
			"program lets go of them", plural(run.Crossing, "tensor is used", "tensors are used"))
	}
	switch kind, m := recordedMarginOf(rec, dependence(rec)); kind {
	case "lengths":
		say(Info, "batches of other sizes leave other holes between blocks: safe has room for %.1f %% of what the run "+
			"varies by", 100*m.safe)
	case "compiled":
		say(Info, "Inductor decides some things by timing, others by the GPU: safe has room for %.1f %% of what the run "+
			"varies by", 100*m.safe)
	}
	if rec.Way == "real-cpu" {
		say(Warning, "recorded on the CPU: its operators stand for those of CUDA")
	}
	notes = append(notes, r.Simulation.doubts.full.note(run, on, r.Simulation.Replay)...)
	notes = append(notes, searchNotes(run.Log)...)
	return append(notes, assumptions(rec)...)
}

// assumptions are what the recorder noted, each once with how often.
func assumptions(rec *recording.Recording) (notes []Note) {
	type text struct{ code, text int32 }
	count := map[text]int{}
	var order []text
	for i := range rec.Events {
		if e := &rec.Events[i]; e.Kind == recording.Note {
			t := text{e.A, e.B}
			if count[t]++; count[t] == 1 {
				order = append(order, t)
			}
		}
	}
	const maxNamed = 20
	for i, t := range order {
		if i == maxNamed {
			notes = append(notes, Note{Info, fmt.Sprintf("the recorder assumed %d more things", len(order)-maxNamed)})
			break
		}
		line := rec.Texts[t.text]
		if n := count[t]; n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		level := Info
		switch code := rec.Texts[t.code]; {
		case code == "batches":
		case code == "targets", slices.ContainsFunc(unbounded, func(u unboundedBy) bool { return u.note == code }):
			level = Warning
		}
		notes = append(notes, Note{level, line})
	}
	return notes
}

// LargestRecorded is Largest for a program that was recorded at two batch sizes.
func LargestRecorded(family *recording.Family, opt Options, memory int64) (*Fitting, error) {
	step := Step{}
	if opt.Step != nil {
		step = *opt.Step
	}
	step = step.free()
	step.Record, step.memory = false, memory
	f := &Fitting{Schema: Schema, Model: opt.Name, GPU: step.GPU.ID, Memory: memory, Notes: []Note{}}
	err := f.search(false, func(batch int64) (Point, error) {
		rec, err := family.At(batch)
		if err != nil {
			return Point{Batch: batch}, err
		}
		sim, run, err := replayLargest(rec, step)
		if err != nil {
			if batch > 1 {
				return Point{Batch: batch}, nil // too large for the arithmetic
			}
			return Point{}, err
		}
		if batch == 1 {
			f.Settings = recordedSettings(run, step)
			f.Context = sim.Context
			if d := dependence(rec); d != nil {
				f.Notes = append(f.Notes, Note{Warning, d.String()})
			}
			if n := len(run.Unknown); n > 0 {
				f.Notes = append(f.Notes, Note{Warning,
					fmt.Sprintf("of %s it is not known what their kernels take: the batch that fits may be smaller",
						plural(n, "operator"))})
			}
		}
		return f.at(batch, &sim.Peak), nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}
