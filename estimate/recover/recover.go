// Package recover recovers the program that a typed ONNX graph was exported from: patterns first claim the nodes
// that one call was exported as, and each node that no pattern has goes through the row of its operator.
package recover

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// A Source is a typed ONNX graph and what is known of its constants.
type Source struct {
	Model *onnxload.Model
	Types *shape.Result
	Kinds []program.ValueKind // by ONNX value: Parameter or Buffer for those of the module; anything else for the rest
	Place func(*onnxload.Node) *module.Place
	Train bool  // the run is a training step
	Tied  *Tied // a last layer that shares its weight with a table; nil for none
	// take one for every size that depends on data, and one step for all packed sequences but one, instead of the most
	// that each can be
	Fewest bool
	Most   bool // of two calls that are exported alike, take the one that saves more

	Without map[string]bool // guesses that are switched off, by name
	Longest bool            // see program.Program.Longest

	Autocast bool // torch.autocast is on: in inference, no module takes its fast path
}

// Recover finds the PyTorch calls that a graph was exported from. All dimensions must be bound. Nodes that it cannot
// place are counted in Program.Unknown. Call.Origin is an index into the nodes that it returns: those that run.
func Recover(src Source) (p *program.Program, nodes []*onnxload.Node, err error) {
	b := newRecovery(src)
	defer func() {
		if b.err != nil {
			recover() // of fail alone: nothing runs after it
			p, nodes, err = nil, nil, b.err
		}
	}()
	if err := b.flatten(src.Model.Graph); err != nil {
		return nil, nil, err
	}
	b.index()
	b.findHost()
	b.matchPatterns()
	b.emitAll()
	b.unmergeNumbered()
	b.unmergeLoops()
	b.unmergeModules()
	b.prog.Origins, b.prog.Doubtful = len(b.nodes), src.Train && b.maxima > 0
	b.noteExport()
	b.prog.InferOnly = b.inferenceOnly()
	if !src.Train && !src.Autocast && b.takes(fastPath) {
		fastAttention(b.prog)
	}
	b.prog.DropDead()
	if !src.Train {
		endAttention(b.prog)
	}
	b.countUnknown()
	b.orderState()
	return b.prog, b.nodes, b.prog.Check()
}

// A recovery is the state of one Recover: what it reads, the program that it makes, and, a struct for each, what its
// steps leave to those that follow.
type recovery struct {
	src   Source
	m     *onnxload.Model
	types *shape.Result
	prog  *program.Program
	at    int // the node that is looked at, which errors name
	err   error

	runs
	emission
	sizes
	locations
	found
}

// runs are the nodes that run and how values join them, which index finds before anything is matched.
type runs struct {
	nodes []*onnxload.Node   // subgraphs included, in order
	rows  []*operator        // by node: see rowOf
	facts []*module.Facts    // by node: what is said of its operator, whatever its inputs
	same  []onnxload.ValueID // by ONNX value: the one that it is another name of, or itself
	made  []int32            // by ONNX value: index of the node that makes it, or -1
	uses  reads              // by ONNX value: the nodes that read it, once for each slot
	out   []bool             // by ONNX value: an output of the graph
	fixed []bool             // by ONNX value: it comes from shapes and constants alone
	host  []bool             // by ONNX value: Python computes it

	clones bool                      // see findClones
	cloned map[onnxload.ValueID]bool // results of transposes copied row by row
}

// An emission is how far nodes have become calls.
type emission struct {
	done    []bool                   // by node: part of a pattern
	emit    []func()                 // by node: what to do instead of its row
	of      []program.ValueID        // by ONNX value: the program's, or -2
	args    map[string]*program.Args // of each operator's last call
	calls   []int32                  // by program value: one more than the call that makes it, as far as it is that long
	flips   map[program.ValueID]bool // parameters that are kept transposed
	unknown map[int32]string         // by node: the operator that has no row
	said    map[string]bool          // operators that a note says are approximate
}

// sizes are those of values, each kept once.
type sizes struct {
	shapes []int32    // by ONNX value: one more than the index of its sizes, once they were asked for
	kept   [][]int64  // shared, never written to
	latest [256]int32 // by hash: one more than the index of the last that were kept
}

// locations are the modules that nodes are from.
type locations struct {
	places    []*located      // by node
	called    map[string]bool // modules whose forward calls something, by path: containers such as ModuleList have none
	scopes    map[string]int32
	layers    map[string]int32
	modules   int                // how many places there are, about
	lostLines map[lostLine]int32 // see placeFolded
}

