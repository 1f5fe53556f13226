package main

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// stepFlags are the flags that say how a model is run.
type stepFlags struct {
	step    estimate.Step
	mode    string
	foreach bool
	zero    string
	scaler  string
	gpu     string
	limit   uint64
	bucket  uint64
	nccl    uint64
	reshard bool
	given   *pflag.FlagSet // the flags, to see which of them were given
}

// contradiction refuses a setting that would change nothing: one of training for an inference.
func (r *stepFlags) contradiction() error {
	mode := r.given.Lookup("mode")
	modes := []string{mode.Value.String()}
	if l, ok := mode.Value.(*listValue); ok && len(l.given) > 0 {
		modes = l.given
	}
	if !mode.Changed || slices.Contains(modes, "train") {
		return nil
	}
	for _, name := range flagsOf(training, append(r.rows(), r.parallelRows()...)) {
		if r.given.Lookup(name).Changed {
			return usagef("--%s is for training, and --mode %s does not train", name, modes[0])
		}
	}
	return nil
}

// defaults sets what the flags are where none is given.
func (r *stepFlags) defaults(fs *pflag.FlagSet) {
	r.given = fs
	r.mode, r.zero, r.scaler, r.foreach, r.reshard = "train", "none", "auto", true, true
	r.step.Precision, r.step.Optimizer, r.step.Loss = "fp32", "adamw", "auto"
}

// asked returns the step that the flags describe. Only --gpu auto looks at this machine.
func (r *stepFlags) asked(e *env) (*estimate.Step, error) {
	s := r.step
	s.Infer = r.mode != "train"
	s.ZeroGrads, s.ForLoop = r.zero == "zeros", !r.foreach
	s.Scaler = r.scaler == "on" || r.scaler == "auto" && s.Precision == torch.AMPFP16
	s.MemoryLimit = int64(r.limit)
	s.NoReshard = !r.reshard
	s.Bucket, s.NCCL = int64(r.bucket), int64(r.nccl)
	if err := s.Plan.Check(); err != nil {
		return nil, usagef("%v", err)
	}
	if r.gpu != "" {
		var err error
		if s.GPU, err = findGPU(e, r.gpu); err != nil {
			return nil, err
		}
		s.Limited = true
	}
	return &s, nil
}

// findGPU returns the GPU of this name; "auto" is the first one that CUDA would use here. One that
// is not known by name lends its memory alone.
func findGPU(e *env, name string) (gpu.Device, error) {
	if name != "auto" {
		return gpu.Find(name)
	}
	session, err := devices.Open("")
	if err != nil {
		return gpu.Device{}, deviceError(err)
	}
	defer session.Close()
	ds, err := session.List()
	if err != nil {
		return gpu.Device{}, deviceError(err)
	}
	ds = watchable(e, ds)
	if len(ds) == 0 {
		return gpu.Device{}, fail(exitDevice, "--gpu auto: there is no GPU that CUDA would use here")
	}
	return kindOf(&ds[0]), nil
}

// kindOf returns what is known of a live GPU's kind. One that is not known by name lends its memory alone.
func kindOf(d *devices.Device) gpu.Device {
	g, err := gpu.Find(d.Name)
	if err != nil {
		g = gpu.Default()
		g.ID, g.Name, g.Measured = "auto", d.Name, false
	}
	g.Memory = int64(d.Total - d.Reserved)
	return g
}

// questions are the flags of the main command alone: what else to answer.
type questions struct {
	budget uint64
	sure   estimate.Confidence
	whatIf bool
	ways   bool
	stats  bool

	snapshot string // where to write the run
	record   bool   // keep the allocator's trace

	look  look
	short bool // the answer is for a terminal
	drawn bool // it is a page
	weigh bool // it shows what the run guesses, each weighed by another run

	// What is on a terminal or a page beside the report.
	gpus    []report.GPUFit
	largest *estimate.Fitting
}

func (a *questions) flags(fs *pflag.FlagSet) {
	addFlags(fs, []flagRow{
		{"budget", 0, limitFlag(&a.budget),
			"fail, with exit code 1, when the run takes more memory on the device than this"},
		{"what-if", 0, &a.whatIf,
			"simulate the run under other precisions, optimizers, layouts and batches as well; takes several times as long"},
		{"ways", 0, &a.ways,
			"how the training step fits the --gpu or --budget: precisions, optimizers, checkpointed blocks and\n" +
				"several GPUs, each simulated, the cheapest first"},
		{"snapshot", 0, &a.snapshot,
			"write the run to this file as a PyTorch memory snapshot, for pytorch.org/memory_viz and memestimate snapshot"},
		{"stats", 0, &a.stats, "print the figures of torch.cuda.memory_stats after the run"},
		confidenceFlag(&a.sure, "the figure that --budget and --gpu are held against"),
	})
	a.look.flags(fs)
}

// verdict is the error for a run that does not fit what it was held against, nil for one that does. What the run
// was held against cannot be told without a peak.
func verdict(in source, r *estimate.Report, asked bool) error {
	if r.Peak == nil {
		if asked {
			return fail(exitInput, "%s: whether it fits is not known: the run was not simulated", quoteArg(in.arg))
		}
		return nil
	}
	if r.OOM != nil {
		return fail(exitNo, "%s: %s", quoteArg(in.arg), report.OutOfMemory(r))
	}
	for _, f := range r.Fits {
		if !f.Fits {
			return fail(exitNo, "%s: does not fit: %s", quoteArg(in.arg), report.Judgement(&f))
		}
	}
	return nil
}
