package program

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Plan says how a step departs from the plain one. The zero Plan is the plain step.
type Plan struct {
	// only the parameters whose names it matches have requires_grad; "" is all
	TrainOnly string `json:"train_only,omitempty"`
	Freeze    string `json:"freeze,omitempty"` // those that it matches have not
	// modules under torch.utils.checkpoint: their whole names, Blocks, or Blocks and ":8", the first of them
	Checkpoint string `json:"checkpoint,omitempty"`
	LoRA       string `json:"lora,omitempty"` // adapters of low rank, as ParseLoRA takes them

	// what Check refuses, as a recording has it: torch.compile(model), and use_reentrant=True of checkpoints
	Compile   bool `json:"compile,omitempty"`
	Reentrant bool `json:"checkpoint_reentrant,omitempty"`

	// how many train together, each with a batch of its own; below 2 is one alone
	GPUs     int    `json:"gpus,omitempty"`
	Parallel string `json:"parallel,omitempty"`                // how: one of Schemes; "" is DDP
	Bucket   int64  `json:"bucket_cap_bytes,omitempty"`        // DDP's bucket_cap_mb; 0 is its default, 25 MiB
	View     bool   `json:"gradient_as_bucket_view,omitempty"` // DDP's setting of that name
	Static   bool   `json:"static_graph,omitempty"`            // likewise
	// Of FSDP, torch.distributed.fsdp.fully_shard.
	// Shard says which modules it wraps beside the model: as Checkpoint, "" is Blocks, or Whole.
	Shard       string `json:"shard,omitempty"`
	NoReshard   bool   `json:"no_reshard_after_forward,omitempty"` // reshard_after_forward=False
	ParamDType  string `json:"param_dtype,omitempty"`              // of MixedPrecisionPolicy: one of DTypes
	ReduceDType string `json:"reduce_dtype,omitempty"`             // likewise, "" is ParamDType
	MetaDevice  bool   `json:"meta_device,omitempty"`              // the model is made there, no rank ever holds all of it
	Offload     bool   `json:"cpu_offload,omitempty"`              // CPUOffloadPolicy

	NCCL int64 `json:"-"` // what NCCL takes on the device; 0 is what was measured
}

// Schemes are the ways in which several GPUs train together that are simulated.
var Schemes = []string{DDP, ZeRO1, FSDP}

// onlyRecorded are the schemes that a recording answers and a graph does not: DeepSpeed's, parallelize_module, a
// pipeline. They cut a model where the program says, which a graph does not tell.
var onlyRecorded = []string{"zero2", "zero3", "tp", "pp"}

// NamedSchemes are the schemes that users may name: Check says of some that a recording answers them.
var NamedSchemes = slices.Concat(Schemes, onlyRecorded)

// recordIt ends the error about a step that a graph does not answer.
const recordIt = "not simulated from a graph; record the step: python -m memestimate record train.py"

// DTypes are the names of element types.
var DTypes = []string{"fp32", "bf16", "fp16"}

// The schemes.
const (
	DDP   = "ddp"   // DistributedDataParallel
	FSDP  = "fsdp"  // fully_shard, FSDP2
	ZeRO1 = "zero1" // the same with ZeroRedundancyOptimizer
)

// mostGPUs is more than ever trained together: ZeRO's partition keeps a sum for each.
const mostGPUs = 1 << 17

// Blocks stands for the modules of a model that repeat: see Repeated.
const Blocks = "blocks"

// A MatchError says that a plan is about another model: an expression matches nothing in it, or not what it may.
type MatchError struct{ why string }

// Error names the flag, the expression and what the model has.
func (e *MatchError) Error() string { return e.why }

func noMatch(format string, args ...any) error { return &MatchError{fmt.Sprintf(format, args...)} }

// Plain reports whether the program stays as it is.
func (p Plan) Plain() bool {
	return p.TrainOnly == "" && p.Freeze == "" && p.Checkpoint == "" && p.LoRA == "" && p.Parallel != FSDP
}

