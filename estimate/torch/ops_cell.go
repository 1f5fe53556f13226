package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
)

// cellOps are one step of a recurrent module: the products of its input and of its state with their weights, the state
// that the kernel reads, and two biases where it has them. Autocast casts what nn.LSTMCell and nn.GRUCell are called
// with (autocast_mode.h lists both under lower_precision_fp).
var cellOps = []op{
	{"lstm_cell", castLower, runCell(2, 4, 4)},
	{"gru_cell", castLower, runCell(1, 3, 5)}, // GRU_WORKSPACE_MULTIPLIER of aten/src/ATen/native/cuda/RNN.cu
}

// runCell is _thnn_fused_lstm_cell and _thnn_fused_gru_cell (aten/src/ATen/native/cuda/RNN.cu): the new states, and a
// workspace that backward reads, so many times as wide as a state. derivatives.yaml saves it beside what the kernel was
// given. In backward it is the gradients of the products, of the state and of the biases.
func runCell(states int, gates, wide int64) func(*run, *program.Call, []*tensor) []*tensor {
	return func(r *run, _ *program.Call, in []*tensor) []*tensor {
		state, biases := in[2], in[3:]
		batch, hidden := state.shape[0], state.shape[1]
		var outs []*tensor
		for range states { // hy, and cy of an LSTM
			outs = append(outs, r.empty(state.dtype, batch, hidden))
		}
		ws := r.empty(state.dtype, batch, wide*hidden)
		if r.needsGrad(in...) {
			saved := append([]*tensor{}, in...)
			if states > 1 {
				saved = append(saved, outs[1])
			}
			dtype := state.dtype
			r.record("ThnnFusedCell", outs, in, append(saved, ws), func(r *run, n *node, g []*tensor) []*tensor {
				grads := []*tensor{r.empty(dtype, batch, gates*hidden)}
				if states > 1 { // both products have the same
					grads = append(grads, grads[0].retain())
				} else {
					grads = append(grads, r.empty(dtype, batch, gates*hidden))
				}
				grads = append(grads, r.empty(dtype, batch, hidden))
				for i := range biases {
					if i > 0 && states > 1 {
						grads = append(grads, grads[3].retain())
					} else {
						grads = append(grads, r.empty(dtype, gates*hidden))
					}
				}
				return grads
			})
		}
		r.release(ws)
		return outs
	}
}
