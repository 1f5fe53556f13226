package kernels

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// TestPackedSequences holds a packed sequence to the padded one of its longest lengths: cuDNN is told the steps and
// the sequences of the first one, and how many rows the packed tensor has (RNNDescriptorParams and
// TensorDescriptorListParams in RNN.cpp).
func TestPackedSequences(t *testing.T) {
	rest := func(batchSizes ...int64) []Arg {
		args := make([]Arg, 16)
		sizes := make([]Arg, len(batchSizes))
		for i, n := range batchSizes {
			sizes[i] = Arg{Int: n, Set: true}
		}
		args[6], args[7], args[9] = Arg{Int: 2, Set: true}, Arg{Int: 512, Set: true}, Arg{Int: 1, Set: true}
		args[14] = Arg{List: sizes, Set: true}
		return args
	}
	padded := NewTensor("float32", []int64{3, 8, 256}, []int64{8 * 256, 256, 1}, false)
	packed := NewTensor("float32", []int64{8 + 5 + 2, 256}, []int64{256, 1}, false)
	want := newRNN(&Call{Op: "_cudnn_rnn", Args: rest()}, padded, 6)
	got := newRNN(&Call{Op: "_cudnn_rnn", Args: rest(8, 5, 2)}, packed, 6)
	want.Packed = 8 + 5 + 2
	if got != want || got.Steps != 3 || got.Batch != 8 || got.Input != 256 {
		t.Errorf("packed: %+v, want %+v", got, want)
	}
}

// TestUnusedOutput has only the last state's gradient: PyTorch makes zeros for the output's in the order that the
// caller sees, which cuDNN reads with the time first.
func TestUnusedOutput(t *testing.T) {
	const batch, steps, width = 4, 6, 8
	for _, batchFirst := range []bool{true, false} {
		y := of("float32", steps, batch, width)
		if batchFirst { // seen with the batch first
			y = NewTensor("float32", []int64{batch, steps, width}, []int64{width, batch * width, 1}, false)
		}
		args := tensors(y, nil, nil, nil, of("float32", 1, batch, width), nil, y, nil, of("float32", 1, batch, width))
		args = append(args, make([]Arg, 13)...)
		want := 1
		if batchFirst {
			args[14], want = number(1), 2
		}
		args[2], args[10], args[11], args[13] = number(4), number(3), number(width), number(1) // a GRU of one layer
		args[16] = number(1)                                                                   // in training
		k := NewKernels(gpu.Default())
		script := words(k.Call(&Call{Op: "_cudnn_rnn_backward", Overload: "default", Args: args, Results: []*Tensor{y}}))
		if got := strings.Count(script, fmt.Sprintf("+%d ", 4*batch*steps*width)); got != want {
			t.Errorf("batch first %v: %d tensors of the output's size in %s, want %d", batchFirst, got, script, want)
		}
	}
}

// TestCells sums the gates' gradients for each bias of a cell that has them.
func TestCells(t *testing.T) {
	gates, state, bias := of("float32", 22000, 768), of("float32", 22000, 256), of("float32", 768)
	sum := fmt.Sprintf("+%d +24 -24 -%d", 129<<20, 129<<20)
	for _, tt := range []struct {
		op      string
		results []*Tensor
		want    string
	}{
		{"_thnn_fused_gru_cell_backward", []*Tensor{gates, gates, state, bias, bias}, "=0 =1 =2 =3 " + sum + " =4 " + sum},
		{"_thnn_fused_gru_cell_backward", []*Tensor{gates, gates, state, nil, nil}, "=0 =1 =2"},
		{"_thnn_fused_lstm_cell_backward_impl", []*Tensor{gates, state, bias}, "=0 =1 =2 " + sum},
	} {
		k := NewKernels(gpu.Default())
		if got := words(k.Call(&Call{Op: tt.op, Overload: "default", Results: tt.results})); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.op, got, tt.want)
		}
	}
}
