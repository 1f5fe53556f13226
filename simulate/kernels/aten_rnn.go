package kernels

// atenRNN are cuDNN's recurrent layers (aten/src/ATen/native/cudnn/RNN.cpp).
var atenRNN = []operator{
	{"_cudnn_rnn", on((*Kernels).rnn, 0)},
	{"_cudnn_rnn_backward", on((*Kernels).rnnBackward, 0, 6)},
	{"_cudnn_rnn_flatten_weight", nil},
	{"_cudnn_init_dropout_state", (*Kernels).dropoutState},
	{"_thnn_fused_lstm_cell", nil},
	{"_thnn_fused_lstm_cell_backward_impl", func(k *Kernels, c *Call) { k.cellBackward(c, 1, 2) }},
	{"_thnn_fused_gru_cell", nil},
	{"_thnn_fused_gru_cell_backward", func(k *Kernels, c *Call) { k.cellBackward(c, 2, 3) }},
}

// newRNN reads the arguments from the mode on, which is argument i, of an input [T, N, I], or [N, T, I] with the batch
// first, or packed: [sum of the lengths, I], with as many sequences at each step as the argument batch_sizes says.
func newRNN(c *Call, x *Tensor, i int) RNNShape {
	kinds := []RNNKind{ElmanRNN, ElmanRNN, LSTM, GRU} // cudnnRNNMode_t: relu, tanh, LSTM, GRU
	s := RNNShape{
		Kind: kinds[c.int(i)&3], Elem: x.Elem, Float16: x.DType == "float16",
		Steps: x.size(0), Batch: x.size(1), Input: x.size(2),
		Hidden: c.int(i + 1), Projection: c.int(i + 2), Layers: c.int(i + 3), Both: c.flag(i + 7),
		Dropout: c.arg(i+5).Float > 0 && c.flag(i+6) && c.int(i+3) > 1,
	}
	switch packed := c.ints(i + 8); {
	case len(packed) > 0:
		s.Steps, s.Batch, s.Input, s.Packed = int64(len(packed)), packed[0], x.size(1), x.size(0)
	case c.flag(i + 4):
		s.Steps, s.Batch = s.Batch, s.Steps
	}
	return s
}

// timeFirst returns the input as [T, N, I].
func timeFirst(x *Tensor, batchFirst bool) *Tensor {
	if !batchFirst || len(x.Shape) != 3 {
		return x
	}
	return NewTensor(x.DType, []int64{x.Shape[1], x.Shape[0], x.Shape[2]}, []int64{x.Stride[1], x.Stride[0], x.Stride[2]},
		x.Host)
}

// rnn is _cudnn_rnn(input, weight, weight_stride0, weight_buf, hx, cx, mode, hidden_size, proj_size, num_layers,
// batch_first, dropout, train, bidirectional, batch_sizes, dropout_state) -> output, hy, cy, reserve, weight_buf.
func (k *Kernels) rnn(c *Call) {
	x := c.tensor(0)
	s := newRNN(c, x, 6)
	k.dnnOn[k.thread] = true
	if s.Dropout && !k.dropout { // get_dropout_state keeps one for each device, for good
		k.dropout = true
		k.take(DropoutState(k.device))
	}
	xi := k.copyTo(timeFirst(x, c.flag(10)), RowMajor)
	k.makes(0, 1, 2, 4)
	n := k.take(s.ForwardWorkspace(k.device, c.flag(12)))
	if c.flag(12) {
		k.makesAs(3, s.ReserveBytes())
	}
	k.give(n, xi)
}

// rnnBackward is _cudnn_rnn_backward(input, weight, weight_stride0, weight_buf, hx, cx, output, grad_output, grad_hy,
// grad_cy, mode, ...) -> the gradients of input, hx, cx and the weights, which are views of one block.
func (k *Kernels) rnnBackward(c *Call) {
	x, y := c.tensor(0), c.tensor(6)
	s := newRNN(c, x, 10)
	k.dnnOn[k.thread] = true
	batchFirst := c.flag(14)
	var temps []int
	g := c.tensor(7)
	if g == nil { // zeros for an output that nothing used, row by row, so that those of a batch first are copied
		g = NewTensor(y.DType, y.Shape, RowMajor(y.Shape), y.Host)
		temps = append(temps, k.take(y.Bytes()))
	}
	if c.tensor(8) == nil && c.tensor(4) != nil {
		temps = append(temps, k.take(c.tensor(4).Bytes()))
	}
	if c.tensor(9) == nil && c.tensor(5) != nil {
		temps = append(temps, k.take(c.tensor(5).Bytes()))
	}
	x, g = timeFirst(x, batchFirst), timeFirst(g, batchFirst)
	xi, gi := k.copyTo(x, RowMajor), k.copyTo(g, RowMajor)
	k.makes(0, 1, 2)
	k.scratch(s.BackwardWorkspace(k.device))
	k.give(gi, xi)
	if len(c.Results) > 3 {
		k.rnnWeights(c, x, s)
	}
	k.give(temps...)
}

// rnnWeights computes the gradients of the weights. They are views of one block where the module has cuDNN's biases,
// and copies out of it where it has none, so that their number is another (_cudnn_rnn_backward_weight).
func (k *Kernels) rnnWeights(c *Call, x *Tensor, s RNNShape) {
	xi := k.copyTo(x, RowMajor)
	var weights []int
	for i := 3; i < len(c.Results); i++ {
		weights = append(weights, i)
	}
	if c.int(2) < 4 {
		block := k.take(s.WeightBytes())
		n := k.take(s.BackwardWorkspace(k.device))
		k.makes(weights...)
		k.give(n, block)
	} else {
		k.makes(weights...)
		k.scratch(s.BackwardWorkspace(k.device))
	}
	k.give(xi)
}

// dropoutState is _cudnn_init_dropout_state, whose result is the state.
func (k *Kernels) dropoutState(c *Call) {
	k.dropout = true
	k.makesAs(0, DropoutState(k.device))
}

// cellBackward makes the gradients of a cell's gates, which are its first results, and of its state; then those of the
// biases, which are sums over the batch (_thnn_fused_lstm_cell_backward_impl_cuda, cuda/RNN.cu). At the peak of a graph
// network on an H200 the sum over 22,000 x 768 gates had 129 MiB.
func (k *Kernels) cellBackward(c *Call, gates, biases int) {
	for i := range biases {
		k.makes(i)
	}
	for i := range gates {
		if c.has(biases + i) {
			k.makes(biases + i)
			k.reduceBy(sumAccumulator, c.result(i), []int{0})
		}
	}
}
