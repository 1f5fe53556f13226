package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// rnnOps are the recurrent modules over [T, N, I]: the input, the initial states (NoValue for zeros),
// then the weights and biases, which lie in one block. The results are the output and the final states.
var rnnOps = []op{
	{"lstm", castNone, runRNN(kernels.LSTM)}, // autocast has a rule of its own: _cudnn_rnn_cast_reflatten
	{"gru", castNone, runRNN(kernels.GRU)},
	{"rnn", castNone, runRNN(kernels.ElmanRNN)},
}

// runRNN is _cudnn_rnn (aten/src/ATen/native/cudnn/RNN.cpp): see workspace.RNNShape for what it allocates.
func runRNN(kind kernels.RNNKind) func(*run, *program.Call, []*tensor) []*tensor {
	states := 1
	if kind == kernels.LSTM {
		states = 2
	}
	return func(r *run, c *program.Call, in []*tensor) []*tensor {
		x, weights := in[0], in[3:]
		dtype := x.dtype
		var cast []*tensor
		var flat *storage
		if r.amp != nil {
			dtype = program.Float16 // whatever autocast's type: AutocastRNN.cpp names kHalf
			x = r.to(x, dtype)
			cast = append(cast, x)
		}
		s := kernels.RNNShape{
			Kind: kind, Elem: dtype.Bits() / 8, Float16: dtype == program.Float16,
			Steps: x.shape[0], Batch: x.shape[1], Input: x.shape[2],
			Hidden: c.Args.Hidden, Layers: c.Args.Layers, Both: c.Args.Both,
			Dropout: c.Args.P > 0 && c.Args.Train && c.Args.Layers > 1, Packed: c.Args.Packed,
		}
		if s.Packed > 0 { // pack_padded_sequence
			x = r.rowsOf("PackPaddedSequence", x, s.Packed, s.Input)
			cast = append(cast, x)
		}
		stateShape := []int64{s.Layers * s.Directions(), s.Batch, s.Hidden}
		if r.amp != nil {
			flat = r.alloc(s.WeightBytes(), timeline.Activation)
		}
		var initial, given []*tensor // given are those of the initial states that are not zeros
		for i := range states {
			if h := in[1+i]; h != nil && !h.host {
				initial = append(initial, r.to(h, dtype))
				given = append(given, initial[i])
			} else {
				initial = append(initial, r.empty(dtype, stateShape...))
			}
		}
		r.dnn[r.thread()] = true
		var random *storage
		if s.Dropout { // get_dropout_state keeps one for each device, for good
			if r.dropoutState == nil {
				r.dropoutState = r.alloc(kernels.DropoutState(*r.opts.GPU), timeline.Workspace)
			}
			random = r.dropoutState
		}
		xi := r.inLayout(x, inRows)
		out := r.empty(dtype, sequence(s, s.Hidden*s.Directions())...)
		var final []*tensor
		for range states {
			final = append(final, r.empty(dtype, stateShape...))
		}
		if flat == nil && !oneBlock(weights) {
			flat = r.alloc(s.WeightBytes(), timeline.Activation)
		}
		ws := r.alloc(s.ForwardWorkspace(*r.opts.GPU, c.Args.Train), timeline.Workspace)
		ins := slices.Concat(one(x), weights, given)
		grad := r.needsGrad(ins...)
		var reserve *storage
		if c.Args.Train {
			reserve = r.alloc(s.ReserveBytes(), timeline.Activation)
		}
		r.drop(ws)
		r.release(xi)
		if reserve != nil && !grad {
			r.drop(reserve)
		}
		if grad {
			xc, like := *x, make([]operand, len(weights))
			for i, w := range weights {
				like[i] = w.operand()
			}
			n := r.record("CudnnRnn", append([]*tensor{out}, final...), ins, append(append([]*tensor{}, initial...), x, out),
				func(r *run, n *node, g []*tensor) []*tensor {
					return r.rnnBackward(n, g, s, &xc, dtype, stateShape, states, like)
				})
			if reserve != nil { // cuDNN has no backward pass in evaluation
				n.saved = append(n.saved, reserve)
			}
			if random != nil {
				random.refs++
				n.saved = append(n.saved, random)
			}
			if flat != nil {
				n.saved = append(n.saved, flat)
			}
		} else if flat != nil {
			r.drop(flat)
		}
		for _, t := range append(initial, cast...) {
			r.release(t)
		}
		if s.Packed > 0 { // pad_packed_sequence
			packed := out
			out = r.rowsOf("PadPackedSequence", packed, s.Steps, s.Batch, s.Hidden*s.Directions())
			r.release(packed)
		}
		return append([]*tensor{out}, final...)
	}
}

