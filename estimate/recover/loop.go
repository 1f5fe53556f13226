package recover

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// maxUnrolled is the most nodes that a loop is unrolled into. A longer one runs its body once, and a note says so.
const maxUnrolled = 1 << 12

// A loopShape says how the arguments and results of a Loop or Scan go with those of its body.
type loopShape struct {
	body    *onnxload.Graph
	trips   int64
	numbers int     // body inputs before the carried ones: a Loop's iteration and condition
	first   int     // the node's first carried input
	carried int     // values that go from one iteration to the next
	flags   int     // body outputs before the carried ones: a Loop's condition
	axes    []int64 // of a Scan's taken apart inputs
	outAxes []int64 // of its stacked outputs
}

// loop unrolls a Loop or Scan, as Python's for does: the parameters are shared, every iteration's activations are its
// own. Patterns are not looked for in a body. What cannot be followed is opaque.
func (b *recovery) loop(n *onnxload.Node) {
	s, why := b.loopShape(n)
	if s == nil {
		b.opaque(n)
		return
	}
	if why != "" {
		b.prog.Notes = append(b.prog.Notes, fmt.Sprintf("node %q (%s): %s", n.Name, n.Op, why))
	}
	carried := make([]program.ValueID, s.carried)
	for i := range carried {
		carried[i] = b.value(b.in(n, s.first+i))
	}
	stacked := make([][]program.ValueID, max(0, len(s.body.Outputs)-s.flags-s.carried))
	for range s.trips {
		b.iteration(n, s, carried, stacked)
	}
	for i, v := range carried {
		if i < len(n.Out) && n.Out[i] != onnxload.NoValue {
			b.of[n.Out[i]] = v
		}
	}
	for i, parts := range stacked {
		k := s.carried + i
		if k >= len(n.Out) || n.Out[k] == onnxload.NoValue || !b.isRead(n.Out[k]) {
			continue
		}
		o := n.Out[k]
		shape := b.dims(o)
		axis := axisOf(s.outAxes, i, len(shape))
		if axis < 0 || axis >= len(shape) || shape[axis] != int64(len(parts)) || len(parts) == 0 {
			b.call("fill", program.Args{DType: b.elem(o), Shape: shape}, nil, o)
			continue
		}
		b.call("stack", program.Args{Dim: axis}, parts, o)
	}
}

// iteration emits a body once. It takes the carried values and leaves those of the next iteration.
func (b *recovery) iteration(n *onnxload.Node, s *loopShape, carried []program.ValueID, stacked [][]program.ValueID) {
	for i := range s.body.Nodes {
		for _, o := range s.body.Nodes[i].Out {
			if !b.ofModule(o) {
				b.of[o] = program.NoValue
			}
		}
	}
	for i, id := range s.body.Inputs {
		switch k := i - s.numbers - s.carried; {
		case i < s.numbers:
			b.host[id] = true
		case k < 0:
			b.of[id] = carried[i-s.numbers]
		default: // a slice of a tensor that a Scan takes apart
			from := b.in(n, s.first+s.carried+k)
			b.of[id] = b.temp("select", program.Args{Dim: axisOf(s.axes, k, len(b.dims(from)))}, b.elem(id), b.dims(id),
				b.value(from))
		}
	}
	for i := range s.body.Nodes {
		m := &s.body.Nodes[i]
		if len(m.Out) == 0 || m.Output(0) == onnxload.NoValue || b.keepsWeight(m) {
			continue
		}
		switch {
		case b.isName(m):
			b.same[m.Output(0)] = b.in(m, 0)
		case b.inHost(m):
			for _, o := range m.Out {
				if o != onnxload.NoValue {
					b.host[o] = true
				}
			}
		default:
			row, _ := b.rowOf(m)
			b.node(m, row)
		}
	}
	next := make([]program.ValueID, s.carried)
	for i := range next {
		next[i] = b.value(s.body.Outputs[s.flags+i])
	}
	copy(carried, next)
	for i := range stacked {
		id := s.body.Outputs[s.flags+s.carried+i]
		stacked[i] = append(stacked[i], b.device(b.value(id), id))
	}
}

