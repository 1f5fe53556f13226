package estimate

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/torch"
)

// Schema names the JSON form of a Report. Fields may be added to it; none changes its meaning.
const Schema = "memestimate/1"

// A Report is the answer to one question. All sizes are bytes.
type Report struct {
	Schema      string         `json:"schema"`
	Model       ModelInfo      `json:"model"`
	WayIn       module.Way     `json:"way_in"` // how the model came here, which Likely and Safe of the peak depend on
	Settings    Settings       `json:"settings"`
	Parameters  module.Tensors `json:"parameters"`
	Buffers     module.Tensors `json:"buffers"`
	Constants   module.Tensors `json:"constants"` // shapes, axes, scalars: no tensors on the GPU
	Activations Activations    `json:"activations"`
	Gradients   *Size          `json:"gradients,omitempty"`       // of the parameters, when all of them exist
	Optimizer   *Size          `json:"optimizer_state,omitempty"` // after the first step
	Peak        *Peak          `json:"peak,omitempty"`
	GPUs        []OnGPU        `json:"gpus,omitempty"` // of a process that used several; the rest is of the one with the most
	OOM         *OOM           `json:"oom,omitempty"`  // when a limit is set that the run does not survive
	// how often the allocator gives all that it has cached back, to ask again: with a limit that the run does not fit
	Retries int64   `json:"alloc_retries,omitempty"`
	Phases  []Phase `json:"phases,omitempty"`
	Context int64   `json:"context_bytes,omitempty"` // what the process takes beyond the allocator
	NCCL    int64   `json:"nccl_bytes,omitempty"`    // the part of it that several GPUs working together cost
	// NCCL's communicators, of a recording that tells of them
	Communicators []Communicator `json:"communicators,omitempty"`
	Fits          []Fit          `json:"fits,omitempty"`    // one for each size to fit into
	WhatIf        []Variant      `json:"what_if,omitempty"` // the same under other settings, when asked for
	// the same in other ways, the cheapest that fits first, when asked for
	Ways []Way `json:"ways,omitempty"`
	// which blocks to checkpoint for it to fit, when asked for
	Stats map[string]int64 `json:"stats,omitempty"` // torch.cuda.memory_stats after the run, when asked for
	// what the run rests on and the file does not say, the heaviest first
	Guesses []Guess `json:"guesses,omitempty"`
	// what a recorded run hangs on and the recording does not have: the upper bound is none where that is otherwise
	Depends  *Dependence    `json:"depends_on_data,omitempty"`
	Layers   []module.Layer `json:"layers"`
	Coverage Coverage       `json:"coverage"`
	Notes    []Note         `json:"notes"`

	Simulation *Simulation `json:"-"` // the run itself; nil when none was simulated
}

// A ModelInfo says what was estimated.
type ModelInfo struct {
	Name     string           `json:"name"`
	Path     string           `json:"path,omitempty"`
	Graph    string           `json:"graph,omitempty"` // the graph's own name
	IR       int64            `json:"ir_version"`
	Opsets   map[string]int64 `json:"opsets"`
	Producer string           `json:"producer"`
	Nodes    int              `json:"nodes"` // operator calls, subgraphs included
	Inputs   []module.Tensor  `json:"inputs"`
	Outputs  []module.Tensor  `json:"outputs"`
}

// Settings are the options that the answer depends on.
type Settings struct {
	Batch  int64              `json:"batch,omitempty"`
	Dims   map[string]int64   `json:"dims,omitempty"`
	Inputs map[string][]int64 `json:"inputs,omitempty"`

	Mode string `json:"mode,omitempty"` // train or infer
	torch.Settings
	program.Plan
	GPU string `json:"gpu,omitempty"`

	Recorded    bool   `json:"recorded,omitempty"` // PyTorch ran it: the recording says how
	World       int    `json:"-"`                  // processes of the recorded job, which is about one of them; a note has it
	Eagerly     string `json:"-"`                  // why a recorded program that compiles was recorded eagerly; a note has it
	Contracted  bool   `json:"-"`                  // einsum went from left to right: opt_einsum was not there; a note has it
	Ended       bool   `json:"-"`                  // the recorded script was ended before its end; a note has it
	NoBound     string `json:"no_bound,omitempty"` // why a recorded run may take more than at most
	AllocConf   string `json:"alloc_conf,omitempty"`
	MemoryLimit int64  `json:"memory_limit_bytes,omitempty"`
}

// A Size is bytes of some kind of tensors.
type Size struct {
	Bytes int64 `json:"bytes"`
}

// Activations are sums over the layers' outputs, as modelsize_estimate of
// Pytorch-Memory-Utils defines them: outputs that share storage with an input, and
// those of ReLUs that work in place, are left out, and so is the model's input.
type Activations struct {
	Forward      int64 `json:"forward_bytes"`
	WithBackward int64 `json:"with_backward_bytes"`   // twice that: each with its gradient
	Saved        int64 `json:"saved_bytes,omitempty"` // what autograd keeps for backward, of a training step

	// LossSaved is the part of Saved that is in no layer: what the criterion keeps, such as the log-softmax of the
	// output. The layers' SavedBytes and LossSaved add up to Saved.
	LossSaved int64 `json:"loss_saved_bytes,omitempty"`
}

// Coverage says how much of the model was understood.
type Coverage struct {
	Nodes      int         `json:"nodes"`
	Modelled   int         `json:"modelled"`
	Unmodelled []Unmodeled `json:"unmodelled"`
}

// Complete reports whether every operator is modelled. Where it is false, the
// report's sums are lower bounds.
func (c Coverage) Complete() bool { return c.Modelled == c.Nodes }

// Unmodeled is an operator that the tables do not have.
type Unmodeled struct {
	Op     string `json:"op"`
	Domain string `json:"domain"`
	Count  int    `json:"count"`
}

// Levels of a Note.
const (
	Info    = "info"    // how a figure came about
	Warning = "warning" // why a figure may be off
)

// A Note is a remark on the answer, in one line.
type Note struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}
