package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchRNN returns the pattern of a recurrent module: ONNX has a node for each layer, PyTorch one call.
// Between layers lie the nodes that bring [T, D, N, H] to [T, N, D*H], and dropout.
func matchRNN(op string) func(b *recovery, i int) {
	return func(b *recovery, i int) {
		first := b.nodes[i]
		hidden := attrInt(first, "hidden_size", 0)
		layers := []*onnxload.Node{first}
		members := []int{i}
		args := program.Args{Hidden: hidden, Train: b.src.Train, Packed: b.packed(first)}
		if a := first.Attr("direction"); a != nil {
			args.Both = a.Str == "bidirectional"
		}
		last, out, at := first, onnxload.NoValue, i // and the node of the last
		for {
			v, between := b.sequenceOutput(last.Output(0))
			if v == onnxload.NoValue {
				break
			}
			members = append(members, between...)
			out = v
			p, inner := 0.0, []int{}
			if d, di := b.user(v, "Dropout"); d != nil && b.places[di].Module == b.places[i].Module {
				p, v = 0.5, d.Output(0)
				if x, ok := b.number(b.in(d, 1)); ok {
					p = x
				}
				inner = append(inner, di)
			}
			next, ni := b.user(v, first.Op)
			if next == nil || b.in(next, 0) != b.id(v) || b.places[ni].Module != b.places[i].Module ||
				attrInt(next, "hidden_size", 0) != hidden {
				break
			}
			args.P = max(args.P, p)
			layers, last, at = append(layers, next), next, ni
			members = append(append(members, inner...), ni)
		}
		if out == onnxload.NoValue && !b.finalStateAlone(first) {
			return
		}
		args.Layers = int64(len(layers))
		outs := []onnxload.ValueID{out}
		for k := 1; k < len(first.Out); k++ {
			state, more := b.finalState(layers, k)
			outs = append(outs, state)
			members = append(members, more...)
		}
		var initial []onnxload.ValueID
		for _, slot := range []int{5, 6} {
			state, slices := b.initialState(layers, slot)
			initial = append(initial, state)
			members = append(members, slices...)
		}
		for _, k := range members {
			b.done[k] = true
		}
		// In place of the last layer: what puts the final states together may come after the first reader of the
		// sequence.
		b.emit[at] = func() {
			in := []program.ValueID{b.value(b.in(first, 0)), program.NoValue, program.NoValue}
			for k, s := range initial {
				if s != onnxload.NoValue && !b.fixed[b.id(s)] {
					in[1+k] = b.value(s)
				}
			}
			var weights []program.ValueID
			for _, l := range layers {
				for _, slot := range []int{1, 2, 3} {
					for _, p := range b.sourceParameters(b.in(l, slot)) {
						if v := b.value(p); !slices.Contains(weights, v) {
							weights = append(weights, v)
						}
					}
				}
			}
			if len(weights) > 0 {
				b.prog.Flat = append(b.prog.Flat, weights)
			}
			b.call(op, args, append(in, weights...), outs...)
		}
	}
}

// finalStateAlone reports whether a layer's final state is read and its sequence is not, which PyTorch makes all the
// same: _, h = self.gru(x).
func (b *recovery) finalStateAlone(n *onnxload.Node) bool {
	read := func(k int) bool { return k < len(n.Out) && n.Out[k] != onnxload.NoValue && b.isRead(n.Out[k]) }
	return b.recurs(n) && !read(0) && (read(1) || read(2))
}

// recurs reports whether it is known over what a layer's node runs: [T, N, I], with states of some size.
func (b *recovery) recurs(n *onnxload.Node) bool {
	hidden := attrInt(n, "hidden_size", 0)
	return len(b.dims(b.in(n, 0))) == 3 && hidden > 0 && hidden <= 1<<30 && attrInt(n, "layout", 0) == 0
}

// recurrent emits the call of a recurrent module of one layer over x, and returns its sequence, [T, N, D*H].
func (b *recovery) recurrent(op string, args program.Args, x onnxload.ValueID, in []program.ValueID,
	states []onnxload.ValueID) program.ValueID {
	dirs, dims := int64(1), b.dims(x)
	if args.Both {
		dirs = 2
	}
	y := b.add(program.Value{DType: b.elem(x), Shape: []int64{dims[0], dims[1], dirs * args.Hidden}})
	c := program.Call{Op: op, In: in, Out: []program.ValueID{y}, Args: &args, Layer: b.layer(b.at), Scope: b.scopeOf(b.at)}
	for _, s := range states {
		c.Out = append(c.Out, b.result(s))
	}
	b.push(c)
	return y
}

// packed returns how many elements a packed batch has that a recurrent layer runs on, 0 where it is given no lengths:
// all of a padded one, as data decides how long the sequences are, or one long sequence and many of one step.
func (b *recovery) packed(n *onnxload.Node) int64 {
	lengths, x := b.in(n, 4), b.dims(b.in(n, 0))
	if lengths == onnxload.NoValue || b.fixed[b.id(lengths)] || len(x) != 3 {
		return 0
	}
	if b.src.Fewest {
		return x[0] + x[1] - 1
	}
	return x[0] * x[1]
}