// Check says whether the regular expressions are such.
func (p Plan) Check() error {
	for _, e := range []struct{ what, expr string }{
		{"train-only", p.TrainOnly}, {"freeze", p.Freeze}, {"checkpoint", p.Checkpoint}, {"shard", p.Shard},
	} {
		if err := CheckPattern(e.expr); err != nil {
			return fmt.Errorf("%s: %.200q is no regular expression: %w", e.what, e.expr, err)
		}
	}
	if _, err := ParseLoRA(p.LoRA); err != nil {
		return err
	}
	if p.LoRA != "" && (p.TrainOnly != "" || p.Freeze != "") {
		return errors.New("lora: it says which parameters train, so train-only and freeze cannot say it too")
	}
	switch {
	case p.Compile:
		return errors.New("compile: a compiled step is " + recordIt)
	case p.Reentrant:
		return errors.New("checkpoint-reentrant: a checkpoint with use_reentrant=True is " + recordIt)
	case slices.Contains(onlyRecorded, p.Parallel):
		return fmt.Errorf("parallel: %s is %s", p.Parallel, recordIt)
	}
	if p.Parallel != "" && !slices.Contains(Schemes, p.Parallel) {
		return fmt.Errorf("parallel: unknown scheme %q, want one of %v", p.Parallel, Schemes)
	}
	if p.GPUs < 0 || p.GPUs > mostGPUs {
		return fmt.Errorf("gpus: %d is not a number of GPUs, want 1 to %d", p.GPUs, mostGPUs)
	}
	if p.GPUs < 2 && (p.Parallel != "" || p.Bucket != 0 || p.View || p.Static) {
		return errors.New("how several GPUs train together is set, and their number is not: at least 2")
	}
	sharding := p.Shard != "" || p.NoReshard || p.ParamDType != "" || p.ReduceDType != "" || p.MetaDevice || p.Offload
	switch {
	case p.Parallel != FSDP && sharding:
		return errors.New("how FSDP shards is set, and parallel is not fsdp")
	case p.Parallel == FSDP && (p.Bucket != 0 || p.View || p.Static):
		return errors.New("DDP's settings are given, and parallel is fsdp, which has none")
	}
	for _, e := range []struct{ what, name string }{{"param-dtype", p.ParamDType}, {"reduce-dtype", p.ReduceDType}} {
		if e.name != "" && !slices.Contains(DTypes, e.name) {
			return fmt.Errorf("%s: unknown type %q, want one of %v", e.what, e.name, DTypes)
		}
	}
	return nil
}

