// Package module tells what a graph says of the torch.nn.Module that it was exported from: which tensors are
// parameters and which buffers, which layers and modules its nodes are of, and what of it runs.
package module

import (
	"math"
	"strings"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// A flow says what a value's data comes from.
type flow uint8

const (
	fixed   flow = iota // constants and shapes: it is the same for every batch and every weight
	trained             // parameters or buffers
	data                // the model's inputs
)

// A step is one node of the graph that computes on data or on parameters. The
// steps of a model are in execution order.
type step struct {
	Node  *onnxload.Node
	Place *Place
	index int32 // in execution order, among all nodes

	untaken bool // in the branch of an If that takes less memory
}

// An Analysis is what one pass over a graph in execution order finds out about its values.
type Analysis struct {
	Model *onnxload.Model
	Types *shape.Result

	Nodes   int // all of them, subgraphs included
	Steps   []step
	Wide    int // inputs and outputs of the steps, beyond 8 of each
	places  Places
	rowOf   []int32            // by step: its layer, or -1; once the layers are known
	flows   []flow             // by value
	made    []int32            // by value: the step that makes it, or -1
	storage []onnxload.ValueID // by value: whose storage it shares; itself when it has its own
	reads   []int32            // by value: how many inputs and graph outputs read it
	consts  []constant         // in the order in which the graph lists them
	constOf []int32            // by value: its place in consts, plus 1; 0 for what is no constant
	uses    []use              // of all constants
	Relus   int                // taken to work in place

	rearranged map[onnxload.ValueID][]onnxload.ValueID // by value: the constants that it is a rearrangement of
	followed   int                                     // of those, see afford

	softmax map[onnxload.ValueID]bool // values that a softmax takes; nil until asked for

	norms      map[onnxload.ValueID]int   // uses in folded norms; nil until asked for
	tables     map[onnxload.ValueID]uint8 // what becomes of tables; nil until asked for
	spectra    map[onnxload.ValueID]bool  // what Fourier transforms made; likewise
	statistics map[string]bool            // modules with a running variance, as prefixes of names; nil until asked for

	Loops   int // Loop and Scan nodes, whose bodies are counted once
	scratch     // while Layers works

	operators Operators
	asked     *onnxload.Node // the node that facts was last asked for, of the same operator as many that follow
	answer    *Facts
}

// A constant is an initializer, or the tensor of a Constant node.
type constant struct {
	id          onnxload.ValueID
	First, last int32 // its uses in analysis.uses, by their places plus 1; 0: there are none
	tensor      *onnxload.Tensor
}

// New analyses a model whose operators have these rows.
func New(m *onnxload.Model, types *shape.Result, operators Operators) *Analysis {
	n := len(m.Values)
	a := &Analysis{
		Model: m,
		Types: types,

		operators: operators,

		flows:   make([]flow, n),
		made:    make([]int32, n),
		storage: make([]onnxload.ValueID, n),
		reads:   make([]int32, n),
		constOf: make([]int32, n),

		rearranged: map[onnxload.ValueID][]onnxload.ValueID{},
	}
	for i := range n {
		a.made[i] = -1
		a.storage[i] = onnxload.ValueID(i)
	}
	a.Steps = make([]step, 0, len(m.Graph.Nodes))
	a.consts = make([]constant, 0, len(m.Graph.Inits))
	a.uses = make([]use, 0, len(m.Graph.Inits))
	a.countReads(m.Graph)
	for _, id := range m.Graph.Inputs {
		a.flows[id] = data
	}
	a.graph(m.Graph)
	return a
}

// facts returns what the row of a node's operator says.
func (a *Analysis) facts(n *onnxload.Node) *Facts {
	if a.asked == nil || a.asked.Op != n.Op || a.asked.Domain != n.Domain {
		a.asked, a.answer = n, a.operators.Of(n.Domain, n.Op)
	}
	return a.answer
}

func (a *Analysis) countReads(g *onnxload.Graph) {
	for i := range g.Nodes {
		for _, id := range g.Nodes[i].In {
			if id != onnxload.NoValue {
				a.reads[id]++
			}
		}
		for j := range g.Nodes[i].Attrs {
			for _, sub := range g.Nodes[i].Attrs[j].Graphs {
				a.countReads(sub)
			}
		}
	}
	for _, id := range g.Outputs {
		if id != onnxload.NoValue {
			a.reads[id]++
		}
	}
}

// graph walks one graph; the reader has bounded how deep graphs nest.
func (a *Analysis) graph(g *onnxload.Graph) {
	for _, id := range g.Inits {
		if t := a.Model.Values[id].Init; t != nil {
			a.constant(id, t)
		}
	}
	for i := range g.Nodes {
		a.node(&g.Nodes[i])
	}
}

func (a *Analysis) constant(id onnxload.ValueID, t *onnxload.Tensor) {
	a.consts = append(a.consts, constant{id: id, tensor: t})
	a.constOf[id] = int32(len(a.consts))
	a.flows[id] = trained
}

// ConstantOf returns the constant that a value is, or nil.
func (a *Analysis) ConstantOf(id onnxload.ValueID) *constant {
	if k := a.constOf[id]; k > 0 {
		return &a.consts[k-1]
	}
	return nil
}

// Origins returns the constants that a value is, or is a rearrangement of.
func (a *Analysis) Origins(id onnxload.ValueID) []onnxload.ValueID {
	switch {
	case a.constOf[id] > 0:
		return a.storage[id : id+1 : id+1] // itself: a constant shares no storage
	case a.flows[id] == trained:
		return a.rearranged[id]
	}
	return nil
}

func (a *Analysis) node(n *onnxload.Node) {
	index := a.Nodes
	a.Nodes++
	if n.Op == "Constant" && len(n.Out) == 1 {
		if v := n.Attr("value"); v != nil && len(v.Tensors) == 1 && n.Output(0) != onnxload.NoValue {
			a.constant(n.Output(0), v.Tensors[0])
		}
		return
	}
	flow := a.flowInto(n)
	taken := a.bodies(n, &flow)
	if flow == trained && a.rearrange(n) {
		return
	}
	at := int32(-1)
	if flow != fixed {
		at = int32(len(a.Steps))
		a.Steps = append(a.Steps, step{Node: n, index: int32(index), Place: a.placeOf(n)})
		a.Wide += max(len(n.In)+len(n.Out)-8, 0)
	}
	a.use(n, 0, at)
	for _, id := range n.Out {
		if id != onnxload.NoValue {
			a.flows[id], a.made[id] = flow, at
		}
	}
	if taken != nil { // what an If returns is what its branch made
		for i, id := range n.Out {
			if id != onnxload.NoValue && i < len(taken.Outputs) && taken.Outputs[i] != onnxload.NoValue {
				a.storage[id] = a.storage[taken.Outputs[i]]
			}
		}
	}
	if at >= 0 && a.sharesStorage(n) {
		for _, id := range n.Out {
			if id != onnxload.NoValue {
				a.storage[id] = a.storage[n.Input(0)]
			}
		}
	}
}

// placeOf returns the place of a node. Where the node says nothing, or what it says was
// cut off, the names of the parameters it reads tell their module.
func (a *Analysis) placeOf(n *onnxload.Node) *Place {
	p := a.places.Of(n)
	if p.Call != "" || strings.HasPrefix(n.Name, "/") {
		return p
	}
	for _, id := range n.In {
		if id == onnxload.NoValue {
			continue
		}
		for _, c := range a.Origins(id) {
			if m := ModuleOfParameter(a.Model.NameOf(c)); m != "" &&
				(p.Module == "" || strings.HasPrefix(m, p.Module+".")) {
				return a.places.guess(m)
			}
		}
	}
	return p
}

// flowInto returns what a node's outputs depend on. A constant that is not a
// float, or is a single number, carries nothing that was trained.
func (a *Analysis) flowInto(n *onnxload.Node) flow {
	f, facts := fixed, a.facts(n)
	if facts.NoData() {
		return f
	}
	for slot, id := range n.In {
		if id == onnxload.NoValue || facts.Type(slot) {
			continue
		}
		g := a.flows[id]
		if g == trained && n.Op != "DequantizeLinear" && !a.carries(id) {
			g = fixed
		}
		f = max(f, g)
	}
	return f
}

// carries reports whether a value of flow trained has weights in it: floats, and not a lone
// number that the exporter wrote.
func (a *Analysis) carries(id onnxload.ValueID) bool {
	if a.made[id] >= 0 {
		return true
	}
	for _, c := range a.Origins(id) {
		if c := a.ConstantOf(c); c.tensor.DType.IsFloat() && !a.isNumber(c) {
			return true
		}
	}
	return false
}

// bodies walks the subgraphs of a node. What flows out of them flows out of the node. Of the branches of an If the
// one that is taken is counted, and returned; the larger one where that is not known.
func (a *Analysis) bodies(n *onnxload.Node, f *flow) (taken *onnxload.Graph) {
	best := int64(-1)
	chosen := a.Types.Body(n)
	var steps [2]int // of the best branch
	for i := range n.Attrs {
		for _, g := range n.Attrs[i].Graphs {
			if n.Op != "If" {
				a.Loops++
			}
			for _, id := range g.Inputs {
				a.flows[id] = data
			}
			from := len(a.Steps)
			a.graph(g)
			for _, id := range g.Outputs {
				if id != onnxload.NoValue {
					*f = max(*f, a.flows[id])
				}
			}
			if n.Op != "If" {
				continue
			}
			branch := [2]int{from, len(a.Steps)}
			size := a.outputsOf(branch)
			if chosen == g {
				size = math.MaxInt64
			}
			if size > best {
				branch, steps, best, taken = steps, branch, size, g
			}
			for j := branch[0]; j < branch[1]; j++ {
				a.Steps[j].untaken = true
			}
		}
	}
	return taken
}

// outputsOf adds up the outputs of steps[r[0]:r[1]], to compare branches by.
func (a *Analysis) outputsOf(r [2]int) (sum int64) {
	for _, s := range a.Steps[r[0]:r[1]] {
		for _, id := range s.Node.Out {
			if id == onnxload.NoValue || s.untaken {
				continue
			}
			if size, err := a.sizeOf(id); err == nil && Add(&sum, size.bytes) != nil {
				return math.MaxInt64
			}
		}
	}
	return sum
}

// sharesStorage reports whether the outputs of a node take no memory of their own:
// views of the first input, and ReLUs that overwrite it.
//
// ONNX does not record that a ReLU works in place. One whose input nobody else
// reads is taken to: so torchvision and nearly every convolutional network write
// it, and modelsize_estimate leaves such ReLUs out.
func (a *Analysis) sharesStorage(n *onnxload.Node) bool {
	if len(n.In) == 0 || n.Input(0) == onnxload.NoValue || a.flows[n.Input(0)] == fixed {
		return false
	}
	switch {
	case a.facts(n).Has(View):
		return true
	case n.Op == "Cast":
		return len(n.Out) == 1 && n.Output(0) != onnxload.NoValue &&
			a.Types.Type(n.Input(0)).Elem == a.Types.Type(n.Output(0)).Elem
	case n.Op == "Dropout":
		return n.Version >= 12 && len(n.In) < 3 // without training_mode it passes its input on
	}
	if a.Overwrites(n) {
		a.Relus++
		return true
	}
	return false
}

// Overwrites reports whether a node is a ReLU that the table of layers takes to work in place: a node made its input,
// which nothing else reads. A simulated run takes no other ReLU to, and of these not those behind a linear layer or
// whose line of Python says otherwise.
func (a *Analysis) Overwrites(n *onnxload.Node) bool {
	in := n.Input(0)
	return n.Op == "Relu" && in != onnxload.NoValue && a.reads[in] == 1 && a.made[in] >= 0
}

// Unsized counts the values with storage of their own whose size is not known.
func (a *Analysis) Unsized() int {
	n := 0
	for _, s := range a.Steps {
		if s.untaken {
			continue
		}
		for _, id := range s.Node.Out {
			if id == onnxload.NoValue || a.reads[id] == 0 || a.storage[id] != id {
				continue
			}
			if size, err := a.sizeOf(id); err == nil && !size.known {
				n++
			}
		}
	}
	return n
}