// sequenceOutput follows a layer's [T, D, N, H] to the [T, N, D*H] that the module works on.
func (b *recovery) sequenceOutput(y onnxload.ValueID) (onnxload.ValueID, []int) {
	if y == onnxload.NoValue {
		return onnxload.NoValue, nil
	}
	if s, i := b.user(y, "Squeeze"); s != nil {
		return s.Output(0), []int{i}
	}
	if t, i := b.user(y, "Transpose"); t != nil {
		if r, j := b.user(t.Output(0), "Reshape"); r != nil {
			return r.Output(0), []int{i, j}
		}
	}
	return onnxload.NoValue, nil
}

// finalState returns the value of a final state of the whole module: the layer's own, or the concatenation
// over the layers; NoValue when nothing reads it.
func (b *recovery) finalState(layers []*onnxload.Node, k int) (onnxload.ValueID, []int) {
	id := layers[0].Out[k]
	if id == onnxload.NoValue || len(b.usesOf(b.id(id))) == 0 && !b.out[b.id(id)] {
		return onnxload.NoValue, nil
	}
	if len(layers) == 1 {
		return id, nil
	}
	if c, i := b.user(id, "Concat"); c != nil {
		return c.Output(0), []int{i}
	}
	return onnxload.NoValue, nil
}

// initialState returns the value that the layers' initial states at an input are from: the layer's own, or the one that
// exporters slice for each layer, with the slices that nothing else reads (retrieve_state of _generic_rnn in
// torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py).
func (b *recovery) initialState(layers []*onnxload.Node, slot int) (state onnxload.ValueID, slices []int) {
	if state = b.in(layers[0], slot); len(layers) == 1 {
		return state, nil
	}
	for k, l := range layers {
		s := b.in(l, slot)
		if s == onnxload.NoValue {
			return onnxload.NoValue, nil
		}
		n, i := b.producer(s)
		if n == nil || n.Op != "Slice" || k > 0 && b.id(b.in(n, 0)) != b.id(state) {
			return onnxload.NoValue, nil
		}
		state = b.in(n, 0)
		if len(b.usesOf(b.id(n.Output(0)))) == 1 {
			slices = append(slices, i)
		}
	}
	return state, slices
}

// sourceParameters returns the parameters that a layer's packed weights were put together from, in
// their order: exporters slice them to reorder the gates, concatenate and unsqueeze them.
func (b *recovery) sourceParameters(id onnxload.ValueID) []onnxload.ValueID {
	var found []onnxload.ValueID
	work := []onnxload.ValueID{id}
	for steps := 0; len(work) > 0 && steps < 1000; steps++ {
		v := work[0]
		work = work[1:]
		if v == onnxload.NoValue {
			continue
		}
		v = b.id(v)
		if b.src.Kinds[v] == program.Parameter {
			if !slices.Contains(found, v) {
				found = append(found, v)
			}
			continue
		}
		if n, _ := b.producer(v); n != nil {
			switch n.Op {
			case "Concat":
				for j := range n.In {
					work = append(work, b.in(n, j))
				}
			case "Unsqueeze", "Slice", "Squeeze", "Reshape", "Transpose":
				work = append(work, b.in(n, 0))
			}
		}
	}
	return found
}

// emitRNN emits one layer that is in no module: the call of a module of that layer, with its output seen as
// [T, D, N, H], as ONNX has it.
func emitRNN(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		args := program.Args{Hidden: attrInt(n, "hidden_size", 0), Layers: 1, Train: b.src.Train,
			Packed: b.packed(n)}
		dirs := int64(1)
		if a := n.Attr("direction"); a != nil && a.Str == "bidirectional" {
			args.Both, dirs = true, 2
		}
		if !b.recurs(n) {
			emitGeneral(b, n)
			return
		}
		in := []program.ValueID{b.value(b.in(n, 0)), b.value(b.in(n, 5)), b.value(b.in(n, 6))} // x, h, and c of an LSTM
		for _, slot := range []int{1, 2, 3} {
			if v := b.value(b.in(n, slot)); v != program.NoValue {
				in = append(in, v)
			}
		}
		y := b.recurrent(op, args, b.in(n, 0), in, n.Out[1:])
		if n.Output(0) == onnxload.NoValue {
			return
		}
		x, d := b.dims(b.in(n, 0)), b.elem(b.in(n, 0))
		shape := []int64{x[0], x[1], dirs, args.Hidden}
		v := b.temp("reshape", program.Args{Shape: shape}, d, shape, y)
		b.call("permute", program.Args{Dims: []int{0, 2, 1, 3}}, []program.ValueID{v}, n.Output(0))
	}
}
