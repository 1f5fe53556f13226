package workspace

import "github.com/memestimate/memestimate/estimate/gpu"

// An RNNKind is a family of recurrent layers.
type RNNKind uint8

// The kinds of recurrent layers.
const (
	ElmanRNN RNNKind = iota
	GRU
	LSTM
)

// dropoutStateBytes is what cudnnDropoutGetStatesSize asks for each multiprocessor: measured, 6,488,064 for the 132 of
// an H200.
const dropoutStateBytes = 48 << 10

// DropoutState returns the bytes of the random numbers' state that dropout in recurrent layers keeps for good.
func DropoutState(d gpu.Device) int64 { return dropoutStateBytes * int64(d.Multiprocessors) }

// rnnKinds holds what distinguishes the kinds: gates; tensors of [T, N, H] that the
// reserve keeps for each layer; and the workspace's figures of [T, N, H] and
// [N, H] tensors, for wide layers.
var rnnKinds = [...]struct{ gates, kept, wideSteps, wideStates int64 }{
	ElmanRNN: {1, 2, 3, 6},
	GRU:      {3, 7, 4, 8},
	LSTM:     {4, 6, 5, 10},
}

// An RNNShape is a recurrent module as cuDNN sees it (nn.RNN, nn.GRU, nn.LSTM).
//
// The events of a call in training, time first: the initial states that the caller
// did not give, [L*D, N, H] each (two for an LSTM); x made contiguous as [T, N, I],
// unless it already is; the output [T, N, D*H]; the final states; the flat weights
// again, when they are no longer one block, as after .to(dtype); the workspace; the
// reserve, which is saved; then the workspace, x's copy and the final states go.
// Backward: gradients of the final states, x's copy, dx, gradients of the initial
// states, the workspace; then x's copy again, the flat gradient of the weights, and
// the workspace a second time (aten/src/ATen/native/cudnn/RNN.cpp).
type RNNShape struct {
	Kind                        RNNKind
	Elem                        int64 // bytes of an element
	Float16                     bool  // of two bytes: float16, not bfloat16
	Steps, Batch, Input, Hidden int64
	Layers                      int64
	Both                        bool // runs in both directions
	Dropout                     bool // between layers, in training
}

// Directions returns 2 for a layer that runs both ways, else 1.
func (s RNNShape) Directions() int64 {
	if s.Both {
		return 2
	}
	return 1
}

// WeightBytes returns the bytes of all weights and biases, which lie in one block.
func (s RNNShape) WeightBytes() int64 {
	gates := saturate(rnnKinds[s.Kind].gates, s.Hidden)
	sum := int64(0)
	in := s.Input
	for l := range min(s.Layers, 2) {
		one := saturate(gates, in+s.Hidden+2)
		if l == 1 {
			one = saturate(one, s.Layers-1) // all layers but the first are alike
		}
		sum += one
		in = saturate(s.Hidden, s.Directions())
	}
	return saturate(saturate(sum, s.Directions()), s.Elem)
}

// step returns the elements of a [T, N, D*H] tensor.
func (s RNNShape) step() int64 {
	return saturate(saturate(s.Steps, s.Batch), saturate(s.Hidden, s.Directions()))
}

// ReserveBytes returns the bytes that a call in training saves for its backward
// pass: for each layer the gates, states and outputs of every step, less the last
// layer's output, which is the result; a bit for each element that dropout may
// drop; and 256. Exact in all 102 cases measured.
func (s RNNShape) ReserveBytes() int64 {
	n := saturate(saturate(s.step(), s.Elem), saturate(rnnKinds[s.Kind].kept, s.Layers)-1)
	if s.Dropout {
		n += saturate(saturate(s.step(), s.Directions()), s.Layers-1) / 8
	}
	return n + 256
}

// WorkspaceBytes returns the workspace of a call, forward and backward alike: 8 MiB
// for each layer and direction, the weights, and copies of some tensors of
// every step. Which copies is fitted: for wide layers the figures are whole and
// within 2 % for LSTM and GRU; narrow layers run in other kernels, and are within 10 %. The cases measured one by
// one are of float32 and bfloat16. In float16, which autocast casts to, a narrow layer takes as many copies as in
// float32: an LSTM in both directions had six more of every step than in bfloat16, forward and backward.
func (s RNNShape) WorkspaceBytes() int64 {
	k := rnnKinds[s.Kind]
	d := s.Directions()
	steps, inputs := s.step(), saturate(saturate(s.Steps, s.Batch), s.Input)
	states := saturate(saturate(s.Batch, s.Hidden), saturate(s.Layers, d))
	var a, b, both int64 // of [T, N, D*H], of [T, N, I], of [T, N, D*H] once more in both directions
	half := s.Elem == 2 && !s.Float16
	switch narrow := s.narrow(); {
	case !narrow && s.Kind == ElmanRNN:
		a, b = 3, 6
	case !narrow:
		a, b, both = k.wideSteps, 1, 2
	case s.Kind == LSTM && half:
		a, b, both = 0, 5, 5
	case s.Kind == LSTM:
		a, b, inputs = 10, 6, max(inputs, steps)
	case s.Kind == GRU && half:
		a, b, both, inputs = 1, 4, 4, max(inputs, steps)
	case s.Kind == GRU:
		a, b, inputs = 13, 4, max(inputs, steps)
	case half:
		a, b, both = 3, 3, 3
	default:
		a, b = 10, 4
	}
	n := saturate(a, steps) + saturate(b, inputs) + saturate(both*(d-1), steps) + saturate(k.wideStates, states)
	if s.Dropout && !s.Both { // in both directions what is dropped lies in the copies that these have anyway: measured
		n += steps
	}
	return saturate(8<<20, saturate(s.Layers, d)) + s.WeightBytes() + saturate(n, s.Elem)
}

// narrow says whether the layer is of the width for which cuDNN has kernels that
// keep the weights on chip.
func (s RNNShape) narrow() bool {
	if s.Kind == ElmanRNN {
		return s.Hidden <= 256
	}
	return s.Hidden <= 128
}
