package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/spelling"
)

// stepFlags are the flags that say how a model is run. They are spelt here, once, for all
// commands that simulate a run.
type stepFlags struct {
	step    estimate.Step
	mode    string
	prompt  int
	foreach bool
	zero    string
	scaler  string
	gpu     string
	limit   limitValue
	bucket  limitValue
	nccl    limitValue
	reshard bool
	profile string
	given   *pflag.FlagSet // the flags, to see which of them were given
}

// trainingOnly are the flags that only a training step has a use for.
var trainingOnly = append([]string{
	"optimizer", "loss", "grad-accum", "clip-grad-norm", "zero-grad", "foreach", "grad-scaler", "drop-output",
}, planNames...)

// generateOnly are the flags that only generating text has a use for.
var generateOnly = []string{"prompt", "kv-cache", "sliding-window", "kv-cache-type"}

// contradiction refuses a setting that would change nothing: one of training for an inference.
func (r *stepFlags) contradiction() error {
	mode := r.given.Lookup("mode")
	modes := []string{mode.Value.String()}
	if l, ok := mode.Value.(*listValue); ok && len(l.given) > 0 {
		modes = l.given
	}
	for _, name := range generateOnly {
		if r.given.Lookup(name).Changed && !slices.Contains(modes, "generate") && r.step.NewTokens == 0 {
			return usagef("--%s is for generating text: --mode generate", name)
		}
	}
	if !mode.Changed || slices.Contains(modes, "train") {
		return nil
	}
	for _, name := range trainingOnly {
		if r.given.Lookup(name).Changed {
			return usagef("--%s is for training, and --mode %s does not train", name, modes[0])
		}
	}
	return nil
}

// precisions are the names that --precision takes.
var precisions = func() (names []string) {
	for _, p := range torch.Precisions {
		names = append(names, string(p))
	}
	return names
}()

func (r *stepFlags) flags(fs *pflag.FlagSet) {
	r.given = fs
	r.mode, r.zero, r.scaler, r.foreach, r.reshard = "train", "none", "auto", true, true
	r.step.Precision, r.step.Optimizer, r.step.Loss = "fp32", "adamw", "auto"
	fs.Var(&oneOf{"mode", &r.mode, []string{"train", "infer", "generate"}}, "mode",
		"a training step, an inference under no_grad, or text by model.generate(): train, infer, generate")
	fs.IntVar(&r.prompt, "prompt", 0, "with --mode generate: the tokens of each sample that are read first")
	fs.IntVar(&r.step.NewTokens, "new-tokens", 0,
		"with --mode generate: so many tokens are made after them, with a cache of keys and values")
	r.step.Cache, r.step.CacheType = "dynamic", "auto"
	fs.Var(&oneOf{"kv-cache", &r.step.Cache, estimate.Caches}, "kv-cache",
		"the cache, as cache_implementation: dynamic, static (not compiled)")
	fs.Int64Var(&r.step.Window, "sliding-window", 0,
		"the cache keeps so many tokens, as a model's sliding_window; 0 keeps all")
	fs.Var(&oneOf{"kv-cache-type", &r.step.CacheType, estimate.CacheTypes}, "kv-cache-type",
		"element type of the cache: auto (that of --precision), fp8")
	fs.Var(&oneOf{"precision", (*string)(&r.step.Precision), precisions}, "precision",
		"element types: "+strings.Join(precisions, ", "))
	fs.Var((*optimizerValue)(&r.step.Optimizer), "optimizer",
		"optimizer of torch.optim: "+strings.Join(plainNames(torch.Optimizers),
			", ")+";\nsome take settings, as in adamw-fused or sgdm-nesterov")
	fs.Var(&oneOf{"loss", &r.step.Loss, torch.Losses}, "loss",
		"criterion: "+strings.Join(torch.Losses,
			", ")+";\nauto is cross entropy where the output is class scores, else the mean")
	fs.BoolVar(&r.step.ChannelsLast, "channels-last", false, "model and input in memory format torch.channels_last")
	fs.Var((*countValue)(&r.step.Accumulate), "grad-accum", "backward passes for each optimizer step")
	fs.BoolVar(&r.step.ClipNorm, "clip-grad-norm", false, "torch.nn.utils.clip_grad_norm_ before each optimizer step")
	fs.Var(&oneOf{"zero-grad", &r.zero, []string{"none", "zeros"}}, "zero-grad",
		"what zero_grad leaves of gradients: none, zeros (set_to_none=False)")
	fs.BoolVar(&r.foreach, "foreach", true,
		"the optimizer works on lists of parameters, as PyTorch does on CUDA; false is its for-loop")
	fs.Var(&oneOf{"grad-scaler", &r.scaler, []string{"auto", "on", "off"}}, "grad-scaler",
		"torch.amp.GradScaler: on, off, auto (with --precision amp-fp16)")
	fs.BoolVar(&r.step.DropOutput, "drop-output", false,
		"the program keeps no variable of the model's output, as in criterion(model(x), y).backward()")
	fs.BoolVar(&r.step.Benchmark, "cudnn-benchmark", false,
		"torch.backends.cudnn.benchmark: cuDNN searches for the fastest engine of each convolution")
	r.planFlags(fs)
	fs.Var((*confValue)(&r.step.AllocConf), "alloc-conf", "settings of the allocator, as PYTORCH_CUDA_ALLOC_CONF")
	fs.Var(&r.limit, "memory-limit",
		"the most that the allocator may reserve, as set_per_process_memory_fraction: does the run survive?")
	fs.Var((*gpuValue)(&r.gpu), "gpu",
		`the GPU to run on: a known one such as a100-80gb, or "auto" for the one of this machine`)
	fs.StringVar(&r.profile, "profile", "", "a profile that compare --calibrate wrote: context and workspaces as measured")
}

