package estimate

import (
	"github.com/memestimate/memestimate/estimate/caching"
	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// A Model is a loaded graph with its dimensions bound, ready to be simulated under
// several settings.
type Bound struct {
	a  *analysis
	ws []weight
}

// Bind infers the shapes of m and tells its parameters from its buffers.
func Bind(m *onnxload.Model, opt Options) (*Bound, error) {
	types, err := shape.Infer(m, shape.Options{Batch: opt.Batch, Dims: opt.Dims, Inputs: opt.Inputs})
	if err != nil {
		return nil, err
	}
	if err := unbound(types); err != nil {
		return nil, err
	}
	a := newAnalysis(m, types)
	ws, _, err := a.weights()
	if err != nil {
		return nil, err
	}
	return &Bound{a, ws}, nil
}

// Program returns the PyTorch calls that the graph was exported from.
func (b *Bound) Program(train bool) (*eager.Program, error) {
	kinds := make([]eager.ValueKind, len(b.a.m.Values))
	for _, w := range b.ws {
		kinds[w.id] = eager.Parameter
		if w.role == roleBuffer {
			kinds[w.id] = eager.Buffer
		}
	}
	return eager.Recover(eager.Source{
		Model: b.a.m,
		Types: b.a.types,
		Kinds: kinds,
		Train: train,
		Place: func(n *onnxload.Node) eager.Place {
			p := placeOf(n)
			return eager.Place{Module: p.module, Class: p.class, Op: p.op, Call: p.call}
		},
	})
}

// Simulate runs the program and replays what it requests through the allocator.
func (b *Bound) Simulate(opts eager.Options, alloc caching.Config) (*timeline.Timeline, *caching.Result, error) {
	p, err := b.Program(opts.Train)
	if err != nil {
		return nil, nil, err
	}
	tl, err := eager.Simulate(p, opts)
	if err != nil {
		return nil, nil, err
	}
	res, err := caching.Replay(tl, alloc)
	return tl, res, err
}
