package module

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memestimate/memestimate/onnxload"
)

// maxLeafParameters is how many parameters a leaf module of PyTorch has: a weight and a
// bias. Recurrent layers have more, but they are one operator each.
const maxLeafParameters = 2

// A group is a run of steps that make up one layer.
type group struct {
	from, to int // steps[from:to]
	outs     []onnxload.ValueID
}

// groups divides the steps into layers.
//
// As in modelsize_estimate a layer is a leaf module that turns one tensor into one
// tensor: what a GELU or a LayerNorm that ONNX spells out in nine nodes computes inside is
// not a layer's output. Where no such module is known, the nodes of one PyTorch
// operation are a layer, and where that is not known either, each node is one.
func (a *Analysis) groups() []group {
	inner := a.innerModules()
	gs := make([]group, 0, len(a.Steps))
	for i := 0; i < len(a.Steps); {
		if a.Steps[i].untaken {
			i++
			continue
		}
		p := a.Steps[i].Place
		if p.Module != "" && !inner[p.Module] {
			j := i + 1
			for j < len(a.Steps) && a.Steps[j].Place.Module == p.Module && !a.Steps[j].untaken {
				j++
			}
			if g, ok := a.group(i, j); ok && a.inputs(g) <= 1 && a.parametersIn(g) <= maxLeafParameters {
				gs = append(gs, g)
				i = j
				continue
			}
			gs = a.calls(gs, i, j)
			i = j
			continue
		}
		j := i + 1
		for j < len(a.Steps) && p.Call != "" && *a.Steps[j].Place == *p && !a.Steps[j].untaken {
			j++
		}
		gs = a.calls(gs, i, j)
		i = j
	}
	return gs
}

// calls divides steps[from:to] into the calls of PyTorch operations, or nodes.
func (a *Analysis) calls(gs []group, from, to int) []group {
	for i := from; i < to; {
		j := i + 1
		for c := a.Steps[i].Place.Call; c != "" && j < to && a.Steps[j].Place.Call == c; {
			j++
		}
		if g, ok := a.group(i, j); ok {
			gs = append(gs, g)
			i = j
			continue
		}
		for ; i < j; i++ {
			g, _ := a.group(i, i+1)
			gs = append(gs, g)
		}
	}
	return gs
}

// group returns steps[from:to] as a group with the values that leave it, and whether
// that is one value at most.
func (a *Analysis) group(from, to int) (group, bool) {
	g := group{from: from, to: to}
	a.countInside(g, 1)
	for i := from; i < to; i++ {
		for _, id := range a.Steps[i].Node.Out {
			if id != onnxload.NoValue && a.reads[id] > a.inside[id] {
				g.outs = append(g.outs, id)
			}
		}
	}
	a.countInside(g, -1)
	if len(g.outs) <= 1 || to-from == 1 {
		return g, len(g.outs) <= 1
	}
	// A cast to the type a tensor has already, and the like, only pass the input on.
	own := slices.DeleteFunc(slices.Clone(g.outs), func(id onnxload.ValueID) bool { return !a.madeIn(g, a.storage[id]) })
	if len(own) == 1 {
		g.outs = own
	}
	return g, len(g.outs) == 1
}

// countInside adds n to the count of each value for every time that a group reads it.
func (a *Analysis) countInside(g group, n int32) {
	if g.to-g.from == 1 {
		return // a node reads none of its own outputs
	}
	for i := g.from; i < g.to; i++ {
		for _, id := range a.Steps[i].Node.In {
			if id != onnxload.NoValue {
				a.inside[id] += n
			}
		}
	}
}

// inputs counts the values that flow into a group from the model's inputs.
func (a *Analysis) inputs(g group) int {
	n := 0
	a.forget()
	for i := g.from; i < g.to; i++ {
		s := &a.Steps[i]
		for _, id := range s.Node.In {
			if id != onnxload.NoValue && a.flows[id] == data && !a.madeIn(g, id) && a.first(id) {
				n++
			}
		}
	}
	return n
}

// forget and first make a set of values: first reports whether a value is met for the
// first time since forget.
func (a *Analysis) forget() { a.epoch++ }

func (a *Analysis) first(id onnxload.ValueID) bool {
	first := a.seen[id] != a.epoch
	a.seen[id] = a.epoch
	return first
}

func (a *Analysis) madeIn(g group, id onnxload.ValueID) bool {
	return int(a.made[id]) >= g.from && int(a.made[id]) < g.to
}

// parametersIn counts the float constants that arrive at a group's nodes.
func (a *Analysis) parametersIn(g group) int {
	n := 0
	a.forget()
	for i := g.from; i < g.to; i++ {
		s := &a.Steps[i]
		f := a.facts(s.Node)
		for slot, id := range s.Node.In {
			if id == onnxload.NoValue || f.Buffer(slot) {
				continue
			}
			for _, c := range a.Origins(id) {
				if t := a.tensorOf(c); t.DType.IsFloat() && !isScalar(t) && a.first(c) {
					n++
				}
			}
		}
	}
	return n
}

// innerModules returns the paths of modules that have modules inside.
func (a *Analysis) innerModules() map[string]bool {
	inner := map[string]bool{}
	for i := range a.Steps {
		if i > 0 && a.Steps[i].Place.Module == a.Steps[i-1].Place.Module {
			continue
		}
		for m := a.Steps[i].Place.Module; ; {
			i := strings.LastIndexByte(m, '.')
			if i < 0 {
				break
			}
			m = m[:i]
			if inner[m] {
				break
			}
			inner[m] = true
		}
	}
	return inner
}

