package module

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A role is what a constant of the graph is to the PyTorch module.
type role uint8

const (
	roleConstant  role = iota // a shape, an axis, a number: in the program, not on the GPU
	RoleParameter             // trained
	RoleBuffer                // kept with the module, on the GPU, but not trained
	RoleBoth                  // a parameter and a buffer that the exporter merged, being equal
)

// smallTable is how many integers a constant without a module's name may have to be
// taken for a shape, a permutation or a list of axes.
const smallTable = 64

// A Weight is a parameter or buffer with its size.
type Weight struct {
	Count, Bytes int64
	ID           onnxload.ValueID
	step         int32 // the first step that uses it, or -1
	Role         role
	ByName       bool // a name alone makes it a buffer: what reads it reads weights too
}

// roleOf tells what a constant is by the inputs that it arrives at. Where these leave it open, its name decides, and
// then its type and its size: byName says that it was the name that made a buffer of what an operator reads as it
// reads weights.
func (a *Analysis) roleOf(c *constant) (r role, byName bool) {
	name := a.Model.NameOf(c.id)
	r = a.roleByUse(c)
	if r == RoleBuffer && isBufferName(name) && c.tensor.Spec == onnxload.NoSpec {
		for u := range a.usesOf(c) {
			f := a.facts(u.node)
			byName = byName || f.Weight(int(u.slot))
			if f.Buffer(int(u.slot)) {
				return r, false
			}
		}
	}
	return r, byName
}

// roleByUse is roleOf. What the signature of torch.export's program calls a buffer is one before all guesses, and so is
// a tensor that it calls a constant, if that is an attribute of a module: others were made in forward; what it
// calls a parameter may be frozen, as transformers' tables of sinusoids are.
func (a *Analysis) roleByUse(c *constant) role {
	name := a.Model.NameOf(c.id)
	table := c.tensor.DType == onnxload.Bool || c.tensor.DType == onnxload.String || c.tensor.DType.IsInt() &&
		!a.quantized(c)
	if table && isSmall(c.tensor, smallTable) && IsAutomatic(name) { // of most: TorchScript writes shapes down as nodes
		return roleConstant
	}
	if table {
		return RoleBuffer
	}
	named := !IsAutomatic(name)
	uses, weight, buffer, vector, trained := 0, false, false, false, false
	for u := range a.usesOf(c) {
		f := a.facts(u.node)
		uses++
		weight = weight || f.Weight(int(u.slot))
		buffer = buffer || f.Buffer(int(u.slot))
		trained = trained || f.Weight(int(u.slot)) && a.looksUp(u)
		vector = vector || f.Has(Affine)
	}
	switch {
	case a.madeUp(c):
		return roleConstant
	case !named && !isScalar(c.tensor) && a.inNode(c) && a.Model.Producer == "pytorch":
		return RoleBuffer // traced from a computation: PyTorch's exporters list parameters
	case weight && buffer:
		return RoleBoth
	case (c.tensor.Spec == onnxload.SpecBuffer || c.tensor.Spec == onnxload.SpecConstant && named) &&
		!(weight && uses > 1): // equal tensors may have been merged into this one
		return RoleBuffer
	case trained && named && !buffer && !isScalar(c.tensor):
		return RoleParameter // whatever its name is
	case buffer || isBufferName(name) || a.rotates(c):
		return RoleBuffer
	case weight && !(isScalar(c.tensor) && !named) && !isRepeated(name, c.tensor), !named && a.filters(c):
		return RoleParameter
	case a.masksScores(c) || a.frozen(c):
		return RoleBuffer
	case a.isNumber(c):
		return roleConstant
	case named && a.compared(c):
		return RoleBuffer
	case named && !IsComputed(name, c.tensor):
		return RoleParameter
	case vector && isVector(c.tensor) && !a.foldedNorm(c):
		return RoleParameter // a bias or scale that folding renamed
	}
	return RoleBuffer // a mask, a table of positions
}

// looksUp reports whether an operator looks rows of a table up by what the model is given: words have embeddings that
// are trained. Tables of positions are looked up at fixed places, so that only a name tells sinusoids from what is
// trained.
func (a *Analysis) looksUp(u *use) bool {
	if u.node.Op != "Gather" || len(u.node.In) < 2 || u.node.Input(1) == onnxload.NoValue {
		return false
	}
	return a.flows[u.node.Input(1)] == data
}