// completeNames offers the names that a command's flags take.
func completeNames(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var names []string
		switch v := f.Value.(type) {
		case *oneOf:
			names = v.names
		case *optimizerValue:
			names = torch.Optimizers
		case *gpuValue:
			names = gpuNames()
		default:
			return
		}
		// That a flag has completions already is the only error, and no harm.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	})
}

// mostTokens is more than any model reads.
const mostTokens = 1 << 24

// asked returns the step that the flags describe. Only --gpu auto looks at this machine.
func (r *stepFlags) asked(e *env) (*estimate.Step, error) {
	s := r.step
	s.Infer = r.mode != "train"
	s.ZeroGrads, s.ForLoop = r.zero == "zeros", !r.foreach
	s.Scaler = r.scaler == "on" || r.scaler == "auto" && s.Precision == torch.AMPFP16
	s.MemoryLimit = int64(r.limit)
	s.NoReshard = !r.reshard
	switch {
	case s.NewTokens < 0 || s.NewTokens > estimate.MostNewTokens:
		return nil, usagef("--new-tokens %d is not a number of tokens, want 1 to %d", s.NewTokens, estimate.MostNewTokens)
	case r.prompt < 0 || r.prompt > mostTokens || r.prompt == 0 && r.given.Lookup("prompt").Changed:
		return nil, usagef("--prompt %d is not a number of tokens, want 1 to %d", r.prompt, mostTokens)
	case s.Window < 0 || s.Window > mostTokens || s.Window == 1:
		return nil, usagef("--sliding-window %d is not a number of tokens, want 2 to %d", s.Window, mostTokens)
	case r.mode == "generate" && s.NewTokens == 0:
		return nil, usagef("--mode generate needs --new-tokens N")
	case s.NewTokens > 0 && !s.Infer:
		return nil, usagef("--new-tokens is for generating text: --mode generate")
	}
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
	if r.profile != "" {
		p, err := readProfile(r.profile)
		if err != nil {
			return nil, err
		}
		s.Profile = p.step()
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

// plainNames leaves out the names that are another one with a setting, which has a hyphen.
func plainNames(names []string) (out []string) {
	for _, n := range names {
		base, _, ok := strings.Cut(n, "-")
		if !ok || !slices.Contains(names, base) {
			out = append(out, n)
		}
	}
	return out
}

// A oneOf is a flag that takes one of some names, or other words for them: those of a setting with this key.
type oneOf struct {
	key   string
	value *string
	names []string
}

func (v *oneOf) String() string { return *v.value }
func (v *oneOf) Type() string   { return "NAME" }
func (v *oneOf) Set(s string) error {
	name, err := spelling.Value(v.key, s)
	if err != nil {
		return err
	}
	if !slices.Contains(v.names, name) {
		return unknownName(s, v.names)
	}
	*v.value = name
	return nil
}

type optimizerValue string

func (v *optimizerValue) String() string { return string(*v) }
func (v *optimizerValue) Type() string   { return "NAME" }
func (v *optimizerValue) Set(typed string) error {
	s, err := spelling.Optimizer(typed)
	if err != nil {
		return err
	}
	if s == "" || torch.CheckOptimizer(s) != nil {
		if base, _, _ := strings.Cut(s, "-"); slices.Contains(torch.Optimizers, base) && base != s {
			return torch.CheckOptimizer(s)
		}
		return unknownName(s, plainNames(torch.Optimizers))
	}
	*v = optimizerValue(s)
	return nil
}

type confValue string

func (v *confValue) String() string { return string(*v) }
func (v *confValue) Type() string   { return "CONF" }
func (v *confValue) Set(s string) error {
	if _, err := caching.ParseOptions(s); err != nil {
		return err
	}
	*v = confValue(s)
	return nil
}

type gpuValue string

func (v *gpuValue) String() string { return string(*v) }
func (v *gpuValue) Type() string   { return "NAME" }
func (v *gpuValue) Set(s string) error {
	if strings.EqualFold(s, "auto") {
		*v = "auto"
		return nil
	}
	g, err := gpu.Find(s)
	var meant *spelling.Error
	if errors.As(err, &meant) { // several
		return err
	}
	if err != nil || s == "" {
		return unknownGPU(s)
	}
	*v = gpuValue(g.ID)
	return nil
}

// unknownGPU says which GPUs there are. The memory of one that is not known is enough to ask whether a run fits.
func unknownGPU(typed string) error {
	err := unknownName(typed, gpuNames())
	if n, ok := errors.AsType[*nameError](err); ok && n.Hint() == "" {
		n.other = "its memory is enough, as in --budget 11GiB; memestimate gpus lists the known ones"
	}
	return err
}

// gpuNames are the names that --gpu takes.
func gpuNames() []string {
	names := []string{"auto"}
	for _, g := range gpu.Known() {
		names = append(names, g.ID)
	}
	return names
}

// A countValue is a whole number from 1.
type countValue int

func (v *countValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.Itoa(int(*v))
}
func (v *countValue) Type() string { return "N" }
func (v *countValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 1024 {
		return fmt.Errorf("%q is not a number of passes, want 1 to 1024", s)
	}
	*v = countValue(n)
	return nil
}

// questions are the flags of the main command alone: what else to answer.
type questions struct {
	budget limitValue
	sure   confidenceFlag
	whatIf bool
	ways   bool
	blocks bool
	stats  bool

	snapshot string // where to write the run
	record   bool   // keep the allocator's trace
	compared bool   // it is compared, event by event

	look  look
	short bool      // the answer is for a terminal
	drawn bool      // it is a page
	weigh bool      // it shows what the run guesses, each weighed by another run
	shown screenful // what is on either beside the report
}

func (a *questions) flags(fs *pflag.FlagSet) {
	fs.Var(&a.budget, "budget", "fail, with exit code 1, when the run takes more memory on the device than this")
	a.sure.flags(fs, "the figure that --budget, --gpu and --auto-device are held against")
	fs.BoolVar(&a.whatIf, "what-if", false,
		"simulate the run under other precisions, optimizers, layouts and batches as well; takes several times as long")
	fs.BoolVar(&a.ways, "ways", false,
		"how the training step fits the --gpu or --budget: precisions, optimizers, checkpointed blocks and\n"+
			"several GPUs, each simulated, the cheapest first")
	fs.BoolVar(&a.blocks, "fit-checkpoint", false,
		"the cheapest set of repeated blocks to checkpoint for the step to fit the --gpu or --budget")
	fs.StringVar(&a.snapshot, "snapshot", "",
		"write the run to this file as a PyTorch memory snapshot, for pytorch.org/memory_viz and memestimate snapshot")
	fs.BoolVar(&a.stats, "stats", false, "print the figures of torch.cuda.memory_stats after the run")
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
