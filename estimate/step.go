package estimate

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Step says which run of the model is estimated. The zero Step is a training step in float32 with
// AdamW on the default device.
type Step struct {
	torch.Settings
	program.Plan
	Infer       bool       // an inference under no_grad instead
	AllocConf   string     // as PYTORCH_CUDA_ALLOC_CONF
	MemoryLimit int64      // what the allocator may reserve, as set_per_process_memory_fraction; 0 is no limit
	GPU         gpu.Device // the zero device is the default one without a limit of its memory
	Limited     bool       // the GPU's memory is a limit too
	Record      bool       // keep what blocks are for, for a snapshot or a picture

	process int64 // bytes of the process beyond the allocator, where they were measured

	memory int64 // of the device, where a batch is searched that fits so much; 0 is the GPU's

	unlimited bool // whatever AllocConf says of the device's share: see free

	late  bool        // of the two ends of a race in DDP the larger one: see eager.Replicas
	known torch.Known // by a run of another step
}

// Check says whether the names and settings of a step are known. Simulate fails on the same.
func (s *Step) Check() error {
	_, err := s.parse()
	return err
}

func (s *Step) parse() (caching.Options, error) {
	if err := s.Settings.Check(); err != nil {
		return caching.Options{}, err
	}
	if err := s.Plan.Check(); err != nil {
		return caching.Options{}, err
	}
	if s.NCCL > 0 && s.GPUs < 2 {
		return caching.Options{}, errors.New("what NCCL takes is set, and the number of GPUs is not: at least 2")
	}
	return caching.ParseOptions(s.AllocConf)
}

// A Simulation is one run of a model, event by event.
type Simulation struct {
	Recorded *recording.Run // where it came from; nil for a model
	Run      *torch.Run
	Replay   *caching.Result
	Context  int64 // bytes that the process takes beyond the allocator
	NCCL     int64 // the part of it that is NCCL's
	Peak     Peak
	Notes    []Note // on what the plan of the step adds
	Unknown  int    // nodes that PyTorch's counterpart is not known of: what they save and need is left out

	prog      *program.Program              // that ran; nil for a recording
	config    caching.Config                // that Replay is by
	doubtful  bool                          // another program is exported like this one, and takes more: see guessedLargest
	held      [timeline.NumCategories]int64 // see heldAtEnd
	gradients int64
	doubts    doubts // of a recording
}

// Shed lets go of the run's events and its replay, which of a large model take megabytes: the figures stay.
func (s *Simulation) Shed() { s.Run, s.Replay = &torch.Run{SavedBy: s.Run.SavedBy}, nil }

// Simulate runs the model and replays what it requests through the allocator. The upper bound has room for what is not
// known: see upperBound; and of two programs that are exported alike, or two ends of a race in DDP, for the one that
// takes more. What is likely and safe follows from it by how the model came here.
func (b *Model) Simulate(s Step) (*Simulation, error) {
	sim, err := b.simulateBounded(s)
	if err != nil {
		return nil, err
	}
	sim.confide(b.way, s.Infer)
	if s.Benchmark {
		s.Benchmark, s.Record = false, false
		without, err := b.Simulate(s)
		if err != nil {
			return nil, err
		}
		_, device := s.options()
		sim.Peak.limitSearches(&without.Peak, device.Memory)
	}
	return sim, nil
}

// simulateBounded is Simulate without what is likely and safe.
func (b *Model) simulateBounded(s Step) (*Simulation, error) {
	sim, err := b.simulateOnce(s)
	if err != nil {
		return nil, err
	}
	sim.Peak.UpperBound = upperBound(sim, sim.config, headroomOf(s.Infer))
	sim.held, sim.gradients = heldAtEnd(sim.Run.Log)
	if s.GPUs > 1 && !s.Infer && s.Plan.Races() && !s.late {
		s.late = true
		if err := sim.raced(s); err != nil {
			return nil, err
		}
	}
	s.Record, s.known = false, sim.Run.Known()
	if sim.doubtful {
		other, err := b.guessedLargest().simulateBounded(s)
		if err != nil {
			return nil, err
		}
		sim.Peak.UpperBound = max(sim.Peak.UpperBound, other.Peak.UpperBound)
	}
	return sim, nil
}