// madeUp reports whether a constant is the ones or zeros that exporters write as a norm's scale or bias where the
// module has none: "/norm/Constant_output_0" or "val_3". What a module has keeps its name.
func (a *Analysis) madeUp(c *constant) bool {
	for u := range a.usesOf(c) {
		if u.slot != 1 && u.slot != 2 || !strings.HasSuffix(u.node.Op, "Normalization") {
			return false
		}
	}
	if c.First == 0 {
		return false
	}
	name := a.Model.NameOf(c.id)
	switch strings.TrimRight(name, "_0123456789") {
	case "val", "ones", "zeros", "full":
		return true
	}
	return strings.Contains(name[strings.LastIndexByte(name, '/')+1:], "Constant")
}

// frozen reports whether a constant is the weight or the bias of a frozen batch norm, which keeps them as buffers:
// torchvision.ops.FrozenBatchNorm2d and its relatives in detectron2 and DETR work the running statistics into both
// before they touch any data. A batch norm that trains does so in none of its forms.
func (a *Analysis) frozen(c *constant) bool {
	name := a.Model.NameOf(c.id)
	dot := strings.LastIndexByte(name, '.') + 1
	if tail := name[dot:]; tail != "weight" && tail != "bias" || c.First == 0 {
		return false
	}
	if a.statistics == nil {
		a.statistics = map[string]bool{}
		for i := range a.consts {
			if module, ok := strings.CutSuffix(a.Model.NameOf(a.consts[i].id), "running_var"); ok {
				a.statistics[module] = true
			}
		}
	}
	if !a.statistics[name[:dot]] {
		return false
	}
	for u := range a.usesOf(c) {
		if !a.facts(u.node).Has(Affine) || len(u.node.Out) == 0 || u.node.Output(0) == onnxload.NoValue ||
			a.flows[u.node.Output(0)] == data {
			return false
		}
	}
	return true
}

// rotates reports whether a constant is the table of sines and cosines of rotary positions: a table that is gathered
// at fixed places, taken apart, and that multiplies data and does nothing else with it. transformers' RoFormer keeps
// it as the weight of an embedding that wants no gradient. Positions that are trained are added.
func (a *Analysis) rotates(c *constant) bool {
	if a.tables == nil {
		a.tables = a.followTables()
	}
	return a.tables[c.id] == tableSplit|tableFactor
}

// What becomes of a table that is gathered at fixed places.
const (
	tableSplit  = 1 << iota // taken apart
	tableFactor             // multiplies data
	tableOther              // meets data otherwise
)

// followTables returns what becomes of the matrices that are gathered at fixed places.
func (a *Analysis) followTables() map[onnxload.ValueID]uint8 {
	found := map[onnxload.ValueID]uint8{}
	from := map[onnxload.ValueID]onnxload.ValueID{}
	for i := range a.Steps {
		n := a.Steps[i].Node
		if len(n.Out) == 0 || n.Output(0) == onnxload.NoValue || len(n.In) == 0 || n.Input(0) == onnxload.NoValue ||
			a.facts(n).NoData() {
			continue
		}
		meets := a.flows[n.Output(0)] == data
		if t := a.tensorOf(n.Input(0)); n.Op == "Gather" && t != nil && len(t.Dims) == 2 && t.DType.IsFloat() {
			if from[n.Output(0)] = n.Input(0); meets {
				found[n.Input(0)] |= tableOther
			}
			continue
		}
		for _, id := range n.In {
			table, ok := from[id]
			switch {
			case id == onnxload.NoValue || !ok:
				continue
			case meets && n.Op == "Mul":
				found[table] |= tableFactor
				continue
			case meets:
				found[table] |= tableOther
				continue
			case n.Op == "Split" || n.Op == "Slice" || n.Op == "SplitToSequence":
				found[table] |= tableSplit
			}
			for _, out := range n.Out {
				if other, taken := from[out]; taken && other != table {
					found[other] |= tableOther
				}
				from[out] = table
			}
		}
	}
	return found
}

// masksScores reports whether a constant is only ever added to what a softmax then takes, and is one matrix for all
// samples and heads: a mask. A bias of positions that is trained has a row or a matrix for every head.
func (a *Analysis) masksScores(c *constant) bool {
	d := c.tensor.Dims
	last := len(d) - 1
	if last < 1 || d[last] < 2 || d[last-1] < 2 || c.First == 0 {
		return false
	}
	for _, n := range d[:last-1] {
		if n != 1 {
			return false
		}
	}
	for u := range a.usesOf(c) {
		out := u.node.Output(0)
		if u.node.Op != "Add" || out == onnxload.NoValue || !a.softened(out) {
			return false
		}
		s, ok := a.Types.Type(out).Shape.Ints()
		if !ok || len(s) < 3 || s[len(s)-3] < 2 { // of one head, it could be trained
			return false
		}
	}
	return true
}