// inHost reports whether Python computes a node of a body: shapes, numbers, and what comes from them alone.
func (b *recovery) inHost(m *onnxload.Node) bool {
	switch {
	case m.Domain != "":
		return false
	case m.Op == "Shape" || m.Op == "Size":
		return true
	case m.Op == "Constant":
		return program.Numel(b.dims(m.Output(0))) == 1
	}
	for j := range m.In {
		if id := b.in(m, j); id != onnxload.NoValue && !b.host[id] &&
			(b.m.Values[id].Init == nil || program.Numel(b.dims(id)) != 1) {
			return false
		}
	}
	return len(m.In) > 0
}

// loopShape reads a Loop or Scan whose body can be emitted; nil when it has values of no known size, or graphs of its
// own. why is what the user should know of it.
func (b *recovery) loopShape(n *onnxload.Node) (s *loopShape, why string) {
	flow, ok := b.types.Flow(n)
	if !ok || flow.Body == nil {
		return nil, ""
	}
	s = &loopShape{body: flow.Body, trips: 1}
	if n.Op == "Loop" {
		s.numbers, s.first, s.flags = 2, 2, 1
		s.carried = len(s.body.Inputs) - 2
	} else {
		if n.Version < 9 {
			return nil, "" // with a batch dimension before all
		}
		s.carried = len(s.body.Inputs) - int(attrInt(n, "num_scan_inputs", 0))
		s.axes, s.outAxes = attrInts(n, "scan_input_axes"), attrInts(n, "scan_output_axes")
	}
	inputs := len(n.In) - s.first
	if s.carried < 0 || inputs < s.carried || s.carried > len(s.body.Outputs)-s.flags ||
		inputs < len(s.body.Inputs)-s.numbers {
		return nil, ""
	}
	for i := s.first; i < len(n.In); i++ {
		if !b.sized(b.in(n, i)) {
			return nil, ""
		}
	}
	all := [][]onnxload.ValueID{s.body.Inputs[s.numbers:], s.body.Outputs}
	for i := range s.body.Nodes {
		m := &s.body.Nodes[i]
		if slices.ContainsFunc(m.Attrs, func(a onnxload.Attr) bool { return len(a.Graphs) > 0 }) {
			return nil, ""
		}
		all = append(all, m.In, m.Out)
	}
	for _, ids := range all {
		for _, id := range ids {
			if id != onnxload.NoValue && !b.sized(id) {
				return nil, ""
			}
		}
	}
	trips, known := flow.Trips.Int()
	switch nodes := int64(max(1, len(s.body.Nodes))); {
	case !known || !flow.Certain:
		why = "how often its body runs depends on data: it is taken to run once"
	case trips > maxUnrolled/nodes:
		why = fmt.Sprintf("its body runs %d times: it is taken to run once, so what it saves is not counted in full", trips)
	default:
		s.trips = max(trips, 0)
	}
	return s, why
}

// sized reports whether a value is a tensor whose sizes are all known.
func (b *recovery) sized(id onnxload.ValueID) bool {
	id = b.id(id)
	if !b.isTensor(id) {
		return false
	}
	s := b.types.Type(id).Shape
	if !s.Ranked {
		return false
	}
	for _, d := range s.Dims {
		d = b.settled(d)
		if _, ok := d.Int(); !ok {
			return false
		}
	}
	return true
}

// axisOf returns the axis of a list for tensors of this rank, counted from the front; 0 when the list ends before.
func axisOf(axes []int64, i, rank int) int {
	if i >= len(axes) {
		return 0
	}
	a := int(axes[i])
	if a < 0 {
		a += rank
	}
	return a
}

// captured marks the values that a node's graphs read: patterns leave them alone.
func (b *recovery) captured(n *onnxload.Node) {
	flow, ok := b.types.Flow(n)
	if !ok || flow.Body == nil {
		return
	}
	for i := range flow.Body.Nodes {
		for _, id := range flow.Body.Nodes[i].In {
			if id = b.id(id); id != onnxload.NoValue {
				b.out[id] = true
			}
		}
	}
	for _, id := range flow.Body.Outputs {
		if id = b.id(id); id != onnxload.NoValue {
			b.out[id] = true
		}
	}
}
