package eager

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// A Source is a typed ONNX graph and what is known of its constants.
type Source struct {
	Model *onnxload.Model
	Types *shape.Result
	Kinds []ValueKind // by ONNX value: Parameter or Buffer for those of the module; anything else for the rest
	Place func(*onnxload.Node) Place
	Train bool // the run is a training step
}

// A Place says which module's forward a node came from.
type Place struct {
	Module string // "layer1.0.conv1"; "" for the model
	Class  string // "Conv2d"; "" when the file does not tell
	Op     string // the ATen operator: "conv2d"; "" when the file does not tell
	Call   string // its call in the traced program, unique: "conv2d_3"
}

// Recover finds the PyTorch calls that a graph was exported from. All dimensions
// must be bound. Nodes that it cannot place are counted in Program.Unknown.
func Recover(src Source) (*Program, error) {
	b := newRecovery(src)
	if err := b.flatten(src.Model.Graph); err != nil {
		return nil, err
	}
	b.index()
	b.findHost()
	for _, p := range patterns {
		for i := range b.nodes {
			b.at = i
			if n := b.nodes[i]; !b.done[i] && n.Op == p.anchor && n.Domain == "" && len(n.In) > 0 && n.Out[0] != onnxload.NoValue {
				p.match(b, i)
			}
		}
	}
	for _, id := range src.Model.Graph.Inputs {
		v := b.add(Value{Name: b.m.Values[id].Name, Kind: InputValue, DType: b.types.Type(id).Elem, Shape: b.dims(id)})
		b.of[id] = v
		b.prog.Inputs = append(b.prog.Inputs, v)
	}
	runs := 0 // nodes that make a call, as a rule one each
	for i, n := range b.nodes {
		if b.emit[i] != nil || !b.done[i] && !b.hostNode(n) {
			runs++
		}
	}
	b.prog.Calls = make([]Call, 0, runs)
	for i, n := range b.nodes {
		b.at = i
		switch {
		case b.emit[i] != nil:
			b.emit[i]()
		case b.done[i] || b.hostNode(n):
		default:
			b.node(n)
		}
		if b.err != nil {
			return nil, b.err
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	for _, id := range src.Model.Graph.Outputs {
		if id != onnxload.NoValue {
			b.prog.Outputs = append(b.prog.Outputs, b.value(id))
		}
	}
	b.prog.Nodes = b.nodes
	b.noteExport()
	b.prog.InferOnly = b.inferenceOnly()
	if !src.Train {
		b.prog.fastAttention()
	}
	b.prog.dropDead()
	for _, c := range b.prog.Calls { // those whose results are read
		if name, ok := b.unknown[c.Node]; ok {
			b.prog.Unknown[name]++
			delete(b.unknown, c.Node)
		}
	}
	b.orderState()
	if b.err != nil {
		return nil, b.err
	}
	return b.prog, b.prog.check()
}

// A recovery is the state of one Recover.
type recovery struct {
	src    Source
	m      *onnxload.Model
	types  *shape.Result
	prog   *Program
	nodes  []*onnxload.Node // those that run, subgraphs included, in order
	shapes [][]int64        // by ONNX value: its sizes once they were asked for; shared, never written to
	flips  map[ValueID]bool // parameters that are kept transposed
	of     []ValueID        // by ONNX value: the program's, or -2
	calls  map[ValueID]int  // by program value: the call that makes it
	folded int              // batch norms that an export folded into convolutions, and that are restored
	made   []int32          // by ONNX value: index of the node that makes it, or -1
	uses   [][]int32        // by ONNX value: the nodes that read it, once for each slot
	out    []bool           // by ONNX value: an output of the graph
	fixed  []bool           // by ONNX value: it comes from shapes and constants alone
	host   []bool           // by ONNX value: Python computes it
	same   []onnxload.ValueID
	done   []bool   // by node: part of a pattern
	emit   []func() // by node: what to do instead of its row
	at     int
	err    error

	unknown map[int32]string // by node: the operator that has no row
	said    map[string]bool  // operators that a note says are approximate
	lists   map[onnxload.ValueID][]onnxload.ValueID

	scopes map[string]int32
	layers map[string]int32
	places []Place
}

const unset ValueID = -2

func newRecovery(src Source) *recovery {
	n := len(src.Model.Values)
	b := &recovery{
		src: src, m: src.Model, types: src.Types,
		prog: &Program{Unknown: map[string]int{}}, unknown: map[int32]string{},
		shapes: make([][]int64, n), flips: map[ValueID]bool{},
		of: make([]ValueID, n), made: make([]int32, n), uses: make([][]int32, n),
		out: make([]bool, n), host: make([]bool, n), same: make([]onnxload.ValueID, n),
		scopes: map[string]int32{}, layers: map[string]int32{}, calls: map[ValueID]int{},
	}
	for i := range n {
		b.of[i], b.made[i], b.same[i] = unset, -1, onnxload.ValueID(i)
	}
	b.scope("")
	return b
}

// flatten lists the nodes that run. The branch of an If that is taken takes its
// place; the bodies of loops are not unrolled.
func (b *recovery) flatten(g *onnxload.Graph) error {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if !slices.ContainsFunc(n.Out, func(v onnxload.ValueID) bool { return v != onnxload.NoValue }) {
			continue // whatever it computes, nobody gets it
		}
		if n.Op == "If" && n.Domain == "" {
			if flow, ok := b.types.Flow(n); ok && flow.Body != nil {
				if err := b.flatten(flow.Body); err != nil {
					return err
				}
				for j, id := range n.Out {
					if id != onnxload.NoValue && j < len(flow.Body.Outputs) {
						b.same[id] = flow.Body.Outputs[j]
					}
				}
				continue
			}
		}
		b.nodes = append(b.nodes, n)
	}
	return nil
}

// id follows a value through If outputs and Identity to the value that it is.
func (b *recovery) id(v onnxload.ValueID) onnxload.ValueID {
	for v != onnxload.NoValue && b.same[v] != v {
		v = b.same[v]
	}
	return v
}

// in returns input i of n, NoValue when it is not there.
func (b *recovery) in(n *onnxload.Node, i int) onnxload.ValueID {
	if i >= len(n.In) {
		return onnxload.NoValue
	}
	return b.id(n.In[i])
}

func (b *recovery) index() {
	for _, n := range b.nodes {
		if n.Op == "Identity" && n.Domain == "" && len(n.In) > 0 && n.In[0] != onnxload.NoValue && n.Out[0] != onnxload.NoValue {
			b.same[n.Out[0]] = n.In[0]
		}
	}
	b.done = make([]bool, len(b.nodes))
	b.emit = make([]func(), len(b.nodes))
	b.places = make([]Place, len(b.nodes))
	for i, n := range b.nodes {
		if n.Op == "Loop" || n.Op == "Scan" {
			b.captured(n)
		}
		b.places[i] = b.src.Place(n)
		for j := range n.In {
			// Asking for a shape is no use of the data, and another name no use at all.
			if v := b.in(n, j); v != onnxload.NoValue && n.Op != "Shape" && n.Op != "Size" && n.Op != "Identity" {
				b.uses[v] = append(b.uses[v], int32(i))
			}
		}
		for _, v := range n.Out {
			if v != onnxload.NoValue && n.Op != "Identity" {
				b.made[v] = int32(i)
			}
		}
	}
	for _, v := range b.m.Graph.Outputs {
		if v != onnxload.NoValue {
			b.out[b.id(v)] = true
		}
	}
	b.placeUnnamed()
}

// placeUnnamed places the nodes that say nothing of where they are from. The TorchScript exporter names
// what a module's forward calls by the module, "/layer1/conv/Conv", but the nodes of some
// decompositions by a number alone, "Range_3501": they are from the innermost module around both the
// node before and the node after them.
func (b *recovery) placeUnnamed() {
	unknown := func(i int) bool { return b.places[i] == (Place{}) && !strings.HasPrefix(b.nodes[i].Name, "/") }
	for i := 0; i < len(b.nodes); i++ {
		if !unknown(i) {
			continue
		}
		end := i
		for end < len(b.nodes) && unknown(end) {
			end++
		}
		var before, after string
		if i > 0 {
			before = b.places[i-1].Module
		}
		if end < len(b.nodes) {
			after = b.places[end].Module
		}
		for k := i; k < end; k++ {
			b.places[k].Module = commonModule(before, after)
		}
		i = end
	}
}

// commonModule returns the innermost module around both.
func commonModule(a, b string) string {
	for a != b && a != "" {
		if strings.HasPrefix(b, a+".") {
			return a
		}
		a = a[:max(strings.LastIndexByte(a, '.'), 0)]
	}
	return a
}

// hostSlots are the inputs that PyTorch takes as Python numbers.
var hostSlots = map[string]uint32{
	"Reshape": 1 << 1, "Expand": 1 << 1, "ConstantOfShape": 1 << 0, "Tile": 1 << 1,
	"Slice": 1<<1 | 1<<2 | 1<<3 | 1<<4, "Squeeze": 1 << 1, "Unsqueeze": 1 << 1, "Split": 1 << 1,
	"Pad": 1<<1 | 1<<2 | 1<<3, "Resize": 1<<1 | 1<<2 | 1<<3, "Range": 7, "OneHot": 1 << 1, "TopK": 1 << 1,
	"ReduceSum": 1 << 1, "ReduceMean": 1 << 1, "ReduceMax": 1 << 1, "ReduceMin": 1 << 1, "ReduceProd": 1 << 1,
	"ReduceL1": 1 << 1, "ReduceL2": 1 << 1, "ReduceLogSumExp": 1 << 1, "ReduceSumSquare": 1 << 1, "ReduceLogSum": 1 << 1,
	"Clip": 1<<1 | 1<<2, "Dropout": 1<<1 | 1<<2, "CumSum": 1 << 1, "Trilu": 1 << 1, "Shape": 1, "Size": 1,
	"Upsample": 1 << 1, "CenterCropPad": 1 << 1, "AffineGrid": 1 << 1, "CastLike": 1 << 1,
}

// findHost decides which values Python computes: those that come from shapes and constants
// alone and go nowhere but to such slots.
func (b *recovery) findHost() {
	b.fixed = make([]bool, len(b.of))
	fixed := b.fixed
	for i := range fixed {
		fixed[i] = b.m.Values[i].Init != nil && b.src.Kinds[i] != Parameter && b.src.Kinds[i] != Buffer
	}
	for _, n := range b.nodes {
		ok := n.Op == "Shape" || n.Op == "Size" || n.Op == "Constant"
		if !ok && len(n.In) > 0 {
			ok = true
			for j := range n.In {
				v := b.in(n, j)
				onlyType := n.Op == "CastLike" && j == 1
				ok = ok && (v == onnxload.NoValue || fixed[v] || onlyType)
			}
			if n.Op == "RandomNormal" || n.Op == "RandomUniform" || n.Op == "Loop" || n.Op == "Scan" {
				ok = false
			}
		}
		for _, v := range n.Out {
			if v != onnxload.NoValue {
				fixed[v] = ok
			}
		}
	}
	for i := len(b.nodes) - 1; i >= -1; i-- {
		var outs []onnxload.ValueID
		if i >= 0 {
			outs = b.nodes[i].Out
		}
		for _, v := range outs {
			if v != onnxload.NoValue {
				b.host[v] = fixed[v] && !b.out[v] && b.onlyHostUses(v)
			}
		}
	}
	for i := range b.host {
		id := onnxload.ValueID(i)
		if b.made[i] < 0 && fixed[i] && b.m.Values[i].Init != nil {
			b.host[i] = b.onlyHostUses(id)
		}
	}
	// What is one number is a Python number wherever it goes.
	for i := range b.host {
		if !fixed[i] || b.host[i] || b.out[i] {
			continue
		}
		if s, ok := b.types.Type(onnxload.ValueID(i)).Shape.Ints(); ok && numel(s) == 1 && len(s) == 0 {
			b.host[i] = true
		}
	}
}

func (b *recovery) onlyHostUses(v onnxload.ValueID) bool {
	for _, u := range b.uses[v] {
		n := b.nodes[u]
		mask := hostSlots[n.Op]
		hostOut := true
		for _, o := range n.Out {
			hostOut = hostOut && (o == onnxload.NoValue || b.host[o])
		}
		if hostOut && len(n.Out) > 0 {
			continue
		}
		for j := range n.In {
			if b.in(n, j) == v && mask&(1<<j) == 0 {
				return false
			}
		}
	}
	return true
}

// hostNode reports whether a node's outputs are all Python's.
func (b *recovery) hostNode(n *onnxload.Node) bool {
	if n.Op == "Identity" && n.Domain == "" {
		return true
	}
	for _, v := range n.Out {
		if v != onnxload.NoValue && !b.host[v] {
			return false
		}
	}
	return true
}

// dims returns the sizes of a value, data-dependent ones at their bound.
func (b *recovery) dims(id onnxload.ValueID) []int64 {
	if id == onnxload.NoValue {
		b.fail("node %q (%s) lacks an input or an output that it needs", b.nodes[b.at].Name, b.nodes[b.at].Op)
		return nil
	}
	if s := b.shapes[id]; s != nil {
		return s
	}
	s := b.types.Type(id).Shape
	if x := b.m.Values[id].Init; !s.Ranked && x != nil { // in a body that does not run
		b.shapes[id] = append([]int64{}, x.Dims...)
		return b.shapes[id]
	}
	if !s.Ranked {
		b.fail("value %q has no shape", b.m.Values[id].Name)
		return nil
	}
	out := make([]int64, len(s.Dims))
	for i, d := range s.Dims {
		d, _ = b.types.Limit(d)
		n, ok := d.Int()
		if !ok {
			b.fail("dimension %d of %q is %s, not a number", i, b.m.Values[id].Name, d)
		}
		out[i] = n
	}
	b.shapes[id] = out
	return out
}

func (b *recovery) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

func (b *recovery) elem(id onnxload.ValueID) onnxload.DType {
	if id == onnxload.NoValue {
		return onnxload.Undefined
	}
	return b.types.Type(id).Elem
}

// isParameter reports whether a value is a parameter of the module.
func (b *recovery) isParameter(id onnxload.ValueID) bool {
	id = b.id(id)
	return id != onnxload.NoValue && b.src.Kinds[id] == Parameter
}

func (b *recovery) add(v Value) ValueID {
	b.prog.Values = append(b.prog.Values, v)
	return ValueID(len(b.prog.Values) - 1)
}

// value returns the program's value for an ONNX one. Parameters, buffers and constants
// come into being when they are first asked for.
func (b *recovery) value(id onnxload.ValueID) ValueID {
	id = b.id(id)
	if id == onnxload.NoValue {
		return NoValue
	}
	if b.of[id] != unset {
		return b.of[id]
	}
	v := Value{Name: b.m.Values[id].Name, DType: b.elem(id)}
	kind := b.src.Kinds[id]
	switch {
	case b.host[id]:
		v.Kind = Number
		if b.types.Type(id).Shape.Ranked {
			v.Shape = b.dims(id)
		}
	case b.m.Values[id].Init != nil && (kind == Parameter || kind == Buffer):
		v.Kind, v.Shape = kind, b.dims(id)
	case b.made[id] < 0 && b.m.Values[id].Init != nil && numel(b.dims(id)) == 1:
		v.Kind, v.Shape = Number, b.dims(id)
	default:
		v.Kind, v.Shape = Constant, b.dims(id)
	}
	b.of[id] = b.add(v)
	if v.Kind == Parameter || v.Kind == Buffer {
		b.prog.State = append(b.prog.State, b.of[id])
	}
	return b.of[id]
}

// transposed returns the parameter that id is the transpose of: a Linear's weight as
// PyTorch keeps it, [out, in].
func (b *recovery) transposed(id onnxload.ValueID) ValueID {
	v := b.value(id)
	if p := &b.prog.Values[v]; p.Kind == Parameter && len(p.Shape) == 2 && !b.flips[v] {
		b.flips[v] = true // once, however many products share it
		p.Shape = []int64{p.Shape[1], p.Shape[0]}
	}
	return v
}

// result makes a new activation and binds it to an ONNX value.
func (b *recovery) result(id onnxload.ValueID) ValueID {
	if id == onnxload.NoValue {
		return NoValue
	}
	v := b.add(Value{Name: b.m.Values[id].Name, DType: b.elem(id), Shape: b.dims(id)})
	b.of[id] = v
	return v
}

// call emits a call whose results are the ONNX values outs.
func (b *recovery) call(op string, args Args, in []ValueID, outs ...onnxload.ValueID) {
	c := Call{Op: op, In: in, Args: args, Layer: b.layer(b.at), Scope: b.scope(b.places[b.at].Module)}
	for _, o := range outs {
		c.Out = append(c.Out, b.result(o))
	}
	b.push(c)
}

// temp emits a call whose only result has no ONNX value.
func (b *recovery) temp(op string, args Args, dtype onnxload.DType, shape []int64, in ...ValueID) ValueID {
	v := b.add(Value{DType: dtype, Shape: shape})
	b.push(Call{Op: op, In: in, Out: []ValueID{v}, Args: args, Layer: b.layer(b.at), Scope: b.scope(b.places[b.at].Module)})
	return v
}

func (b *recovery) push(c Call) {
	c.Node = int32(b.at)
	if !takesNumbers[c.Op] {
		for i, v := range c.In {
			if v != NoValue && b.prog.Values[v].Kind == Number {
				c.In = slices.Clone(c.In)
				c.In[i] = b.onDevice(v)
			}
		}
	}
	if !b.prog.fits(&c) {
		b.unknown[c.Node] = b.nodeName()
		c.Op, c.Args = "opaque", Args{}
	}
	for _, v := range c.Out {
		if v != NoValue {
			b.calls[v] = len(b.prog.Calls)
		}
	}
	b.prog.Calls = append(b.prog.Calls, c)
}

// layer returns the index of a node's layer: its module and operator.
func (b *recovery) layer(i int) int32 {
	n := b.nodes[i]
	name := b.places[i].Module
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
	return k
}

// scope returns the index of a module, its parents first.
func (b *recovery) scope(path string) int32 {
	path = shallow(path)
	if s, ok := b.scopes[path]; ok {
		return s
	}
	parent := int32(-1)
	if path != "" {
		up := ""
		for i := len(path) - 1; i > 0; i-- {
			if path[i] == '.' {
				up = path[:i]
				break
			}
		}
		parent = b.scope(up)
	}
	s := int32(len(b.prog.Scopes))
	b.prog.Scopes = append(b.prog.Scopes, Scope{Name: path, Parent: parent})
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

// producer returns the node that makes a value, if it runs on data.
func (b *recovery) producer(id onnxload.ValueID) (*onnxload.Node, int) {
	if id = b.id(id); id == onnxload.NoValue {
		return nil, -1
	}
	if i := b.made[id]; i >= 0 {
		return b.nodes[i], int(i)
	}
	return nil, -1
}

// producedBy returns the node that makes a value when it is of this operator and no
// pattern has it.
func (b *recovery) producedBy(id onnxload.ValueID, op string) (*onnxload.Node, int) {
	n, i := b.producer(id)
	if n == nil || n.Op != op || b.done[i] {
		return nil, -1
	}
	return n, i
}

// single reports whether exactly one slot reads a value.
func (b *recovery) single(id onnxload.ValueID) bool {
	id = b.id(id)
	return id != onnxload.NoValue && len(b.uses[id]) == 1 && !b.out[id]
}

// user returns the only node that reads a value, when it is of this operator.
func (b *recovery) user(id onnxload.ValueID, op string) (*onnxload.Node, int) {
	id = b.id(id)
	if !b.single(id) {
		return nil, -1
	}
	i := int(b.uses[id][0])
	if b.nodes[i].Op != op || b.done[i] {
		return nil, -1
	}
	return b.nodes[i], i
}

// users calls f for every node of this operator that reads a value.
func (b *recovery) users(id onnxload.ValueID, op string, f func(n *onnxload.Node, i int)) {
	if id = b.id(id); id == onnxload.NoValue {
		return
	}
	for _, i := range b.uses[id] {
		if b.nodes[i].Op == op && !b.done[i] {
			f(b.nodes[i], int(i))
		}
	}
}

// number returns the value of a constant of one element.
func (b *recovery) number(id onnxload.ValueID) (float64, bool) {
	for range 8 {
		if id = b.id(id); id == onnxload.NoValue {
			return 0, false
		}
		n, _ := b.producer(id)
		if n == nil || n.Op != "CastLike" && n.Op != "Cast" || len(n.In) == 0 {
			break
		}
		id = n.In[0]
	}
	if id = b.id(id); id == onnxload.NoValue {
		return 0, false
	}
	c := b.types.Value(id)
	if c == nil || c.Len() != 1 {
		return 0, false
	}
	if c.Floats != nil {
		return c.Floats[0], true
	}
	if len(c.Ints) == 0 {
		return 0, false
	}
	k, ok := c.Ints[0].Int()
	return float64(k), ok
}

// isNumber reports whether a value is this number, to the precision of float32.
func (b *recovery) isNumber(id onnxload.ValueID, want float64) bool {
	x, ok := b.number(id)
	return ok && math.Abs(x-want) <= 1e-4*math.Max(1, math.Abs(want))
}

// other returns the input of a node of two that is not id.
func (b *recovery) other(n *onnxload.Node, id onnxload.ValueID) onnxload.ValueID {
	if b.in(n, 0) == b.id(id) {
		return b.in(n, 1)
	}
	return b.in(n, 0)
}

// claim makes nodes part of a pattern that is emitted in place of its last one.
func (b *recovery) claim(f func(), nodes ...int) {
	for _, i := range nodes {
		b.done[i] = true
	}
	b.emit[slices.Max(nodes)] = f
}