// softened reports whether a softmax takes a value.
func (a *Analysis) softened(id onnxload.ValueID) bool {
	if a.softmax == nil {
		a.softmax = map[onnxload.ValueID]bool{}
		for i := range a.Steps {
			if n := a.Steps[i].Node; n.Op == "Softmax" && len(n.In) > 0 {
				a.softmax[n.Input(0)] = true
			}
		}
	}
	return a.softmax[id]
}

// quantized reports whether an integer tensor is a weight in fewer bits.
func (a *Analysis) quantized(c *constant) bool {
	for u := range a.usesOf(c) {
		if u.node.Op != "Gather" && a.facts(u.node).Weight(int(u.slot)) {
			return true
		}
	}
	return false
}

// isNumber reports whether a constant is a lone number of the program: what an exporter named, or what a Constant node
// has. A module's parameter of one element has the module's name, and the file lists it.
func (a *Analysis) isNumber(c *constant) bool {
	return isScalar(c.tensor) && (IsAutomatic(a.Model.NameOf(c.id)) || a.inNode(c))
}

// inNode reports whether a Constant node has a constant; the graph lists the others.
func (a *Analysis) inNode(c *constant) bool { return a.Model.Values[c.id].Init == nil }

func isScalar(t *onnxload.Tensor) bool { return isSmall(t, 1) }

// isSmall reports whether t has at most n elements.
func isSmall(t *onnxload.Tensor, n int64) bool {
	count, err := Elements(t.Dims)
	return err == nil && count <= n
}

// isVector reports whether at most one dimension of t is not 1.
func isVector(t *onnxload.Tensor) bool {
	long := 0
	for _, d := range t.Dims {
		if d != 1 {
			long++
		}
	}
	return long <= 1
}

// IsAutomatic reports whether an exporter made a constant's name up, rather than taking
// it from the module: "onnx::MatMul_45" and "/layer1/Constant_output_0"
// (TorchScript), "val_12" and "scalar_tensor_default_1" (torch.export).
func IsAutomatic(name string) bool {
	if isModulePath(name) {
		// torch.export names what it found in a forward method after that method's module.
		return strings.HasPrefix(name[strings.LastIndexByte(name, '.')+1:], "lifted_tensor")
	}
	if name == "" || strings.ContainsAny(name, ":/") || strings.Contains(name, "Constant") {
		return true
	}
	base := strings.TrimRight(name, "0123456789")
	if base == "" {
		return true
	}
	return folded[strings.TrimSuffix(base, "_")] || folded[base]
}

// Weights returns the parameters and buffers in the order of the graph, each once,
// and sums up the constants.
func (a *Analysis) Weights() (ws []Weight, constants Tensors, err error) {
	ws = make([]Weight, 0, len(a.consts))
	for i := range a.consts {
		c := &a.consts[i]
		w := Weight{ID: c.id, step: -1}
		w.Role, w.ByName = a.roleOf(c)
		if w.Count, w.Bytes, err = TensorBytes(c.tensor.DType, c.tensor.Dims); err != nil {
			return nil, constants, fmt.Errorf("tensor %q: %w", a.Model.NameOf(c.id), err)
		}
		for u := range a.usesOf(c) {
			if u.step >= 0 {
				w.step = u.step
				break
			}
		}
		if w.Role != roleConstant {
			ws = append(ws, w)
			continue
		}
		if err := constants.Add(w.Count, w.Bytes); err != nil {
			return nil, constants, fmt.Errorf("constants: %w", err)
		}
	}
	return ws, constants, nil
}

func (s *Tensors) Add(count, bytes int64) error {
	s.Tensors++
	if err := Add(&s.Count, count); err != nil {
		return err
	}
	return Add(&s.Bytes, bytes)
}

// tensorOf returns the tensor of a constant value.
func (a *Analysis) tensorOf(id onnxload.ValueID) *onnxload.Tensor {
	if c := a.ConstantOf(id); c != nil {
		return c.tensor
	}
	return nil
}
