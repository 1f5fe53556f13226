// Package estimate tells how much memory a model takes, from its ONNX graph alone: Options in, a Report out.
//
// Run answers one question: parameters, activations, and, where Options.Step asks for it, the peak of the training or
// inference step that it simulates. Who asks several things of one model has Bind infer its shapes once and simulates
// the Model as often as needed; Largest and Ways search that way for what fits a GPU. Recorded answers the
// same of a step that PyTorch itself ran on fake tensors.
//
// What is not modelled is listed in Report.Coverage and Report.Notes, and the sums are then lower bounds. All sizes are
// bytes.
package estimate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// Options is the question. The zero Options asks about the model as it is, which
// is enough where all its dimensions are numbers.
type Options struct {
	Name    string             // how the report calls the model
	Batch   int64              // size of the inputs' leading symbolic dimension; 0 leaves it
	Dims    map[string]int64   // sizes of symbols, by name
	Inputs  map[string][]int64 // shapes of inputs, by name
	Without []string           // guesses that are switched off: by the names of their rows
	BuiltIn bool               // the model is built in, so that runs of this very model were measured
	Weigh   bool               // list the guesses that the run rests on, and weigh the heaviest
	Strict  bool               // refuse a model that is not understood in full
	Step    *Step              // the run to simulate; nil for none
}

// ErrIncomplete is wrapped by the error about a model with operators that are not
// modelled, when Options.Strict asks for it.
var ErrIncomplete = errors.New("not every operator is modelled")

// An UnboundError says which dimensions have no size.
type UnboundError struct {
	Dims []shape.Unbound
}

// Error lists the dimensions by the names and inputs that the file gives them, quoted.
func (e *UnboundError) Error() string {
	const maxNamed = 20 // a file may have thousands
	var parts []string
	for i, d := range e.Dims {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more", len(e.Dims)-maxNamed))
			break
		}
		switch {
		case d.Dim < 0:
			parts = append(parts, fmt.Sprintf("the shape of input %q", d.Inputs[0]))
		case d.Name == "":
			parts = append(parts, fmt.Sprintf("dimension %d of input %q", d.Dim, d.Inputs[0]))
		default:
			parts = append(parts, fmt.Sprintf("%q of input %q", d.Name, d.Inputs[0]))
		}
	}
	return "no size is given for " + strings.Join(parts, ", ")
}

// Run answers a question about m. Errors are *UnboundError, those of shape.Infer, and sizes
// that do not fit 64 bits.
func Run(m *onnxload.Model, opt Options) (*Report, error) {
	b, err := Bind(m, opt)
	if err != nil {
		return nil, err
	}
	return b.Report(opt)
}

// Report answers the question about a model that is bound already; its dimensions stay as Bind took them.
func (b *Model) Report(opt Options) (*Report, error) {
	r, err := b.Simulated(opt)
	if err != nil {
		return nil, err
	}
	if err := b.AddLayers(r); err != nil {
		return nil, err
	}
	return r, nil
}

// Simulated is Report without what AddLayers adds: for who simulates the model under other settings before it asks for
// the layers. Those of a large model take as much memory as a run does, and so they are made after the last one.
func (b *Model) Simulated(opt Options) (*Report, error) {
	a, ws, m, types := b.analysis, b.ownWeights(), b.analysis.Model, b.analysis.Types
	r := &Report{
		Schema:   Schema,
		WayIn:    b.way,
		Settings: Settings{Batch: opt.Batch, Dims: opt.Dims, Inputs: opt.Inputs},
		Model: ModelInfo{
			Name:     opt.Name,
			Path:     m.Path,
			Graph:    m.Graph.Name,
			IR:       m.IRVersion,
			Opsets:   m.Opsets,
			Producer: strings.TrimSpace(m.Producer + " " + m.ProducerVersion),
			Nodes:    a.Nodes,
			Inputs:   a.TensorsOf(m.Graph.Inputs),
			Outputs:  a.TensorsOf(m.Graph.Outputs),
		},
		Coverage: coverage(a.Nodes, types.Unknown),
		Notes:    []Note{}, // an empty list in JSON, not null
	}
	if opt.Strict && !r.Coverage.Complete() {
		u := r.Coverage.Unmodelled[0]
		return nil, fmt.Errorf("%w: %d of %d nodes are not, the first operator is %q of domain %q", ErrIncomplete,
			r.Coverage.Nodes-r.Coverage.Modelled, r.Coverage.Nodes, u.Op, u.Domain)
	}
	var err error
	r.Constants = b.constants
	for _, w := range ws {
		if w.Role != module.RoleBuffer {
			err = errors.Join(err, r.Parameters.Add(w.Count, w.Bytes))
		}
		if w.Role != module.RoleParameter {
			err = errors.Join(err, r.Buffers.Add(w.Count, w.Bytes))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", module.ErrTooBig)
	}
	counters := a.BatchNormCounters(ws)
	r.Buffers.Count += counters
	r.Buffers.Bytes += 8 * counters // int64
	r.Buffers.Tensors += counters
	run, err := b.layersAndRun(r, opt.Step)
	if err != nil {
		return nil, err
	}
	if run != nil {
		if err := b.addStep(r, run, opt); err != nil {
			return nil, err
		}
	}
	r.Notes = append(r.Notes, notes(a, ws, counters, r)...)
	return r, nil
}

// names lists the operators that are not modelled, ten at most.
func (c Coverage) names() string {
	const shown = 10
	var names []string
	for _, u := range c.Unmodelled[:min(len(c.Unmodelled), shown)] {
		name := u.Op
		if u.Domain != "" {
			name = u.Domain + "::" + name
		}
		names = append(names, fmt.Sprintf("%.100q", name))
	}
	if more := len(c.Unmodelled) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func coverage(nodes int, unknown []shape.UnknownOp) Coverage {
	c := Coverage{Nodes: nodes, Modelled: nodes, Unmodelled: []Unmodeled{}}
	for _, u := range unknown {
		c.Modelled -= u.Nodes
		c.Unmodelled = append(c.Unmodelled, Unmodeled{u.Op, u.Domain, u.Nodes})
	}
	return c
}
