package kernels

import "github.com/memestimate/memestimate/simulate/gpu"

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
	Projection                  int64 // width of an LSTM's output where that is not Hidden, else 0
	Layers                      int64
	Both                        bool  // runs in both directions
	Dropout                     bool  // between layers, in training
	Packed                      int64 // elements of a packed batch, which are fewer than Steps times Batch; else 0
}

// Directions returns 2 for a layer that runs both ways, else 1.
func (s RNNShape) Directions() int64 {
	if s.Both {
		return 2
	}
	return 1
}

// Output returns the width of the output of one direction.
func (s RNNShape) Output() int64 {
	if s.Projection > 0 {
		return s.Projection
	}
	return s.Hidden
}

// matrixBytes returns the bytes of all weights without the biases.
func (s RNNShape) matrixBytes() int64 {
	gates, d := saturate(rnnKinds[s.Kind].gates, s.Hidden), s.Directions()
	first, others := saturate(gates, s.Input+s.Output()), saturate(gates, saturate(d, s.Output())+s.Output())
	sum := first + saturate(others, s.Layers-1) + saturate(s.Projection, s.Hidden, s.Layers)
	return saturate(sum, d, s.Elem)
}

// WeightBytes returns the bytes of all weights and biases, which lie in one block. cuDNN has two biases for each gate,
// also for a module without any.
func (s RNNShape) WeightBytes() int64 {
	return s.matrixBytes() + saturate(2, rnnKinds[s.Kind].gates, s.Hidden, s.Layers, s.Directions(), s.Elem)
}

// elements returns T*N, or how many there are in a packed batch.
func (s RNNShape) elements() int64 {
	if s.Packed > 0 {
		return s.Packed
	}
	return saturate(s.Steps, s.Batch)
}

// ReserveBytes returns the bytes that a call in training saves for its backward pass: for each layer the gates, states
// and outputs of every step, less the last layer's output, which is the result; a bit for each element that dropout may
// drop; and 256. Within 512 bytes in all 37,000 calls that were measured.
func (s RNNShape) ReserveBytes() int64 {
	d, width := s.Directions(), saturate(rnnKinds[s.Kind].kept, s.Hidden)
	if s.Projection > 0 {
		width += s.Hidden + s.Projection
	}
	n := saturate(s.elements(), d, saturate(width, s.Layers)-s.Hidden, s.Elem)
	if s.Dropout {
		n += saturate(s.Steps, s.Batch, d, d, s.Output(), s.Layers-1) / 8
	}
	return n + 256
}

// An rnnAlgorithm is how cuDNN runs a recurrent layer.
type rnnAlgorithm uint8

const (
	standardRNN   rnnAlgorithm = iota // CUDNN_RNN_ALGO_STANDARD
	persistSmall                      // CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H: narrow layers, whose weights stay on chip
	persistStatic                     // CUDNN_RNN_ALGO_PERSIST_STATIC: one layer in float16
)

// rnnKinds holds what distinguishes the kinds. The rest of the row counts tensors in the workspace.
var rnnKinds = [...]struct {
	gates          int64
	kept           int64 // [T, N, H] that the reserve keeps for each layer
	carried        int64 // [N, H] for each layer
	carriedBack    int64 // likewise in a backward pass
	persistentBack int64 // [T, N, H] in a backward pass of the persistent algorithms
}{
	ElmanRNN: {1, 2, 1, 1, 1},
	GRU:      {3, 7, 3, 1, 6},
	LSTM:     {4, 6, 6, 3, 4},
}

// narrowest are the widths up to which get_algo takes the algorithm for narrow layers, forward and backward
// (use_rnn_persist_small_h in RNN.cpp).
var narrowest = [...]struct{ forward, backward int64 }{ElmanRNN: {384, 256}, GRU: {192, 128}, LSTM: {192, 128}}

// algorithm chooses as get_algo of RNN.cpp does. It names the narrow one for bfloat16 too, where cuDNN then takes what
// the standard one does: measured.
func (s RNNShape) algorithm(d gpu.Device, backward bool) rnnAlgorithm {
	half := s.Elem == 2 && s.Float16
	if s.Packed > 0 || s.Projection > 0 || s.Elem == 8 || s.Elem == 2 && !half {
		return standardRNN
	}
	widest := narrowest[s.Kind].forward
	if backward {
		widest = narrowest[s.Kind].backward
	}
	switch {
	case s.Hidden <= widest:
		return persistSmall
	case half && s.Layers == 1 && !s.Both && s.Hidden <= 1024 && s.Hidden%128 == 0 && s.Input%128 == 0 && s.persists(d):
		return persistStatic
	}
	return standardRNN
}

// persists is use_persist_device_heuristics of RNN.cpp.
func (s RNNShape) persists(d gpu.Device) bool {
	n := s.Batch
	switch c := d.Capability; {
	case c.Major == 7 && c.Minor != 5:
		return (n%16 == 0 && n != 80 && n != 112 || n == 8) &&
			(s.Steps >= 40 && n <= 128 || s.Steps >= 20 && n <= 96 || s.Steps >= 10 && n <= 32)
	case c.Major < 8 || d.Multiprocessors < 98 || c.Minor == 6 || s.Kind == GRU:
		return false
	}
	return n%8 == 0 && n <= 128 && (s.Kind == LSTM || n < 96 || s.Hidden < 896)
}