// sequence is the shape of what a recurrent layer reads or makes: [T, N, width], or the rows of a packed batch.
func sequence(s kernels.RNNShape, width int64) []int64 {
	if s.Packed > 0 {
		return []int64{s.Packed, width}
	}
	return []int64{s.Steps, s.Batch, width}
}

// rowsOf copies rows of a tensor into one of another shape, which saves nothing.
func (r *run) rowsOf(name string, x *tensor, shape ...int64) *tensor {
	out := r.empty(x.dtype, shape...)
	if r.needsGrad(x) {
		of := slices.Clone(x.shape)
		r.record(name, one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.empty(g[0].dtype, of...))
		})
	}
	return out
}

// oneBlock reports whether weights lie in one block. Where they do not, a call copies them into one.
func oneBlock(weights []*tensor) bool {
	for _, w := range weights {
		if w.st != weights[0].st {
			return false
		}
	}
	return true
}

// rnnBackward computes the gradients of the data and of the initial states, then those of the weights, which are views
// of one block or copied out of it (_cudnn_rnn_backward in RNN.cpp).
func (r *run) rnnBackward(n *node, g []*tensor, s kernels.RNNShape, x *tensor, dtype program.DType, stateShape []int64,
	states int, weights []operand) []*tensor {
	r.dnn[r.thread()] = true
	var temps []*tensor
	hold := func(t *tensor) *tensor { temps = append(temps, t); return t }
	gy := g[0]
	// zeros for an output that nothing used, laid out as the output is: with the batch first where the input has it so
	if gy == nil {
		width := s.Hidden * s.Directions()
		stride := []int64{s.Batch * width, width, 1}
		if !x.isContiguous() {
			stride = []int64{width, s.Steps * width, 1}
		}
		if s.Packed > 0 {
			stride = []int64{width, 1}
		}
		gy = hold(r.strided(dtype, sequence(s, width), stride))
	}
	for i := range states { // and for the final states
		if g[1+i] == nil {
			hold(r.empty(dtype, stateShape...))
		}
	}
	outs := make([]*tensor, len(n.next))
	xi := r.inLayout(x, inRows)
	dy := r.inLayout(gy, inRows)
	dx := r.empty(dtype, sequence(s, s.Input)...)
	for i := range states {
		if dh, at := r.empty(dtype, stateShape...), 1+len(weights)+i; n.wants(at) {
			outs[at] = dh
		} else {
			hold(dh)
		}
	}
	r.scratch(s.BackwardWorkspace(*r.opts.GPU), timeline.Workspace)
	r.release(dy)
	r.release(xi)
	xi = r.inLayout(x, inRows)
	r.rnnWeights(n, outs, s, dtype, weights)
	r.release(xi)
	for _, t := range temps {
		r.release(t)
	}
	if n.wants(0) {
		outs[0] = dx
	} else {
		r.release(dx)
	}
	return outs
}

// rnnWeights computes the gradients of the weights in one block. Without biases, which cuDNN's block has room for in
// any case, its parts are not those of the weights, which are copied out of it (_cudnn_rnn_backward_weight).
func (r *run) rnnWeights(n *node, outs []*tensor, s kernels.RNNShape, dtype program.DType, weights []operand) {
	dw := r.alloc(s.WeightBytes(), timeline.Gradient)
	ws := r.alloc(s.BackwardWorkspace(*r.opts.GPU), timeline.Workspace)
	copied := !slices.ContainsFunc(weights, func(w operand) bool { return !isMatrix(w.shape) })
	for i, w := range weights {
		switch {
		case !n.wants(i + 1):
		case copied:
			outs[i+1] = r.empty(dtype, w.shape...)
		default:
			dw.refs++
			outs[i+1] = &tensor{layout: r.layouts.rowMajor(w.shape), st: dw, dtype: dtype, refs: 1}
		}
	}
	r.drop(ws)
	r.drop(dw)
}

// isMatrix reports whether a weight is one of a module's matrices: biases are vectors, which some exporters keep as
// [1, N].
func isMatrix(shape []int64) bool { return len(shape) == 2 && shape[0] > 1 }

// flatten is flatten_parameters, which RNN modules call when they have moved: one block for all weights,
// and then the separate ones are let go. It leaves bfloat16 alone, which is_acceptable of
// torch/backends/cudnn does not list.
func (r *run) flatten(weights []*tensor) {
	if len(weights) > 0 && weights[0].dtype == program.BFloat16 {
		return
	}
	var bytes, biases int64
	for _, t := range weights {
		bytes += t.bytes()
		biases += program.BytesOf(t.shape[0], t.dtype)
	}
	if !slices.ContainsFunc(weights, func(t *tensor) bool { return !isMatrix(t.shape) }) {
		bytes += biases
	}
	flat := r.alloc(bytes, timeline.Parameter)
	flat.state = true
	for _, t := range weights {
		r.drop(t.st)
		flat.refs++
		t.st = flat
	}
	r.drop(flat)
}
