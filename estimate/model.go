package estimate

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
)

// A Model is a model whose dimensions all have sizes, and what is chosen where its file leaves several programs open. It
// does not change once Bind has returned it: several goroutines may simulate it at once.
type Model struct {
	*sizedGraph
	choices
	programs *programs
}

// A sizedGraph is what a file says of a model at some sizes.
type sizedGraph struct {
	given     *onnxload.Model // as it was given to Bind
	asked     Options         // as they were given to Bind
	analysis  *module.Analysis
	weights   []module.Weight // parameters and buffers
	constants module.Tensors
	way       module.Way
	size      int         // steps, weights and inputs: see large
	busy      atomic.Bool // a run had many events

	recovering sync.Mutex // guards the programs under all choices, and what types are asked for by making one
}

// Choices decide which program is recovered where several are exported as one graph.
type choices struct {
	without map[string]bool // guesses that are switched off
	longest bool            // every variable lives to the end of its function: see program.Program.Longest
	tied    *recover.Tied   // a last layer that is taken to share its weight with the embeddings
	fewest  bool            // sizes that depend on data are one
	most    bool            // of two calls that are exported alike, the one that saves more
}

// Programs are what a graph is recovered to under some choices, each made when it is first asked for.
type programs struct {
	of      [kinds]*program.Program
	nodes   []*onnxload.Node // those that run: what the calls of all programs were recovered from
	largest *Model           // see guessedLargest
}

// The programs that one graph is recovered to, by what they run for.
const (
	toInfer = iota
	toTrain
	toInferUnderAutocast
	kinds // how many there are
)

// Bind infers the shapes of m and tells its parameters from its buffers. Errors are those of Run.
func Bind(m *onnxload.Model, opt Options) (*Model, error) {
	given, asked := m, opt
	m, err := rescale(m, &opt)
	if err != nil {
		return nil, err
	}
	m, saved := module.Fill(m, recover.Facts)
	types, err := shape.Infer(m, shape.Options{Batch: opt.Batch, Dims: opt.Dims, Inputs: opt.Inputs})
	if err != nil {
		return nil, err
	}
	if len(types.Unbound) > 0 {
		return nil, &UnboundError{types.Unbound}
	}
	a := module.New(m, types, recover.Facts)
	a.Nodes += saved
	ws, constants, err := a.Weights()
	if err != nil {
		return nil, err
	}
	g := &sizedGraph{given: given, asked: asked, analysis: a, weights: ws, constants: constants, way: a.Way(),
		size: len(a.Steps) + len(ws) + a.Wide + len(m.Graph.Inputs)}
	switch {
	case g.way == "":
		g.way = OtherWay
	case opt.BuiltIn && (g.way == module.TorchScript || g.way == module.TorchExport):
		g.way = BuiltIn
	}
	b := &Model{g, choices{without: named(opt.Without)}, new(programs)}
	if tied, ok := recover.TiedHead(m); ok {
		b.tied = &tied
	}
	return b, nil
}

// ownWeights are the parameters and buffers, without the weight of a last layer that is the embeddings' own.
func (b *Model) ownWeights() []module.Weight {
	if b.tied == nil {
		return b.weights
	}
	return slices.DeleteFunc(slices.Clone(b.weights), func(w module.Weight) bool { return w.ID == b.tied.Head })
}

// named is a set of names.
func named(list []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range list {
		set[name] = true
	}
	return set
}

// choosing returns the same model under other choices, to be recovered anew.
func (b *Model) choosing(c choices) *Model { return &Model{b.sizedGraph, c, new(programs)} }

// guessedLargest returns the same model where what cannot be told takes more: two weights, and amax.
func (b *Model) guessedLargest() *Model {
	b.recovering.Lock()
	defer b.recovering.Unlock()
	if b.programs.largest == nil {
		c := b.choices
		c.tied, c.most = nil, true
		b.programs.largest = b.choosing(c)
	}
	return b.programs.largest
}

// Program returns the PyTorch calls that the graph was exported from.
func (b *Model) Program(train bool) (*program.Program, error) { return b.program(train, false) }

// program is Program, for an inference under autocast too.
func (b *Model) program(train, autocast bool) (*program.Program, error) {
	k := toInfer
	switch {
	case train:
		k = toTrain
	case autocast:
		k = toInferUnderAutocast
	}
	b.recovering.Lock()
	defer b.recovering.Unlock()
	if b.programs.of[k] != nil {
		return b.programs.of[k], nil
	}
	if b.large() { // one at a time, and another is made again where it is asked for
		b.dropLocked()
	}
	kinds := make([]program.ValueKind, len(b.analysis.Model.Values))
	for _, w := range b.ownWeights() {
		kinds[w.ID] = program.Parameter
		switch {
		case w.Role == module.RoleBuffer && (module.IsAutomatic(b.analysis.Model.NameOf(w.ID)) ||
			module.IsComputed(b.analysis.Model.NameOf(w.ID), b.analysis.Model.Values[w.ID].Init)):
			kinds[w.ID] = program.Constant // what an exporter computed from numbers
		case w.Role == module.RoleBuffer:
			kinds[w.ID] = program.Buffer
		}
	}
	if b.tied != nil {
		kinds[b.tied.Head] = program.Parameter
	}
	p, nodes, err := recover.Recover(recover.Source{
		Model: b.analysis.Model,
		Types: b.analysis.Types,
		Kinds: kinds,
		Train: train, Autocast: autocast, Tied: b.tied, Most: b.most, Fewest: b.fewest,
		Place: b.analysis.PlaceOf, Without: b.without, Longest: b.longest,
	})
	if err != nil {
		return nil, err
	}
	b.programs.nodes = nodes
	b.programs.of[k] = p
	return p, nil
}

// spares are of *eager.Spare: memory for the runs of one model after another.
var spares sync.Pool

// spare returns memory for a run, that of one before it if there is any; nil for a large model, whose runs leave what
// they took to those that come next. The run over, spared takes it back.
func (b *Model) spare() *torch.Spare {
	if b.large() {
		return nil
	}
	if s, ok := spares.Get().(*torch.Spare); ok {
		return s
	}
	return new(torch.Spare)
}

func (b *Model) spared(s *torch.Spare) {
	if s != nil {
		spares.Put(s)
	}
}

// forget drops what was recovered for runs.
func (b *Model) forget() {
	b.recovering.Lock()
	defer b.recovering.Unlock()
	b.dropLocked()
}

// dropLocked is forget for callers that hold the lock.
func (b *Model) dropLocked() {
	clear(b.programs.of[:])
}