// found is what patterns that matched leave to others.
type found struct {
	maxima  int                                             // reductions taken for x.max(dim) that could be x.amax(dim)
	folded  int                                             // batch norms that an export folded into convolutions, and that are restored
	own     map[onnxload.ValueID]map[string]program.ValueID // folded convolutions' weights, by module
	lists   map[onnxload.ValueID][]onnxload.ValueID         // sequences, by value
	weights map[onnxload.ValueID]bool                       // parameters, as far as onlyWeight was asked
	chains  int                                             // see chained
	pooled  map[*onnxload.Node]onnxload.ValueID             // by pooling: its places, counted as PyTorch does
}

func newRecovery(src Source) *recovery {
	n := len(src.Model.Values)
	b := &recovery{src: src, m: src.Model, types: src.Types,
		prog: &program.Program{Values: []program.Value{{Kind: program.None}}, Unknown: map[string]int{}, Without: src.Without,
			Longest: src.Longest},
		runs: runs{same: make([]onnxload.ValueID, n), made: make([]int32, n), out: make([]bool, n), host: make([]bool, n),
			cloned: map[onnxload.ValueID]bool{}},
		emission: emission{of: make([]program.ValueID, n), args: map[string]*program.Args{}, flips: map[program.ValueID]bool{},
			unknown: map[int32]string{}, said: map[string]bool{}},
		sizes:     sizes{shapes: make([]int32, n)},
		locations: locations{called: map[string]bool{}, lostLines: map[lostLine]int32{}},
		found: found{own: map[onnxload.ValueID]map[string]program.ValueID{}, lists: map[onnxload.ValueID][]onnxload.ValueID{},
			weights: map[onnxload.ValueID]bool{}, pooled: map[*onnxload.Node]onnxload.ValueID{}},
	}
	for i := range n {
		b.made[i], b.same[i] = -1, onnxload.ValueID(i)
	}
	b.prog.Lines = readLines(src.Model.Stacks)
	return b
}

// fail ends the recovery: what a rule would go on with is not there. Recover catches it.
func (b *recovery) fail(format string, args ...any) {
	b.err = fmt.Errorf(format, args...)
	panic(b.err)
}

// layer returns the index of a node's layer: its module, or what it calls itself.
func (b *recovery) layer(i int) int32 {
	p, n := b.places[i], b.nodes[i]
	if p.layer > 0 {
		return p.layer - 1
	}
	name := p.Module
	if name == "" {
		name = n.Name
	}
	if name == "" {
		name = n.Op
	}
	k, ok := b.layers[name]
	if !ok {
		k = int32(len(b.prog.Layers))
		b.layers[name] = k
		b.prog.Layers = append(b.prog.Layers, name)
	}
	if p.Module != "" {
		p.layer = k + 1
	}
	return k
}

// scopeOf returns the index of the module of a node.
func (b *recovery) scopeOf(i int) int32 {
	p := b.places[i]
	if p.scope == 0 {
		p.scope = b.scope(p.Module) + 1
		if s := &b.prog.Scopes[p.scope-1]; s.Class == "" && p.Torch {
			s.Class = p.Class
		}
	}
	return p.scope - 1
}

// scope returns the index of a module, the modules that call it first.
func (b *recovery) scope(path string) int32 {
	path = shallow(path)
	if s, ok := b.scopes[path]; ok {
		return s
	}
	parent := int32(-1)
	if path != "" {
		up := ""
		for i := len(path) - 1; i > 0; i-- {
			if path[i] == '.' && b.called[path[:i]] {
				up = path[:i]
				break
			}
		}
		parent = b.scope(up)
	}
	s := int32(len(b.prog.Scopes))
	b.prog.Scopes = append(b.prog.Scopes, program.Scope{Name: path, Parent: parent})
	b.scopes[path] = s
	return s
}

// maxModules is how deep modules may nest. Below, what a module holds is taken for its parent's.
const maxModules = 64

// shallow returns a module's path without the modules that nest too deep.
func shallow(path string) string {
	for i, left := 0, maxModules; i < len(path); i++ {
		if path[i] == '.' {
			if left--; left == 0 {
				return path[:i]
			}
		}
	}
	return path
}

// claim makes nodes part of a pattern that is emitted in place of its last one.
func (b *recovery) claim(f func(), nodes ...int) {
	for _, i := range nodes {
		b.done[i] = true
	}
	b.emit[slices.Max(nodes)] = f
}
