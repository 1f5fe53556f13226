package estimate

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/caching"
	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// A Step says which run of the model is estimated. The zero Step is a training step in float32 with
// AdamW on an H200.
type Step struct {
	Infer     bool   // an inference under no_grad instead
	Precision string // "" is fp32: see eager.ParsePrecision
	Optimizer string // "" is adamw: see eager.Optimizers
	Loss      string // "" is auto: see eager.Losses
	ChannelsLast,
	ClipNorm, ZeroGrads, ForLoop, Scaler, DropOutput bool // see eager.Options
	Accumulate  int    // backward passes a step; 0 is 1
	AllocConf   string // as PYTORCH_CUDA_ALLOC_CONF
	MemoryLimit int64  // what the allocator may reserve, as set_per_process_memory_fraction; 0 is no limit
	GPU         GPU    // the zero GPU is the H200 without a limit of its memory
	Limited     bool   // the GPU's memory is a limit too
	Record      bool   // keep the allocator's trace, for a snapshot
	Profile     Profile
}

// A Profile is what was measured where the run will be: it replaces what is known of the H200.
// The zero Profile replaces nothing.
type Profile struct {
	Context       int64 // bytes of the process beyond the allocator; 0 leaves them
	BLASWorkspace int64 // bytes that cuBLAS keeps for each thread; 0 leaves them
}

// Check says whether the names and settings of a step are known. Simulate fails on the same.
func (s *Step) Check() error {
	_, _, err := s.parse()
	return err
}

func (s *Step) parse() (eager.Precision, caching.Options, error) {
	precision := eager.FP32
	var conf caching.Options
	var err error
	if s.Precision != "" {
		precision, err = eager.ParsePrecision(s.Precision)
	}
	if err == nil {
		err = eager.CheckOptimizer(s.Optimizer)
	}
	if err == nil {
		err = eager.CheckLoss(s.Loss)
	}
	if err == nil {
		conf, err = caching.ParseOptions(s.AllocConf)
	}
	return precision, conf, err
}

// A Bound is a model whose dimensions all have sizes, ready to be simulated under several settings.
type Bound struct {
	a    *analysis
	ws   []weight
	prog [3]*eager.Program // recovered for inference, for training, and for inference under autocast

	constants Tensors

	tied   *eager.Tied // a last layer that is taken to share its weight with the embeddings
	dearer *Bound      // the same model where what is guessed takes more: two weights, amax; nil where nothing is
	most   bool        // this is the dearer one of two
}

// Bind infers the shapes of m and tells its parameters from its buffers. Errors are those of Run.
func Bind(m *onnxload.Model, opt Options) (*Bound, error) {
	m, saved := fillWeights(m)
	types, err := shape.Infer(m, shape.Options{Batch: opt.Batch, Dims: opt.Dims, Inputs: opt.Inputs})
	if err != nil {
		return nil, err
	}
	if err := unbound(types); err != nil {
		return nil, err
	}
	a := newAnalysis(m, types)
	a.nodes += saved
	ws, constants, err := a.weights()
	if err != nil {
		return nil, err
	}
	b := &Bound{a: a, ws: ws, constants: constants}
	if tied, ok := eager.TiedHead(m); ok {
		b.tied, b.dearer = &tied, &Bound{a: a, ws: ws, constants: constants, most: true}
		b.ws = slices.DeleteFunc(slices.Clone(ws), func(w weight) bool { return w.id == tied.Head })
	}
	return b, nil
}

// Program returns the PyTorch calls that the graph was exported from.
func (b *Bound) Program(train bool) (*eager.Program, error) { return b.program(train, false) }

