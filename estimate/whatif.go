package estimate

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
)

// A Variant is the same run with one setting changed. Sizes are bytes.
type Variant struct {
	Change     string `json:"change"` // as the command line would say it: "--precision amp-bf16"
	Allocated  int64  `json:"allocated_bytes"`
	Reserved   int64  `json:"reserved_bytes"`
	Device     int64  `json:"device_bytes"`
	Likely     int64  `json:"likely_bytes"`
	Safe       int64  `json:"safe_bytes"`
	UpperBound int64  `json:"upper_bound_bytes"`
	Fits       *bool  `json:"fits,omitempty"` // the limits of the step; absent without any
	Error      string `json:"error,omitempty"`
}

// A trial is a Variant to be.
type trial struct {
	change string
	batch  int64 // 0 leaves it
	set    func(*Step)
}

// shared are the ways of many GPUs to share a step that are worth trying.
var shared = []string{program.ZeRO1, program.FSDP}

// A tried is what a model has that decides which changes are worth trying.
type tried struct {
	images       bool // an input of four dimensions or more
	convolutions bool
	blocks       bool // modules that repeat, which can be checkpointed and sharded
}

// trials are the changes that are worth trying for a step.
func trials(opt Options, s Step, of tried) (ts []trial) {
	add := func(change string, set func(*Step)) { ts = append(ts, trial{change: change, set: set}) }
	precision := cmp.Or(s.Precision, torch.FP32)
	for _, p := range []torch.Precision{torch.FP32, torch.AMPBF16, torch.BF16} {
		if p != precision {
			add("--precision "+string(p), func(s *Step) { s.Precision, s.Scaler = p, false })
		}
	}
	if !s.Infer {
		optimizer := cmp.Or(s.Optimizer, "adamw")
		for _, o := range []string{"adamw", "adamw-fused", "sgdm", "sgd", "adafactor"} {
			if o != optimizer {
				add("--optimizer "+o, func(s *Step) { s.Optimizer = o })
			}
		}
		if !s.ForLoop {
			add("--foreach=false", func(s *Step) { s.ForLoop = true })
		}
	}
	if !s.Infer && s.Checkpoint == "" && of.blocks {
		add("--checkpoint blocks", func(s *Step) { s.Checkpoint = program.Blocks })
	}
	if !s.Infer && s.GPUs < 2 && of.blocks {
		for _, scheme := range shared {
			add("--gpus 8 --parallel "+scheme, func(s *Step) { s.GPUs, s.Parallel = 8, scheme })
		}
	}
	if of.images && !s.ChannelsLast {
		add("--channels-last", func(s *Step) { s.ChannelsLast = true })
	}
	switch {
	case of.convolutions && s.Benchmark:
		add("--cudnn-benchmark=false", func(s *Step) { s.Benchmark = false })
	case of.convolutions:
		add("--cudnn-benchmark", func(s *Step) { s.Benchmark = true })
	}
	if s.AllocConf == "" {
		add("--alloc-conf expandable_segments:True", func(s *Step) { s.AllocConf = "expandable_segments:True" })
	}
	for _, b := range []int64{opt.Batch / 2, opt.Batch * 2} {
		if b > 0 {
			ts = append(ts, trial{change: "--batch " + strconv.FormatInt(b, 10), batch: b, set: func(*Step) {}})
		}
	}
	return ts
}

// WhatIf simulates the run of opt again under other settings, each on its own, on all cores unless it is large. The
// order is that of the changes: precision, optimizer, layout, searches, allocator, batch. Where the step has limits, c
// is the figure that must fit.
func (b *Model) WhatIf(m *onnxload.Model, opt Options, c Confidence) []Variant {
	if opt.Step == nil {
		return nil
	}
	p, err := b.Program(!opt.Step.Infer) // once, before the goroutines share it
	if err != nil {
		return nil
	}
	ts := trials(opt, *opt.Step, tried{
		images: slices.ContainsFunc(m.Graph.Inputs,
			func(id onnxload.ValueID) bool { return len(m.Values[id].Type().Dims) >= 4 }),
		convolutions: slices.ContainsFunc(p.Calls, func(c program.Call) bool { return program.Of(c.Op).Is(program.WeightSum) }),
		blocks:       slices.Contains(program.Repeated(p), true),
	})
	out := make([]Variant, len(ts))
	b.each(len(ts), func(i int) { out[i] = b.try(m, opt, ts[i], c) })
	return out
}

// try simulates one change. The limits of the step are put aside, so that a run that does
// not fit still says what it would take. A limit of the allocator is tried: settings of it may collect garbage there.
func (b *Model) try(m *onnxload.Model, opt Options, t trial, c Confidence) Variant {
	v := Variant{Change: t.change}
	s := *opt.Step
	t.set(&s)
	limited := s.Limited || s.MemoryLimit > 0
	if t.batch > 0 {
		opt.Batch = t.batch
		other, err := Bind(m, opt)
		if err != nil {
			v.Error = err.Error()
			return v
		}
		b = other
	}
	free := s.free()
	free.Record = false
	sim, err := b.Simulate(free)
	if err != nil {
		v.Error = err.Error()
		return v
	}
	k := &sim.Peak
	v.Allocated, v.Reserved, v.Device = k.Allocated, k.Reserved, k.Device
	v.Likely, v.Safe, v.UpperBound = k.Likely, k.Safe, k.UpperBound
	fits := true
	if s.Limited {
		fits = k.Fits(s.GPU.Memory, c)
	}
	if s.MemoryLimit > 0 {
		tight, err := b.simulateOnce(s)
		fits = fits && err == nil && tight.Replay.OOM == nil && tight.retries() == 0
	}
	if limited {
		v.Fits = &fits
	}
	return v
}
