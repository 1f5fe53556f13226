package torch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Precision is the element types that a run computes in: parameters and inputs in one type, or float32 parameters
// under autocast. "" is FP32.
type Precision string

// The precisions.
const (
	FP32    Precision = "fp32"
	AMPBF16 Precision = "amp-bf16"
	AMPFP16 Precision = "amp-fp16"
	BF16    Precision = "bf16"
	FP16    Precision = "fp16"
)

// Precisions are all of them.
var Precisions = []Precision{FP32, AMPBF16, AMPFP16, BF16, FP16}

// params returns the element type of float parameters and inputs.
func (p Precision) params() program.DType {
	switch p {
	case BF16:
		return program.BFloat16
	case FP16:
		return program.Float16
	}
	return program.Float32
}

// Float returns the element type that layers give their results.
func (p Precision) Float() program.DType {
	if d := p.autocast(); d != program.Undefined {
		return d
	}
	return p.params()
}

// autocast returns the element type of the autocast region, Undefined without one.
func (p Precision) autocast() program.DType {
	switch p {
	case AMPBF16:
		return program.BFloat16
	case AMPFP16:
		return program.Float16
	}
	return program.Undefined
}

// Settings say what a step computes in, with what and how, in the words of the command line and of JSON. The zero
// Settings are a step in float32 with AdamW.
type Settings struct {
	Precision    Precision `json:"precision,omitempty"`
	Optimizer    string    `json:"optimizer,omitempty"` // "" is adamw: see Optimizers
	Loss         string    `json:"loss,omitempty"`      // the criterion; "" is auto: see Losses
	ChannelsLast bool      `json:"channels_last,omitempty"`
	Accumulate   int       `json:"grad_accum,omitempty"`      // backward passes a step; 0 is 1
	ClipNorm     bool      `json:"clip_grad_norm,omitempty"`  // torch.nn.utils.clip_grad_norm_ before the step
	ZeroGrads    bool      `json:"zero_grad_zeros,omitempty"` // zero_grad(set_to_none=False)
	ForLoop      bool      `json:"for_loop,omitempty"`        // optimizers with foreach=False
	Scaler       bool      `json:"grad_scaler,omitempty"`     // torch.amp.GradScaler
	// no Python variable keeps the output: criterion(model(x), labels).backward()
	DropOutput bool `json:"drop_output,omitempty"`
	Benchmark  bool `json:"cudnn_benchmark,omitempty"` // torch.backends.cudnn.benchmark
}

// Check says whether the names that Settings hold are known.
func (s Settings) Check() error {
	if s.Precision != "" && !slices.Contains(Precisions, s.Precision) {
		names := make([]string, len(Precisions))
		for i, p := range Precisions {
			names[i] = string(p)
		}
		return fmt.Errorf("unknown precision %q, want one of %s", s.Precision, strings.Join(names, ", "))
	}
	return cmp.Or(CheckOptimizer(s.Optimizer), CheckLoss(s.Loss))
}

// Autocast reports whether a run is under torch.autocast.
func (s Settings) Autocast() bool { return s.Precision.autocast() != program.Undefined }

// Options say how a program is run. The zero value is an inference in float32 on the default device.
type Options struct {
	Settings
	Train     bool
	Steps     int  // training steps or inferences to run; 0 is 3 in training, 2 in inference
	EveryStep bool // simulate every training step, be it known to repeat the one before: the same Run, in more time
	Replicas  Replicas
	Shards    Shards
	Tensors   bool        // keep what each block is for: Run.Tensor
	GPU       *gpu.Device // nil is the default one
	Known     Known       // of an earlier run on the same device
	// of a run of the same program under the same Options, but for how long Python's variables live: see Run.Same
	Like *timeline.Log
	// memory that an earlier run is through with, which this one takes and leaves to the next; two at a time need two
	Spare *Spare
	// its requests alone are asked for: what Run says of Saved and Workspaces is left out, and its Log is good until
	// the next run with that Spare
	Brief bool

	Full func(timeline.Part) // reads along: see timeline.Log; nil is nobody
}

// CheckOptimizer says whether Options.Optimizer takes a name.
func CheckOptimizer(name string) error {
	r := run{opts: &Options{Settings: Settings{Optimizer: name}}}
	_, err := r.newOptimizer(nil)
	return err
}

// CheckLoss says whether Options.Loss takes a name.
func CheckLoss(name string) error {
	if name == "" || slices.Contains(Losses, name) {
		return nil
	}
	return fmt.Errorf("unknown loss %q, want one of %s", name, strings.Join(Losses, ", "))
}
