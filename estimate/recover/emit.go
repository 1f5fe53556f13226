package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// emitAll makes the calls of all nodes, in order.
func (b *recovery) emitAll() {
	g := b.m.Graph
	for _, id := range g.Inputs {
		v := b.add(program.Value{Name: b.m.NameOf(id), Kind: program.InputValue, DType: b.elem(id), Shape: b.dims(id)})
		b.of[id] = v
		b.prog.Inputs = append(b.prog.Inputs, v)
	}
	runs := 0 // nodes that make a call, as a rule one each
	for i, n := range b.nodes {
		if b.emit[i] != nil || !b.done[i] && !b.hostNode(n) {
			runs++
		}
	}
	b.prog.Calls = make([]program.Call, 0, runs)
	b.prog.Values = slices.Grow(b.prog.Values, runs+len(g.Inits))
	for i, n := range b.nodes {
		b.at = i
		switch {
		case b.emit[i] != nil:
			b.emit[i]()
		case b.done[i] || b.hostNode(n):
		default:
			b.node(n, b.rows[i])
		}
	}
	for _, id := range g.Outputs {
		if id != onnxload.NoValue {
			b.prog.Outputs = append(b.prog.Outputs, b.value(id))
		}
	}
	b.rows, b.emit, b.done, b.calls = nil, nil, nil, nil // what follows looks at the calls
}

func (b *recovery) add(v program.Value) program.ValueID {
	return b.prog.Add(v)
}

// value returns the program's value for an ONNX one. Parameters, buffers and constants
// come into being when they are first asked for.
func (b *recovery) value(id onnxload.ValueID) program.ValueID {
	id = b.id(id)
	if id == onnxload.NoValue {
		return program.NoValue
	}
	if b.of[id] != program.NoValue {
		return b.of[id]
	}
	v := program.Value{Name: b.m.NameOf(id), DType: b.elem(id)}
	switch {
	case b.ofModule(id):
		v.Kind, v.Shape = b.src.Kinds[id], b.dims(id)
		b.of[id] = b.add(v)
		b.prog.State = append(b.prog.State, b.of[id])
		return b.of[id]
	case b.host[id]:
		v.Kind = program.Number
		if b.types.Type(id).Shape.Ranked {
			v.Shape = b.dims(id)
		}
	case b.made[id] < 0 && b.m.Values[id].Init != nil && program.Numel(b.dims(id)) == 1:
		v.Kind, v.Shape = program.Number, b.dims(id)
	default:
		v.Kind, v.Shape = program.Constant, b.dims(id)
	}
	b.of[id] = b.add(v)
	return b.of[id]
}

// transposed returns the parameter that id is the transpose of: a Linear's weight as
// PyTorch keeps it, [out, in].
func (b *recovery) transposed(id onnxload.ValueID) program.ValueID {
	v := b.value(id)
	if p := &b.prog.Values[v]; p.Kind == program.Parameter && len(p.Shape) == 2 && !b.flips[v] {
		b.flips[v] = true // once, however many products share it
		p.Shape = []int64{p.Shape[1], p.Shape[0]}
	}
	return v
}

// result makes a new activation and binds it to an ONNX value.
func (b *recovery) result(id onnxload.ValueID) program.ValueID {
	if id == onnxload.NoValue {
		return program.NoValue
	}
	v := b.add(program.Value{Name: b.m.NameOf(id), DType: b.elem(id), Shape: b.dims(id)})
	b.of[id] = v
	return v
}

// call emits a call whose results are the ONNX values outs.
func (b *recovery) call(op string, args program.Args, in []program.ValueID, outs ...onnxload.ValueID) {
	c := program.Call{Op: op, In: in, Args: b.keepArgs(op, args), Layer: b.layer(b.at),
		Scope: b.scopeOf(b.at)}
	for _, o := range outs {
		c.Out = append(c.Out, b.result(o))
	}
	b.push(c)
}

// temp emits a call whose only result has no ONNX value.
func (b *recovery) temp(op string, args program.Args, dtype program.DType, shape []int64, in ...program.ValueID) program.ValueID {
	v := b.add(program.Value{DType: dtype, Shape: shape})
	b.push(program.Call{Op: op, In: in, Out: []program.ValueID{v}, Args: b.keepArgs(op, args),
		Layer: b.layer(b.at), Scope: b.scopeOf(b.at)})
	return v
}

// keepArgs returns arguments for a call to keep: those of the operator's last call where they are the same.
func (b *recovery) keepArgs(op string, args program.Args) *program.Args {
	last := b.args[op]
	if last == nil || !last.Same(&args) {
		last = args.Kept()
		b.args[op] = last
	}
	return last
}

func (b *recovery) push(c program.Call) {
	c.Origin, c.Stack = int32(b.at), b.nodes[b.at].Stack
	b.prog.Scopes[c.Scope].Cut = b.prog.Scopes[c.Scope].Cut || b.places[b.at].Cut
	if !program.Of(c.Op).Is(program.TakesNumbers) {
		for i, v := range c.In {
			if v != program.NoValue && b.prog.Values[v].Kind == program.Number {
				c.In = slices.Clone(c.In)
				c.In[i] = b.onDevice(v)
			}
		}
	}
	if !b.prog.Fits(&c) {
		b.unknown[c.Origin] = b.nodeName()
		c.Op, c.Args = "opaque", program.Plain
	}
	if n := len(b.prog.Values); n > len(b.calls) {
		b.calls = slices.Grow(b.calls, max(n, cap(b.prog.Values))-len(b.calls))[:n]
	}
	for _, v := range c.Out {
		if v != program.NoValue {
			b.calls[v] = int32(len(b.prog.Calls)) + 1
		}
	}
	b.prog.Calls = append(b.prog.Calls, c)
}

// onDevice returns a tensor of a Python number.
func (b *recovery) onDevice(v program.ValueID) program.ValueID {
	n := b.prog.Values[v]
	return b.temp("fill", program.Args{DType: n.DType, Shape: n.Shape}, n.DType, n.Shape)
}
