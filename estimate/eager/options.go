package eager

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// A Precision is the element types that a run computes in.
type Precision uint8

// The precisions: parameters and inputs in one type, or float32 parameters under autocast.
const (
	FP32 Precision = iota
	AMPBF16
	AMPFP16
	BF16
	FP16
)

var precisionNames = []string{"fp32", "amp-bf16", "amp-fp16", "bf16", "fp16"}

// String returns the precision's name: "fp32", "amp-bf16", ...
func (p Precision) String() string { return precisionNames[p] }

// ParsePrecision returns the precision of that name.
func ParsePrecision(s string) (Precision, error) {
	i := slices.Index(precisionNames, s)
	if i < 0 {
		return 0, fmt.Errorf("unknown precision %q, want one of %s", s, strings.Join(precisionNames, ", "))
	}
	return Precision(i), nil
}

// params returns the element type of float parameters and inputs.
func (p Precision) params() onnxload.DType {
	switch p {
	case BF16:
		return onnxload.BFloat16
	case FP16:
		return onnxload.Float16
	}
	return onnxload.Float32
}

// autocast returns the element type of the autocast region, Undefined without one.
func (p Precision) autocast() onnxload.DType {
	switch p {
	case AMPBF16:
		return onnxload.BFloat16
	case AMPFP16:
		return onnxload.Float16
	}
	return onnxload.Undefined
}

// Options say how a program is run. The zero value is an inference in float32 on the default GPU.
type Options struct {
	Train        bool
	Steps        int // training steps or inferences to run; 0 is 3 in training, 2 in inference
	Precision    Precision
	Optimizer    string // "" is adamw
	Loss         string // "" is auto: see Losses
	ChannelsLast bool
	Accumulate   int  // backward passes a step; 0 is 1
	ClipNorm     bool // torch.nn.utils.clip_grad_norm_ before the step
	ZeroGrads    bool // zero_grad(set_to_none=False)
	ForLoop      bool // optimizers with foreach=False
	Scaler       bool // torch.amp.GradScaler
	DropOutput   bool // no Python variable keeps the output: criterion(model(x), labels).backward()
	EveryStep    bool // simulate every training step, be it known to repeat the one before: the same Run, in more time
	GPU          *GPU // nil is DefaultGPU

	Full func(timeline.Part) // reads along: see timeline.Log; nil is nobody
}

// A GPU is what of a device decides the allocations.
type GPU struct {
	Name          string
	SMs           int   // streaming multiprocessors
	ThreadsPerSM  int   // resident threads of one
	BLASWorkspace int64 // bytes that cuBLAS keeps for each thread that uses it
	LtWorkspace   int64 // likewise cublasLt
}

// DefaultGPU is the H200, on which the rules were measured.
var DefaultGPU = GPU{Name: "NVIDIA H200", SMs: 132, ThreadsPerSM: 2048, BLASWorkspace: 32 << 20, LtWorkspace: 1 << 20}

// CheckOptimizer says whether Options.Optimizer takes a name.
func CheckOptimizer(name string) error {
	r := run{opts: &Options{Optimizer: name}}
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
