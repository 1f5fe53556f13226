package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
)

// A scope says which runs a flag is for.
type scope int

const (
	training    scope = 1 << iota // a training step alone
	inRecording                   // not of a recording, in which the step has run with its own
	typedOnly                     // none of a budget file, whose settings say what a step does, not where it runs
)

// A flagRow is one flag of a table. Its default is what the value holds.
type flagRow struct {
	name  string // with its one letter, if it has one: "batch b"
	scope scope
	value any // pflag.Value, or a pointer to one of the types of addFlags
	usage string
}

// addFlags adds the flags of a table.
func addFlags(fs *pflag.FlagSet, rows []flagRow) {
	for _, r := range rows {
		name, short, _ := strings.Cut(r.name, " ")
		switch v := r.value.(type) {
		case pflag.Value:
			fs.VarP(v, name, short, r.usage)
		case *bool:
			fs.BoolVarP(v, name, short, *v, r.usage)
		case *int:
			fs.IntVarP(v, name, short, *v, r.usage)
		case *float64:
			fs.Float64VarP(v, name, short, *v, r.usage)
		case *string:
			fs.StringVarP(v, name, short, *v, r.usage)
		case *[]string:
			fs.StringArrayVarP(v, name, short, *v, r.usage)
		case *time.Duration:
			fs.DurationVarP(v, name, short, *v, r.usage)
		default:
			panic(fmt.Sprintf("--%s: no flag holds a %T", name, v))
		}
	}
}

// settingNames are the settings of a budget file.
func settingNames() []string {
	rows := (&settings{}).rows()
	typed := flagsOf(typedOnly, rows)
	return slices.DeleteFunc(flagsOf(0, rows), func(name string) bool { return slices.Contains(typed, name) })
}

// flagsOf returns the names of a table's flags that have a scope.
func flagsOf(of scope, rows []flagRow) (names []string) {
	for _, r := range rows {
		if r.scope&of == of {
			name, _, _ := strings.Cut(r.name, " ")
			names = append(names, name)
		}
	}
	return names
}

// Settings are the flags that describe a model and its use. All commands that take a MODEL have them.
type settings struct {
	batch  int64
	dims   map[string]int64
	inputs map[string][]int64
	assume map[string]bool // guesses that are not made
	strict bool
	finds  bool      // the command finds the batch itself
	typed  *settings // those on the command line, where these are a part of them; nil where they are all
	run    stepFlags
}

// rows are all flags about a model, in the order of help.
func (s *settings) rows() []flagRow {
	return append(append(s.modelRows(), s.run.rows()...), s.run.parallelRows()...)
}

func (s *settings) flags(fs *pflag.FlagSet) {
	s.run.defaults(fs)
	addFlags(fs, s.rows())
}

// options returns the settings as the library takes them.
func (s *settings) options(in source) estimate.Options {
	return estimate.Options{Name: in.name, BuiltIn: in.builtIn(), Batch: s.batch, Dims: s.dims, Inputs: s.inputs,
		Strict: s.strict, Without: slices.Sorted(maps.Keys(s.assume))}
}

// modelRows are the flags about a model that hold however it is run.
func (s *settings) modelRows() []flagRow {
	return []flagRow{
		{"batch b", inRecording, batchFlag(&s.batch),
			"size of the batch: the inputs' leading symbolic dimension, whatever its name"},
		{"dim", inRecording, dimsFlag(&s.dims), "size of a symbolic dimension, as NAME=N; may be given again"},
		{"input", inRecording, inputsFlag(&s.inputs), "shape of an input, as NAME=8x3x224x224; may be given again"},
		{"assume", inRecording | typedOnly, assumeFlag(&s.assume),
			"switch off a guess that the report lists, as NAME=no; may be given again"},
		{"strict", typedOnly, &s.strict, "fail when an operator is not modelled, rather than answer with a lower bound"},
	}
}