// ForwardWorkspace returns the bytes of the workspace of a call.
func (s RNNShape) ForwardWorkspace(d gpu.Device, train bool) int64 {
	return s.workspace(s.algorithm(d, false), train)
}

// BackwardWorkspace returns the bytes of each of the two workspaces of a backward pass: the data's and the weights'.
func (s RNNShape) BackwardWorkspace(d gpu.Device) int64 {
	return s.workspace(s.algorithm(d, true), true)
}

// workspace is what cudnnGetRNNTempSpaceSizes answers: 8 MiB for each layer and direction, the matrices, and tensors of
// every step, of which a forward pass needs some, and a backward pass others; in training it is room for either. The
// counts were found by linear regression over 20,000 calls on an H200 (scripts/measure/recurrent.py), where they are
// whole numbers; then 16,000 calls of other sizes agreed, every one within 600 bytes, which is what alignment leaves.
func (s RNNShape) workspace(a rnnAlgorithm, train bool) int64 {
	d := s.Directions()
	n := saturate(s.forward(a, train), s.Elem)
	if train {
		n = max(n, saturate(s.backward(a), s.Elem))
	}
	n += saturate(8<<20, s.Layers, d) + s.matrixBytes() + 256
	if s.Packed == 0 {
		n += 8 * s.Batch // the lengths of the sequences
	}
	return min(n, convMaximum)
}

// padding returns the elements of x, y and the initial and final states in the order of a packed batch, in which cuDNN
// computes every batch.
func (s RNNShape) padding() int64 {
	if s.Packed > 0 {
		return 0
	}
	d, state := s.Directions(), s.Output()
	if s.Kind == LSTM {
		state += s.Hidden
	}
	return saturate(s.elements(), s.Input+d*s.Output()) + saturate(2, d, s.Layers, s.Batch, state)
}

// projected returns the elements of the states before an LSTM's projection.
func (s RNNShape) projected() int64 {
	if s.Projection == 0 {
		return 0
	}
	return saturate(s.elements(), s.Hidden, s.Directions())
}

// states returns the elements of the states that all layers carry from step to step.
func (s RNNShape) states(a rnnAlgorithm, carried int64) int64 {
	switch {
	case a != standardRNN && s.Kind == LSTM:
		carried = 4
	case a != standardRNN:
		carried = 2
	}
	if s.Both {
		carried = 2*carried + 4
		if a != standardRNN {
			carried -= 2
		}
	}
	return saturate(carried, s.Layers, s.Batch, s.Hidden)
}

// forward returns the elements of a forward pass.
func (s RNNShape) forward(a rnnAlgorithm, train bool) int64 {
	k, steps := rnnKinds[s.Kind], saturate(s.elements(), s.Hidden)
	n := s.padding() + s.projected() + s.states(a, k.carried)
	switch {
	case s.Both:
		n += saturate(2*k.gates+4, steps)
	case a == standardRNN: // which goes through a longer sequence in pieces
		n += saturate(k.gates, min(s.elements(), saturate(256, s.Batch)), s.Hidden)
	default:
		n += saturate(k.gates, steps)
	}
	if a != standardRNN {
		n += saturate(4, k.gates, steps)
	}
	if train && s.Dropout && !s.Both { // both directions have the room anyway
		n += steps
	}
	return n
}

// backward returns the elements of a backward pass.
func (s RNNShape) backward(a rnnAlgorithm) int64 {
	k, d, steps := rnnKinds[s.Kind], s.Directions(), saturate(s.elements(), s.Hidden)
	n := 2*s.padding() + s.projected() + s.states(a, k.carriedBack)
	widest := max(steps, saturate(s.elements(), s.Input))
	if s.Both {
		widest = saturate(4, widest)
	}
	n += widest
	deep := min(s.Layers, 2) // whether there are layers above the first
	switch a {
	case standardRNN:
		if s.Both {
			n += saturate(2, deep, steps)
		} else {
			n += min(saturate(s.pieces(), s.Batch, s.Hidden), steps)
		}
	case persistSmall:
		n += saturate(8+k.persistentBack, steps) + saturate(d, deep, steps)
	case persistStatic:
		n += saturate(1+k.persistentBack, steps) + max(saturate(8, steps), saturate(2432+s.Batch, s.Hidden))
	}
	return n
}

// pieces returns how many steps of a [N, H] tensor the layers of one direction have in work at a time. One layer has
// all. Several run one behind the other, each some steps ahead of the next: more for a small batch.
func (s RNNShape) pieces() int64 {
	if s.Layers == 1 {
		return s.Steps
	}
	ahead := int64(2)
	switch {
	case s.Batch == 1:
		ahead = 32
	case s.Batch <= 8:
		ahead = 16
	case s.Batch <= 16 || s.Steps >= 128:
		ahead = 8
	case s.Batch <= 96:
		ahead = 4
	}
	return min(s.Steps, saturate(ahead, s.Layers)+max(8, ahead))
}
