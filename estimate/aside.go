package estimate

import (
	"cmp"
	"sync"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// A recovering is what all Bounds have in common that have an analysis in common.
type recovering struct {
	// Guards Bound.prog, nodes, largest and what types are asked for: several goroutines may simulate one model.
	sync.Mutex

	again func() error // reads the graph that is set aside; nil where it is there
	lost  error        // why it could not be read again: then nothing more can be said of the model
}

// setAside drops the graph of a large model and what its analysis found, a third of what a run of it takes: a run looks
// at its program alone. What looks at them must call need first. Where a dimension is no number they stay: the layers
// are made before the run then, and what a run saves is added by what the analysis found for them.
func (b *Bound) setAside() {
	shared := b.recovering
	if !b.opt.Alone || !b.large() || b.ran == nil || b.a.Model != b.model || b.short != nil || shared.again != nil ||
		!b.a.Types.Numbers() {
		return
	}
	if shared.again = b.model.SetAside(); shared.again != nil {
		types := b.a.Types
		*b.a, *types = module.Analysis{Model: b.model, Types: types}, shape.Result{}
		b.tidy()
	}
}

// need makes what setAside dropped anew, from the file.
func (b *Bound) need() error {
	shared := b.recovering
	if shared.again == nil || shared.lost != nil {
		return shared.lost
	}
	if shared.lost = shared.again(); shared.lost != nil {
		return shared.lost
	}
	again, err := Bind(b.model, b.opt)
	if shared.again, shared.lost = nil, err; err != nil {
		return err
	}
	types := b.a.Types
	*b.a, *types = *again.a, *again.a.Types
	b.a.Types = types
	b.tidy()
	return nil
}

// simulateHere is Simulate after which the graph is there.
func (b *Bound) simulateHere(s Step) (*Simulation, error) {
	sim, err := b.Simulate(s)
	return sim, cmp.Or(err, b.need())
}

// numbered returns the places of nodes in their graph, which stay theirs when it is read anew; nil where some of them
// are of subgraphs.
func numbered(g *onnxload.Graph, nodes []*onnxload.Node) []int32 {
	list := make([]int32, 0, len(nodes))
	at := 0
	for _, n := range nodes {
		for at < len(g.Nodes) && &g.Nodes[at] != n {
			at++
		}
		if at == len(g.Nodes) {
			return nil
		}
		list = append(list, int32(at))
	}
	return list
}

// ranNodes returns the nodes that run.
func (b *Bound) ranNodes() []*onnxload.Node {
	if b.ran == nil {
		return b.nodes
	}
	nodes := make([]*onnxload.Node, len(b.ran))
	for i, at := range b.ran {
		nodes[i] = &b.a.Model.Graph.Nodes[at]
	}
	return nodes
}