// raced has the upper bound be one for the other end of a race in DDP too: the same requests, of which one lives on.
func (s *Simulation) raced(step Step) (err error) {
	other, run := *s, *s.Run
	run.Log = run.Late()
	if other.Run = &run; run.Log == s.Run.Log {
		return nil
	}
	if other.Replay, err = caching.NewReplayer(s.config).Finish(run.Log); err != nil {
		return err
	}
	other.Peak.Reserved = other.Replay.PeakReserved.Reserved
	s.Peak.UpperBound = max(s.Peak.UpperBound, upperBound(&other, s.config, headroomOf(step.Infer)))
	return nil
}

// simulateOnce is Simulate without the upper bound and what follows from it.
func (b *Model) simulateOnce(s Step) (*Simulation, error) {
	conf, err := s.parse()
	if err != nil {
		return nil, err
	}
	opts, device := s.options()
	opts.Known = s.known
	p, err := b.planned(s)
	if err != nil {
		return nil, err
	}
	cfg := caching.Config{Options: conf, Limit: s.MemoryLimit}
	cfg.Total = device.Memory
	if s.unlimited {
		cfg.Options.MemoryFraction = 0
	}
	most, _ := s.context(device, 2, 2)
	cfg.Room = max(device.Memory-most, 1)
	f := follow(cfg)
	limited := s.limitedByGPU()
	if !limited && !b.large() { // else what the process takes must be known first, or both would not fit into memory
		opts.Full = f.take
	}
	opts.Spare = b.spare()
	run, err := torch.Simulate(p, opts)
	b.spared(opts.Spare)
	f.end()
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if run.Log.Written() >= manyEvents {
		b.busy.Store(true)
	}
	sim := &Simulation{Run: run, prog: p}
	sim.Context, sim.NCCL = s.context(device, run.BLAS, run.DNN)
	if !s.Infer {
		sim.Notes = infos(s.Plan.Notes(p))
	}
	for _, n := range p.Unknown {
		sim.Unknown += n
	}
	if limited {
		cfg.Capacity = max(s.GPU.Memory-sim.Context, 1)
		f = follow(cfg)
	}
	if sim.Replay, err = f.replay.Finish(run.Log); err != nil {
		return nil, err
	}
	if b.large() { // a fifth of the run's memory, and made anew in a tenth of its time
		sim.Replay.Allocator = nil
	}
	sim.Peak = peakOf(run.Log, sim.Replay)
	sim.Peak.Device = sim.Peak.Reserved + sim.Context
	sim.config, sim.doubtful = cfg, b.tied != nil || !b.most && p.Doubtful
	return sim, nil
}

// context is what the process takes beyond the allocator where so many of its threads use cuBLAS and cuDNN, and the
// part of it that is NCCL's.
func (s *Step) context(d gpu.Device, blas, dnn int) (bytes, nccl int64) {
	if s.process > 0 {
		return s.process, 0
	}
	if s.GPUs > 1 && !s.Infer {
		nccl = cmp.Or(s.NCCL, gpu.NCCL)
	}
	return d.Context(blas, dnn) + nccl, nccl
}

// planned returns the program that runs in a step.
func (b *Model) planned(s Step) (*program.Program, error) {
	p, err := b.program(!s.Infer, s.Autocast())
	if err != nil || s.Infer {
		return p, err
	}
	return s.Plan.Apply(p)
}

func (s *Step) limitedByGPU() bool { return s.GPU.ID != "" && s.Limited }

// retries is how often the allocator gave all that it had cached back, of a run that was not told to expect that.
func (s *Simulation) retries() int64 {
	if s.doubts.full.caught {
		return 0
	}
	return s.Replay.Stats.AllocRetries
}

// OOM describes the request that the run failed on, nil when it survived.
func (s *Simulation) OOM() *OOM {
	o := s.Replay.OOM
	if o == nil {
		return nil
	}
	l := s.Run.Log
	phase, step := l.When(s.Replay.OOMEvent)
	live := l.Live(s.Replay.OOMEvent)
	return &OOM{
		// the block it failed on comes last
		Phase: phase.String(), Step: int(step), Layer: layerName(l, l.Of(live[len(live)-1]).Layer, phase),
		Tried: o.Tried, Allocated: o.Allocated, Reserved: o.Reserved, Message: o.Error(),
	}
}