// rows are the flags about a run on one GPU.
func (r *stepFlags) rows() []flagRow {
	s, p := &r.step, &r.step.Plan
	return []flagRow{
		{"precision", inRecording, oneOf("precision", (*string)(&s.Precision), precisions),
			"element types: " + strings.Join(precisions, ", ")},
		{"optimizer", training | inRecording, optimizerFlag(&s.Optimizer),
			"optimizer of torch.optim: " + strings.Join(plainNames(torch.Optimizers), ", ") +
				";\nsome take settings, as in adamw-fused or sgdm-nesterov"},
		{"mode", inRecording, oneOf("mode", &r.mode, []string{"train", "infer"}),
			"a training step, or an inference under no_grad: train, infer"},
		{"loss", training | inRecording, oneOf("loss", &s.Loss, torch.Losses),
			"criterion: " + strings.Join(torch.Losses, ", ") +
				";\nauto is cross entropy where the output is class scores, else the mean"},
		{"channels-last", inRecording, &s.ChannelsLast, "model and input in memory format torch.channels_last"},
		{"grad-accum", training | inRecording, countFlag(&s.Accumulate), "backward passes for each optimizer step"},
		{"clip-grad-norm", training | inRecording, &s.ClipNorm, "torch.nn.utils.clip_grad_norm_ before each optimizer step"},
		{"zero-grad", training | inRecording, oneOf("zero-grad", &r.zero, []string{"none", "zeros"}),
			"what zero_grad leaves of gradients: none, zeros (set_to_none=False)"},
		{"foreach", training | inRecording, &r.foreach,
			"the optimizer works on lists of parameters, as PyTorch does on CUDA; false is its for-loop"},
		{"grad-scaler", training | inRecording, oneOf("grad-scaler", &r.scaler, []string{"auto", "on", "off"}),
			"torch.amp.GradScaler: on, off, auto (with --precision amp-fp16)"},
		{"drop-output", training | inRecording, &s.DropOutput,
			"the program keeps no variable of the model's output, as in criterion(model(x), y).backward()"},
		{"cudnn-benchmark", inRecording, &s.Benchmark,
			"torch.backends.cudnn.benchmark: cuDNN searches for the fastest engine of each convolution"},
		{"alloc-conf", 0, confFlag(&s.AllocConf), "settings of the allocator, as PYTORCH_CUDA_ALLOC_CONF"},
		{"train-only", training | inRecording, patternFlag(&p.TrainOnly),
			"train only the parameters whose names this matches anywhere, as requires_grad_ says"},
		{"freeze", training | inRecording, patternFlag(&p.Freeze),
			"do not train the parameters whose names this matches anywhere"},
		{"lora", training | inRecording, loraFlag(&p.LoRA),
			"adapters as peft's LoraConfig makes them, the rest frozen: r=16,targets='q_proj|v_proj'\n" +
				"with dropout=, bias=none|all|lora_only, alpha="},
		{"checkpoint", training | inRecording, patternFlag(&p.Checkpoint),
			"torch.utils.checkpoint around the modules whose whole name this\n" +
				"matches, or around the model's repeated blocks: blocks, or blocks:8 for the first of them"},
		{"checkpoint-reentrant", training | inRecording, &p.Reentrant,
			"torch.utils.checkpoint with use_reentrant=True: recordings have it, an ONNX graph does not"},
		{"compile", training | inRecording, &p.Compile, "torch.compile(model): recordings have it, an ONNX graph does not"},
		{"gpu", 0, gpuFlag(&r.gpu),
			`the GPU to run on: a known one such as a100-80gb, or "auto" for the one of this machine`},
		{"memory-limit", typedOnly, limitFlag(&r.limit),
			"the most that the allocator may reserve, as set_per_process_memory_fraction: does the run survive?"},
	}
}

// parallelRows are the flags about several GPUs that train together.
func (r *stepFlags) parallelRows() []flagRow {
	const use = training | inRecording
	p := &r.step.Plan
	return []flagRow{
		{"gpus", use, &p.GPUs,
			"how many GPUs train together: the answer is for one of them, rank 0, and --batch is its own"},
		{"parallel", use, oneOf("parallel", &p.Parallel, program.NamedSchemes),
			"how they do: ddp (DistributedDataParallel), zero1 (with ZeroRedundancyOptimizer), fsdp (fully_shard, FSDP2);\n" +
				"recordings have zero2, zero3 (DeepSpeed), tp (parallelize_module) and pp (a pipeline), an ONNX graph does not"},
		{"bucket-cap", use | typedOnly, limitFlag(&r.bucket), "DDP's bucket_cap_mb as a size such as 100MiB"},
		{"gradient-as-bucket-view", use, &p.View, "DDP's setting of that name"},
		{"static-graph", use, &p.Static, "DDP's static_graph"},
		{"nccl", training | typedOnly, limitFlag(&r.nccl),
			"what NCCL takes on the device, in place of 842 MiB, which was measured on two H200s, or of what a recording's\n" +
				"communicators take there"},
		{"shard", use, patternFlag(&p.Shard),
			"fully_shard around the modules whose whole name this matches, or around the model's repeated\n" +
				"blocks: blocks (default where there are some), or around the model alone: none"},
		{"reshard-after-forward", use, &r.reshard, "fully_shard's setting of that name"},
		{"param-dtype", use, oneOf("param-dtype", &p.ParamDType, program.DTypes),
			"FSDP2's MixedPrecisionPolicy, param_dtype: bf16, ..."},
		{"reduce-dtype", use, oneOf("reduce-dtype", &p.ReduceDType, program.DTypes),
			"its reduce_dtype; that of --param-dtype where it is left out"},
		{"meta-device", use, &p.MetaDevice,
			"the model is made on the meta device and sharded there, so that no GPU ever holds all of it"},
		{"cpu-offload", use, &p.Offload,
			"FSDP2's CPUOffloadPolicy: shards, gradients and the optimizer are on the CPU"},
	}
}