// Apply returns the program of the planned step, prog itself where nothing changes. A regular expression that matches
// nothing is an error, since the answer would be that of another question.
func (p Plan) Apply(prog *Program) (*Program, error) {
	if err := p.Check(); err != nil || p.Plain() {
		return prog, err
	}
	out := *prog
	if l, _ := ParseLoRA(p.LoRA); l.Rank > 0 { // Check has seen it
		if err := l.adapt(&out); err != nil {
			return nil, err
		}
	}
	if p.TrainOnly != "" || p.Freeze != "" {
		if err := p.freeze(&out); err != nil {
			return nil, err
		}
	}
	if p.Checkpoint != "" {
		modules, err := p.checkpointed(&out)
		if err != nil {
			return nil, err
		}
		if out.Checkpoints = spansOf(&out, modules); len(out.Checkpoints) == 0 {
			return nil, noMatch("checkpoint: no call of the graph is known to be in the modules that %q names", p.Checkpoint)
		}
	}
	if p.Checkpoint != "" && p.LoRA != "" {
		requireInputGrads(&out)
	}
	if p.Parallel == FSDP {
		var err error
		if out.Groups, err = p.groups(&out); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// freeze marks the parameters that do not train. The expressions match anywhere in a name, as re.search does.
func (p Plan) freeze(prog *Program) error {
	prog.Values = slices.Clone(prog.Values)
	only, not := regexp.MustCompile(p.TrainOnly), regexp.MustCompile(p.Freeze) // Check has seen them
	matched := [2]int{}
	for _, id := range prog.State {
		v := &prog.Values[id]
		if v.Kind != Parameter {
			continue
		}
		if only.MatchString(v.Name) {
			matched[0]++
		} else {
			v.Frozen = true
		}
		if p.Freeze != "" && not.MatchString(v.Name) {
			matched[1]++
			v.Frozen = true
		}
	}
	for i, e := range []struct{ what, expr string }{{"train-only", p.TrainOnly}, {"freeze", p.Freeze}} {
		if e.expr != "" && matched[i] == 0 {
			return noMatch("%s: %q matches no parameter, the first is %q", e.what, e.expr, firstParameter(prog))
		}
	}
	return nil
}

func firstParameter(prog *Program) string {
	for _, id := range prog.State {
		if v := &prog.Values[id]; v.Kind == Parameter {
			return v.Name
		}
	}
	return ""
}

// checkpointed returns, by scope, which modules are wrapped.
func (p Plan) checkpointed(prog *Program) ([]bool, error) {
	if first, ok := firstBlocks(p.Checkpoint); ok {
		modules := Repeated(prog)
		keepFirst(prog, modules, first)
		if !slices.Contains(modules, true) {
			return nil, noMatch("checkpoint: the graph shows no blocks that repeat: name the modules by a regular expression")
		}
		return modules, nil
	}
	return wrapped(prog, "checkpoint", p.Checkpoint)
}

// firstBlocks reads Blocks, or Blocks and a number: so many of the first.
func firstBlocks(expr string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(expr, Blocks)
	if !ok || rest == "" {
		return math.MaxInt, ok
	}
	number, colon := strings.CutPrefix(rest, ":")
	n, err := strconv.Atoi(number)
	return n, colon && err == nil && n > 0
}

// keepFirst takes the mark from all modules but the first n, in the order of their calls.
func keepFirst(prog *Program, marked []bool, n int) {
	seen := map[int32]bool{}
	for i := range prog.Calls {
		if s := within(prog, prog.Calls[i].Scope, marked); s >= 0 && !seen[s] {
			if seen[s] = true; len(seen) > n {
				marked[s] = false
			}
		}
	}
}

// wrapped marks, by scope, the modules whose whole name an expression matches. A module within another is not
// simulated.
func wrapped(prog *Program, what, expr string) ([]bool, error) {
	whole := regexp.MustCompile(`\A(?:` + expr + `)\z`)
	modules, some := make([]bool, len(prog.Scopes)), ""
	for i := range prog.Scopes {
		if name := prog.Scopes[i].Name; name != "" {
			some, modules[i] = name, whole.MatchString(name)
		}
	}
	if !slices.Contains(modules, true) {
		return nil, noMatch("%s: %q is the whole name of no module, one is %q", what, expr, some)
	}
	for i := range modules {
		if outer := within(prog, prog.Scopes[i].Parent, modules); modules[i] && outer >= 0 {
			return nil, noMatch("%s: %q matches module %q and one within it, and one within another is "+recordIt, what, expr,
				prog.Scopes[outer].Name)
		}
	}
	return modules, nil
}

// within returns the scope among those marked that s is or is in, -1 for none.
func within(prog *Program, s int32, marked []bool) int32 {
	for ; s >= 0; s = prog.Scopes[s].Parent {
		if marked[s] {
			return s
		}
	}
	return -1
}

// spansOf returns the calls that each call of a marked module makes; none of those is within another.
func spansOf(prog *Program, marked []bool) (spans []Span) {
	before := int32(-1) // the module of the call before
	for i := range prog.Calls {
		s := within(prog, prog.Calls[i].Scope, marked)
		switch {
		case s >= 0 && s == before:
			spans[len(spans)-1].Last = int32(i)
		case s >= 0:
			spans = append(spans, Span{First: int32(i), Last: int32(i)})
		}
		before = s
	}
	return spans
}

// Races reports whether what a rank takes depends on when NCCL lets go of DDP's buckets.
func (p Plan) Races() bool { return p.Parallel != FSDP && !p.Static }

// Shrinks reports whether a rank takes less the more there are.
func (p Plan) Shrinks() bool { return p.Parallel != "" && p.Parallel != DDP }

// Alone is the plan on one GPU.
func (p Plan) Alone() Plan {
	p.GPUs, p.Parallel, p.NCCL = 0, "", 0
	p.Bucket, p.View, p.Static = 0, false, false
	p.Shard, p.NoReshard, p.ParamDType, p.ReduceDType, p.MetaDevice, p.Offload = "", false, "", "", false, false
	return p
}