// A scratch counts and marks values.
type scratch struct {
	inside []int32 // by value: see countInside
	seen   []int32 // by value: see first
	epoch  int32
}

// Layers returns the rows of the report and the sum of their outputs.
func (a *Analysis) Layers(ws []Weight) (rows []Layer, sum int64, err error) {
	values := len(a.Model.Values)
	a.scratch = scratch{inside: make([]int32, values), seen: make([]int32, values)}
	defer func() { a.scratch = scratch{} }() // a run may follow, which needs the memory
	gs := a.groups()
	rows = make([]Layer, len(gs), len(gs)+1)
	of := make([]int32, len(a.Steps)) // the row of each step, or -1
	for i := range of {
		of[i] = -1
	}
	for r, g := range gs {
		row := &rows[r]
		*row = a.row(g)
		for i := g.from; i < g.to; i++ {
			of[i] = int32(r)
		}
		if row.Activation, row.InPlace, err = a.outputBytes(g); err != nil {
			return nil, 0, err
		}
		if err := Add(&sum, row.Activation); err != nil {
			return nil, 0, fmt.Errorf("activations: %w", err)
		}
	}
	idle := Layer{Index: a.Nodes, Name: "(not used by any layer)", Inputs: []string{}, Outputs: []Tensor{}}
	for _, w := range ws {
		if w.Role == RoleBuffer {
			continue
		}
		row := &idle
		if w.step >= 0 && of[w.step] >= 0 {
			row = &rows[of[w.step]]
		}
		// The totals were checked: a row cannot overflow before they do.
		row.Params += w.Count
		row.ParamBytes += w.Bytes
	}
	if idle.Params > 0 {
		rows = append(rows, idle)
	}
	a.rowOf = of
	return rows, sum, nil
}

// row describes a group, sizes left out.
func (a *Analysis) row(g group) Layer {
	first := &a.Steps[g.from]
	row := Layer{
		Index:   int(first.index),
		Name:    first.Node.Name,
		Op:      first.Node.Op,
		Module:  first.Place.Module,
		Nodes:   g.to - g.from,
		Inputs:  []string{},
		Outputs: make([]Tensor, len(g.outs)),
	}
	if row.Nodes > 1 {
		row.Name, row.Op = a.nameOf(g)
	}
	if row.Name == "" && len(g.outs) > 0 {
		row.Name = a.Model.NameOf(g.outs[0])
	}
	row.NameBytes = bytesOf(row.Name)
	a.forget()
	for i := g.from; i < g.to; i++ {
		s := &a.Steps[i]
		for _, id := range s.Node.In {
			if id == onnxload.NoValue || a.madeIn(g, id) || a.flows[id] == fixed || a.flows[id] == trained && a.made[id] < 0 {
				continue
			}
			if a.first(id) {
				row.Inputs = append(row.Inputs, a.Model.NameOf(id))
			}
		}
	}
	for i, id := range g.outs {
		row.Outputs[i] = a.tensor(id)
	}
	return row
}

// nameOf names a group of several nodes and says what it does: by the class of
// the module, the PyTorch operation, or the nodes' operators.
func (a *Analysis) nameOf(g group) (name, op string) {
	p := a.Steps[g.from].Place
	steps := a.Steps[g.from:g.to]
	oneCall := true
	for i := range steps {
		oneCall = oneCall && steps[i].Place.Call == p.Call
	}
	switch {
	case oneCall && p.Call != "":
		return p.Call, p.Op
	case p.Class != "":
		return p.Module, p.Class
	}
	var ops []string
	for i := range steps {
		if op := steps[i].Node.Op; !slices.Contains(ops, op) {
			ops = append(ops, op)
		}
	}
	return p.Module, strings.Join(ops, "+")
}

// outputBytes returns the memory that a group's outputs take: each storage once,
// and only what the group itself made. It is in place when its outputs
// overwrite its input.
func (a *Analysis) outputBytes(g group) (sum int64, inPlace bool, err error) {
	a.forget()
	for _, id := range g.outs {
		root := a.storage[id]
		if !a.madeIn(g, root) {
			inPlace = inPlace || a.Steps[a.made[id]].Node.Op == "Relu"
			continue
		}
		if !a.first(root) {
			continue
		}
		s, err := a.sizeOf(root)
		if err != nil {
			return 0, false, fmt.Errorf("value %q: %w", a.Model.NameOf(root), err)
		}
		if err := Add(&sum, s.bytes); err != nil {
			return 0, false, fmt.Errorf("value %q: %w", a.Model.NameOf(root), err)
		}
	}
	return sum, inPlace, nil
}

// tensor describes a value as far as it is known.
func (a *Analysis) tensor(id onnxload.ValueID) Tensor {
	t := a.Types.Type(id)
	out := Tensor{Name: a.Model.NameOf(id)}
	out.NameBytes = bytesOf(out.Name)
	if t.Elem != onnxload.Undefined {
		out.DType = t.Elem.String()
	}
	if s, err := a.sizeOf(id); err == nil {
		out.Shape = s.dims
	}
	return out
}

// sizeOf returns the size of a value.
func (a *Analysis) sizeOf(id onnxload.ValueID) (sized, error) { return sizeOf(a.Types.Type(id)) }

// bytesOf returns a name that JSON cannot hold as text, or nil.
func bytesOf(name string) *[]byte {
	if utf8.ValidString(name) {
		return nil
	}
	b := []byte(name)
	return &b
}

func (a *Analysis) TensorsOf(ids []onnxload.ValueID) []Tensor {
	out := make([]Tensor, 0, len(ids))
	for _, id := range ids {
		out = append(out, a.tensor(id))
	}
	return out
}