// program is Program, for an inference under autocast too.
func (b *Bound) program(train, autocast bool) (*eager.Program, error) {
	k := 0
	switch {
	case train:
		k = 1
	case autocast:
		k = 2
	}
	if b.prog[k] != nil {
		return b.prog[k], nil
	}
	kinds := make([]eager.ValueKind, len(b.a.m.Values))
	for _, w := range b.ws {
		kinds[w.id] = eager.Parameter
		switch {
		case w.role == roleBuffer && isAutomatic(b.a.m.Values[w.id].Name):
			kinds[w.id] = eager.Constant // what an exporter computed from numbers
		case w.role == roleBuffer:
			kinds[w.id] = eager.Buffer
		}
	}
	if b.tied != nil {
		kinds[b.tied.Head] = eager.Parameter
	}
	p, err := eager.Recover(eager.Source{
		Model: b.a.m,
		Types: b.a.types,
		Kinds: kinds,
		Train: train, Autocast: autocast, Tied: b.tied, Most: b.most,
		Place: b.a.placer(),
	})
	if err != nil {
		return nil, err
	}
	b.prog[k] = p
	if train && p.Doubtful && b.dearer == nil && !b.most {
		b.dearer = &Bound{a: b.a, ws: b.ws, constants: b.constants, most: true}
	}
	if b.dearer != nil { // at once: several goroutines may share what is recovered
		_, err = b.dearer.program(train, autocast)
	}
	return p, err
}

// A Simulation is one run of a model, event by event.
type Simulation struct {
	Run     *eager.Run
	Replay  *caching.Result
	Context int64 // bytes that the process takes beyond the allocator
	Peak    Peak
	Unknown int // nodes that PyTorch's counterpart is not known of: what they save and need is left out
}

// Timeline returns the run's requests to the allocator, written out anew by each call: it may be large.
func (s *Simulation) Timeline() *timeline.Timeline { return s.Run.Log.Timeline() }

// Simulate runs the model and replays what it requests through the allocator.
func (b *Bound) Simulate(s Step) (*Simulation, error) {
	precision, conf, err := s.parse()
	if err != nil {
		return nil, err
	}
	p, err := b.program(!s.Infer, precision == eager.AMPBF16 || precision == eager.AMPFP16)
	if err != nil {
		return nil, err
	}
	opts := eager.Options{
		Train: !s.Infer, Precision: precision, Optimizer: s.Optimizer, Loss: s.Loss, ChannelsLast: s.ChannelsLast,
		Accumulate: s.Accumulate, ClipNorm: s.ClipNorm, ZeroGrads: s.ZeroGrads, ForLoop: s.ForLoop, Scaler: s.Scaler, DropOutput: s.DropOutput,
	}
	device := eager.DefaultGPU
	if s.GPU.ID != "" {
		device = s.GPU.device
	}
	if s.Profile.BLASWorkspace > 0 {
		device.BLASWorkspace = s.Profile.BLASWorkspace
	}
	opts.GPU = &device
	cfg := caching.Config{Options: conf, Limit: s.MemoryLimit, Record: s.Record}
	cfg.Total = gpus[0].Total
	if s.GPU.ID != "" {
		cfg.Total = s.GPU.Total
	}
	f := follow(cfg)
	limited := s.GPU.ID != "" && s.Limited
	if !limited { // else what the process takes must be known first
		opts.Full = f.take
	}
	run, err := eager.Simulate(p, opts)
	f.end()
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	sim := &Simulation{Run: run, Context: context(run)}
	for _, n := range p.Unknown {
		sim.Unknown += n
	}
	if s.Profile.Context > 0 {
		sim.Context = s.Profile.Context
	}
	if limited {
		cfg.Capacity = max(s.GPU.Total-sim.Context, 1)
		f = follow(cfg)
	}
	if sim.Replay, err = f.replay.Finish(run.Log); err != nil {
		return nil, err
	}
	sim.Peak = peakOf(run.Log, sim.Replay)
	sim.Peak.Device = sim.Peak.Reserved + sim.Context
	sim.Peak.UpperBound = upperBound(sim, cfg, s.Infer)
	if b.tied != nil || !b.most && p.Doubtful {
		s.Record = false
		other, err := b.dearer.Simulate(s)
		if err != nil {
			return nil, err
		}
		sim.Peak.UpperBound = max(sim.Peak.UpperBound, other.Peak.UpperBound)
	}
	return sim, nil
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
		Phase: phase.String(), Step: int(step), Layer: layerName(l, l.Of(live[len(live)-1]).Layer, phase), // the block it failed on comes last
		Tried: o.Tried, Allocated: o.Allocated, Reserved: o.Reserved, Message: o.Error(),
	}
}
