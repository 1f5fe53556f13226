package workspace

import "testing"

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
