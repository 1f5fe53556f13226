package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate/program/parallel"
)

// planNames are the flags that say how a training step departs from the plain one.
var planNames = []string{
	"train-only", "freeze", "lora", "checkpoint", "checkpoint-reentrant", "compile", "gpus", "parallel",
	"bucket-cap", "gradient-as-bucket-view", "nccl", "static-graph", "cpu-offload",
	"shard", "reshard-after-forward", "param-dtype", "reduce-dtype", "meta-device",
}

// planFlags adds them.
func (r *stepFlags) planFlags(fs *pflag.FlagSet) {
	p := &r.step.Plan
	fs.Var((*patternValue)(&p.TrainOnly), "train-only",
		"train only the parameters whose names this matches anywhere, as requires_grad_ says")
	fs.Var((*patternValue)(&p.Freeze), "freeze", "do not train the parameters whose names this matches anywhere")
	fs.Var((*loraValue)(&p.LoRA), "lora",
		"adapters as peft's LoraConfig makes them, the rest frozen: r=16,targets='q_proj|v_proj'\n"+
			"with dropout=, bias=none|all|lora_only, alpha=, base=nf4|int8 (QLoRA)")
	fs.Var((*patternValue)(&p.Checkpoint), "checkpoint",
		"torch.utils.checkpoint around the modules whose whole name this\n"+
			"matches, or around the model's repeated blocks: blocks, or blocks:8 for the first of them")
	fs.BoolVar(&p.Reentrant, "checkpoint-reentrant", false, "of torch.utils.checkpoint: use_reentrant=True")
	fs.BoolVar(&p.Compile, "compile", false, "torch.compile(model): recordings have it, an ONNX graph does not")
	fs.IntVar(&p.GPUs, "gpus", 0,
		"how many GPUs train together: the answer is for one of them, rank 0, and --batch is its own")
	fs.Var(&oneOf{"parallel", &p.Parallel, parallel.NamedSchemes}, "parallel",
		"how they do: ddp (DistributedDataParallel), zero1 (with ZeroRedundancyOptimizer), fsdp (fully_shard, FSDP2);\n"+
			"recordings have zero2, zero3 (DeepSpeed), tp (parallelize_module) and pp (a pipeline), an ONNX graph does not")
	fs.Var(&r.bucket, "bucket-cap", "DDP's bucket_cap_mb as a size such as 100MiB")
	fs.BoolVar(&p.View, "gradient-as-bucket-view", false, "DDP's setting of that name")
	fs.BoolVar(&p.Static, "static-graph", false, "DDP's static_graph")
	fs.Var((*patternValue)(&p.Shard), "shard",
		"fully_shard around the modules whose whole name this matches, or around the model's repeated\n"+
			"blocks: blocks (default where there are some), or around the model alone: none")
	fs.BoolVar(&r.reshard, "reshard-after-forward", true, "fully_shard's setting of that name")
	fs.Var(&oneOf{"param-dtype", &p.ParamDType, parallel.DTypes}, "param-dtype",
		"of FSDP2's MixedPrecisionPolicy: bf16, ...")
	fs.Var(&oneOf{"reduce-dtype", &p.ReduceDType, parallel.DTypes}, "reduce-dtype",
		"likewise; what --param-dtype says where it is left out")
	fs.BoolVar(&p.MetaDevice, "meta-device", false,
		"the model is made on the meta device and sharded there, so that no GPU ever holds all of it")
	fs.BoolVar(&p.Offload, "cpu-offload", false,
		"FSDP2's CPUOffloadPolicy: shards, gradients and the optimizer are on the CPU")
	fs.Var(&r.nccl, "nccl", "what NCCL takes on the device, where 842 MiB, measured on two H200s, is not it")
}

// A patternValue is a regular expression.
type patternValue string

func (v *patternValue) String() string { return string(*v) }
func (v *patternValue) Type() string   { return "REGEX" }
func (v *patternValue) Set(s string) error {
	if s == "" {
		return errors.New("an empty regular expression matches everything, want one that says what")
	}
	if err := parallel.CheckPattern(s); err != nil {
		return err
	}
	*v = patternValue(s)
	return nil
}

// A loraValue is the settings of LoRA.
type loraValue string

func (v *loraValue) String() string { return string(*v) }
func (v *loraValue) Type() string   { return "SETTINGS" }
func (v *loraValue) Set(s string) error {
	if s == "" {
		return errors.New("no settings, want some such as r=16,targets='q_proj|v_proj'")
	}
	if _, err := parallel.ParseLoRA(s); err != nil {
		return err
	}
	*v = loraValue(s)
	return nil
}
