package estimate

import (
	"maps"
	"slices"
	"sync"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/recover/dialect"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
)

// A Bound is a model whose dimensions all have sizes, ready to be simulated under several settings.
type Bound struct {
	model *onnxload.Model // as it was given to Bind
	opt   Options         // likewise
	a     *module.Analysis

	weights    []module.Weight            // parameters and buffers
	withTied   []module.Weight            // the same, and the weight of a last layer that is taken for the embeddings' own
	recovering *sync.Mutex                // guards prog, nodes, largest and what types are asked for
	prog       [programs]*program.Program // those that were recovered
	nodes      []*onnxload.Node           // those that run: what the calls of all three were recovered from
	size       int                        // steps, weights and inputs: see large

	constants module.Tensors
	way       module.Way
	without   map[string]bool // guesses that are switched off
	with      map[string]bool // unproven ones that are made

	fewest    bool          // sizes that depend on data are one
	tied      *recover.Tied // a last layer that is taken to share its weight with the embeddings
	largest   *Bound        // see guessedLargest; nil until it is asked for
	isLargest bool          // this is one
	short     *Bound        // see atLength; nil until it is asked for
}

// The programs that one graph is recovered to, by what they run for.
const (
	toInfer = iota
	toTrain
	toInferUnderAutocast
	programs // how many there are
)

// Bind infers the shapes of m and tells its parameters from its buffers. Errors are those of Run.
func Bind(m *onnxload.Model, opt Options) (*Bound, error) {
	given, asked := m, opt
	opt.Dims = withPrompt(m, opt)
	m, saved := module.Fill(m, recover.Facts)
	m = module.Restore(m, recover.Facts)
	types, err := shape.Infer(m, shape.Options{Batch: opt.Batch, Dims: opt.Dims, Inputs: opt.Inputs})
	if err != nil {
		return nil, err
	}
	if err := unbound(types); err != nil {
		return nil, err
	}
	a := module.New(m, types, recover.Facts)
	a.Nodes += saved
	ws, constants, err := a.Weights()
	if err != nil {
		return nil, err
	}
	b := &Bound{model: given, opt: asked, a: a, weights: ws, withTied: ws, constants: constants,
		without: named(opt.Without), with: named(opt.With), recovering: new(sync.Mutex)}
	b.size = len(a.Steps) + len(ws) + a.Wide + len(m.Graph.Inputs)
	switch b.way = a.Way(); {
	case b.way == "":
		b.way = OtherWay
	case opt.BuiltIn && (b.way == module.TorchScript || b.way == module.TorchExport):
		b.way = BuiltIn
	}
	if tied, ok := recover.TiedHead(m); ok && !b.without[dialect.TiedHead.Name] {
		b.tied = &tied
		b.weights = slices.DeleteFunc(slices.Clone(ws), func(w module.Weight) bool { return w.ID == tied.Head })
	}
	return b, nil
}

// named is a set of names.
func named(list []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range list {
		set[name] = true
	}
	return set
}

// guessedLargest returns the same model where what is guessed takes more: two weights, amax, and every unproven guess
// made.
func (b *Bound) guessedLargest() *Bound {
	b.recovering.Lock()
	defer b.recovering.Unlock()
	if b.largest == nil {
		b.largest = b.unrecovered()
		b.largest.weights, b.largest.tied = b.withTied, nil
		b.largest.with, b.largest.isLargest = unproven(), true
	}
	return b.largest
}

// unrecovered returns the same model, to be recovered anew with other guesses.
func (b *Bound) unrecovered() *Bound {
	return &Bound{model: b.model, opt: b.opt, a: b.a, weights: b.weights, withTied: b.withTied, recovering: b.recovering,
		constants: b.constants, way: b.way, without: maps.Clone(b.without), with: maps.Clone(b.with), fewest: b.fewest,
		tied: b.tied, size: b.size}
}

// Program returns the PyTorch calls that the graph was exported from.
func (b *Bound) Program(train bool) (*program.Program, error) { return b.program(train, false) }

// program is Program, for an inference under autocast too.
func (b *Bound) program(train, autocast bool) (*program.Program, error) {
	k := toInfer
	switch {
	case train:
		k = toTrain
	case autocast:
		k = toInferUnderAutocast
	}
	b.recovering.Lock()
	defer b.recovering.Unlock()
	if b.prog[k] != nil {
		return b.prog[k], nil
	}
	if b.large() { // one at a time, and another is made again where it is asked for
		b.drop()
	}
	kinds := make([]program.ValueKind, len(b.a.Model.Values))
	for _, w := range b.weights {
		kinds[w.ID] = program.Parameter
		switch {
		case w.Role == module.RoleBuffer && (module.IsAutomatic(b.a.Model.NameOf(w.ID)) ||
			module.IsComputed(b.a.Model.NameOf(w.ID), b.a.Model.Values[w.ID].Init)):
			kinds[w.ID] = program.Constant // what an exporter computed from numbers
		case w.Role == module.RoleBuffer:
			kinds[w.ID] = program.Buffer
		}
	}
	if b.tied != nil {
		kinds[b.tied.Head] = program.Parameter
	}
	p, nodes, err := recover.Recover(recover.Source{
		Model: b.a.Model,
		Types: b.a.Types,
		Kinds: kinds,
		Train: train, Autocast: autocast, Tied: b.tied, Most: b.isLargest, Fewest: b.fewest,
		Place: b.a.Placer(), Without: b.without, With: b.with,
	})
	if err != nil {
		return nil, err
	}
	b.nodes = nodes
	b.prog[k] = p
	return p, nil
}

// spares are of *eager.Spare: memory for the runs of one model after another.
var spares sync.Pool

// spare returns memory for a run, that of one before it if there is any; nil for a large model, whose runs leave what
// they took to those that come next. The run over, spared takes it back.
func (b *Bound) spare() *torch.Spare {
	if b.large() {
		return nil
	}
	if s, ok := spares.Get().(*torch.Spare); ok {
		return s
	}
	return new(torch.Spare)
}

func (b *Bound) spared(s *torch.Spare) {
	if s != nil {
		spares.Put(s)
	}
}

// forget drops what was recovered for runs.
func (b *Bound) forget() {
	b.recovering.Lock()
	defer b.recovering.Unlock()
	b.drop()
}

// drop is forget for who has the lock.
func (b *Bound) drop() {
	clear(b.prog[:])
	if b.largest != nil {
		b.largest.prog = b.prog
	}
}
