package kernels

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// What sorts, selections and transforms take follows from the sources that their tables name.
func TestSorts(t *testing.T) {
	flag := func(set bool) Arg { return number(int64(b2i(set))) }
	rows, places := of("float32", 200, 5000), of("int64", 200, 5000)
	few, fewPlaces := of("float32", 4, 5000), of("int64", 4, 5000)
	line, linePlaces := of("float32", 10000), of("int64", 10000)
	signal, half := of("float32", 8, 1024), of("complex64", 8, 513)
	tests := []struct {
		op, overload string
		args         []Arg
		results      []*Tensor
		want         string
	}{
		{"sort", "default", append(tensors(of("float32", 8, 4096)), number(-1)), []*Tensor{rows, places},
			"=0 =1 +32768 -32768"},
		// Segments of more than 4,096: places, then keys and places once more.
		{"sort", "default", append(tensors(rows), number(-1)), []*Tensor{rows, places},
			"=0 =1 +8000000 +12000000 -12000000 -8000000"},
		// Fewer than 128 of them: pairs of place and segment twice, the keys, CUB's pairs, then its keys of 8 bytes.
		{"sort", "stable", append(tensors(few), flag(true), number(1)), []*Tensor{few, fewPlaces},
			"=0 =1 +160000 +160000 +80000 +253951 -253951 -80000 +182015 -182015 -160000 -160000"},
		// One: its places, and CUB's pairs.
		{"sort", "default", tensors(line), []*Tensor{line, linePlaces}, "=0 =1 +80000 +132095 -132095 -80000"},
		// The first dimension is copied to lie innermost.
		{"sort", "default", append(tensors(of("float32", 10000, 200)), number(0)), []*Tensor{rows, places},
			"=0 =1 +8000000 +8000000 +16000000 +16000000 +24000000 -24000000 -16000000 -16000000 -8000000 -8000000"},
		{"topk", "default", append(tensors(of("float32", 64, 100)), number(5)),
			[]*Tensor{of("float32", 64, 5), of("int64", 64, 5)}, "=0 =1"},
		{"masked_select", "default", tensors(line, of("bool", 10000)), []*Tensor{of("float32", 100)},
			"+4 +271 -271 +800 +829 -829 -4 =0 -800"},
		// Scores and their order, the boxes in order, 16 words a box, what is kept; then as masked_select of the order.
		{"torchvision::nms", "default", tensors(of("float32", 1000, 4), of("float32", 1000)),
			[]*Tensor{of("int64", 100)},
			"+4000 +8000 +8000 -8000 -4000 +16000 +128000 +1000 +4 +255 -255 +800 +773 -773 -4 =0 " +
				"-800 -1000 -128000 -16000 -8000"},
		{"multinomial", "default", append(tensors(of("float32", 4, 1000)), number(1), flag(false)),
			[]*Tensor{of("int64", 4, 1)}, "=0 +16000 -16000"},
		{"multinomial", "default", append(tensors(of("float32", 4, 1000)), number(8), flag(true)),
			[]*Tensor{of("int64", 4, 8)},
			"=0 +16000 +16000 +16000 -16000 -16000 -16000"},
		{"bincount", "default", tensors(of("int64", 10000)), []*Tensor{of("int64", 50)}, "=0"},
		{"_fft_r2c", "default", append(tensors(signal), numbers(1), number(0), flag(true)), []*Tensor{half},
			"=0"},
		// A transform over the first of two batched dimensions needs one batch dimension: a copy.
		{"_fft_c2c", "default", append(tensors(of("complex64", 4, 64, 32)), numbers(1), number(0), flag(true)),
			[]*Tensor{of("complex64", 4, 64, 32)},
			"=0 +65536 -65536"},
		{"_fft_c2r", "default", append(tensors(half), numbers(1), number(0), number(1024)), []*Tensor{signal},
			"=0 +32832 -32832"},
		// Half a signal goes by way of a work area where none of its own kernels transforms it, two by way of two.
		{"_fft_c2r", "default", append(tensors(of("complex64", 8, 48)), numbers(1), number(0), number(94)),
			[]*Tensor{of("float32", 8, 94)}, "=0 +3072 +3008 -3008 -3072"},
		{"_fft_c2c", "default", append(tensors(of("complex64", 2, 16384)), numbers(1), number(0), flag(true)),
			[]*Tensor{of("complex64", 2, 16384)}, "=0"},
		{"_fft_c2c", "default", append(tensors(of("complex64", 2, 12000)), numbers(1), number(0), flag(true)),
			[]*Tensor{of("complex64", 2, 12000)}, "=0 +192000 -192000"},
		// The first two dimensions are transformed after the last, into another tensor.
		{"_fft_r2c", "default", append(tensors(of("float32", 16, 16, 64)), numbers(0, 1, 2), number(0), flag(true)),
			[]*Tensor{of("complex64", 16, 16, 33)}, "+67584 =0 -67584"},
		// Of both sides the whole is there from the start.
		{"_fft_r2c", "default", append(tensors(signal), numbers(1), number(0), flag(false)),
			[]*Tensor{of("complex64", 8, 1024)}, "=0"},
		{"_fft_r2c", "default", append(tensors(of("float32", 16, 16, 64)), numbers(0, 1, 2), number(0), flag(false)),
			[]*Tensor{of("complex64", 16, 16, 64)}, "=0 +131072 -131072"},
		// Dimensions in an order that cuFFT can't read are copied.
		{"_fft_r2c", "default", append(tensors(of("float32", 4, 16, 64)), numbers(2, 1), number(0), flag(true)),
			[]*Tensor{of("complex64", 4, 9, 64)}, "=0 +16384 -16384"},
	}
	for _, test := range tests {
		k := NewKernels(gpu.Default())
		c := Call{Op: test.op, Overload: test.overload, Args: test.args, Results: test.results}
		if takes, known := k.Takes(c.Op, c.Overload); !takes || !known {
			t.Errorf("%s.%s has no row", test.op, test.overload)
		}
		if got := words(k.Call(&c)); got != test.want {
			t.Errorf("%s.%s(%v): %s\nwant %s", test.op, test.overload, test.args[0].Tensor.Shape, got, test.want)
		}
	}
}

// What is guessed is counted, and at its most it is what its table says: of two dimensions whose kernels were not
// measured the signal; what is unknown takes as much as its arguments and results.
func TestGuessed(t *testing.T) {
	x, image := of("complex64", 8, 1024), of("complex64", 2, 512, 512)
	for _, test := range []struct {
		call Call
		want string
	}{
		{Call{Op: "_fft_c2c", Args: append(tensors(image), numbers(1, 2)), Results: []*Tensor{image}},
			"=0 +4194304 -4194304"},
		{Call{Op: "histc", Args: tensors(of("float32", 10000)), Results: []*Tensor{of("float32", 100)}}, "=0 +8000 -8000"},
		{Call{Op: "nobody::knows", Args: tensors(x, x), Results: []*Tensor{x}}, "=0 +196608 -196608"},
	} {
		likely, most := NewKernels(gpu.Default()), NewKernels(gpu.Default())
		most.AtMost(OfGuesses)
		likely.Call(&test.call)
		if got := words(most.Call(&test.call)); got != test.want || likely.Doubts() == 0 {
			t.Errorf("%s: %s, want %s; in doubt %v", test.call.Op, got, test.want, likely.Doubts())
		}
		if known := test.call.Op != "nobody::knows"; known && likely.Guessed()[test.call.Op] != 1 {
			t.Errorf("%s: guessed %v", test.call.Op, likely.Guessed())
		}
	}
}

// TestWhoSolvesSystems: the backward of a determinant solves by the identity, for which cuBLAS takes its workspace; one
// small system of few columns is cuSOLVER's, which takes none of cuBLAS's.
func TestWhoSolvesSystems(t *testing.T) {
	for _, tt := range []struct {
		batch, n, columns int64
		blas              bool
	}{
		{1, 48, 48, true}, {1, 300, 300, true}, {1, 8, 2, true}, {1, 32, 2, false}, {3, 32, 2, true},
		{2, 64, 48, false}, {1, 64, 96, true}, {1, 128, 2, false}, {1, 128, 3, true}, {1, 256, 1, true},
	} {
		k := NewKernels(gpu.Default())
		lu, b := of("float32", tt.batch, tt.n, tt.n), of("float32", tt.batch, tt.n, tt.columns)
		args := tensors(lu, of("int32", tt.batch, tt.n), b)
		k.Call(&Call{Op: "linalg_lu_solve", Overload: "default", Args: args, Results: []*Tensor{b}})
		if threads, _ := k.Threads(); (threads == 1) != tt.blas {
			t.Errorf("%d systems of %d with %d columns: cuBLAS %v, want %v", tt.batch, tt.n, tt.columns, threads == 1, tt.blas)
		}
	}
}

// TestLinearAlgebra holds what decompositions take beside their results at once to what they took on an H200, in bytes.
func TestLinearAlgebra(t *testing.T) {
	type shape = []int64
	tests := []struct {
		op    string
		shape shape
		dtype string
		took  int64
	}{
		{"linalg_inv_ex", shape{16, 16}, "float32", 2048}, {"linalg_inv_ex", shape{64, 64}, "float32", 34816},
		{"linalg_inv_ex", shape{512, 512}, "float32", 2111488}, {"linalg_inv_ex", shape{2, 512, 512}, "float32", 4218880},
		{"linalg_inv_ex", shape{64, 16, 16}, "float32", 70656}, {"linalg_inv_ex", shape{64, 33, 33}, "float32", 602112},
		{"linalg_inv_ex", shape{8, 512, 512}, "float32", 16863232}, {"linalg_inv_ex", shape{512, 512}, "float64", 4208640},
		{"linalg_inv_ex", shape{100, 100}, "complex64", 164352}, {"linalg_lu_factor_ex", shape{512, 512}, "float32", 8448},
		{"linalg_lu_factor_ex", shape{2000, 2, 2}, "float32", 16000}, {"linalg_lu", shape{8, 512, 512}, "float32", 8388608},
		{"cholesky_inverse", shape{500, 64, 64}, "float32", 8192000}, {"linalg_qr", shape{100, 100}, "float32", 3145856},
		{"linalg_qr", shape{512, 512}, "float64", 8388736}, {"linalg_qr", shape{1024, 1024}, "float32", 6291584},
		{"linalg_qr", shape{64, 128, 128}, "float32", 263168}, {"linalg_qr", shape{2, 64, 64}, "float32", 3145856},
		{"linalg_qr", shape{2000, 2, 2}, "float32", 132224},
		{"linalg_householder_product", shape{512, 512}, "float32", 852992},
		{"_linalg_eigh", shape{33, 33}, "float32", 16848}, {"_linalg_eigh", shape{8, 512, 512}, "float32", 1124416},
		{"_linalg_eigh", shape{1024, 1024}, "float32", 17429388}, {"_linalg_eigh", shape{64, 16, 16}, "float32", 20116736},
		{"_linalg_eigh", shape{2000, 2, 2}, "float32", 536688320}, {"_linalg_eigh", shape{64, 16, 16}, "float64", 40233344},
		{"_linalg_eigh", shape{512, 512}, "float64", 9962136}, {"_linalg_svd", shape{512, 512}, "float32", 3287168},
		{"_linalg_svd", shape{64, 128, 128}, "float32", 4363136}, {"_linalg_svd", shape{100, 100}, "complex64", 315264},
	}
	for _, test := range tests {
		k := NewKernels(gpu.Default())
		k.useBLAS(false) // as every program has
		x := of(test.dtype, test.shape...)
		results := []*Tensor{x, x, x}
		var got, live int64
		var taken []int64
		for _, step := range k.Call(&Call{Op: test.op, Overload: "default", Args: tensors(x), Results: results}) {
			switch step.Do {
			case Take:
				taken = append(taken, step.Bytes)
				live += step.Bytes
			case Give:
				live -= taken[step.Which]
			}
			got = max(got, live)
		}
		if d := float64(got)/float64(test.took) - 1; (d < -0.07 || d > 0.07) && max(got-test.took, test.took-got) > 2048 {
			t.Errorf("%s of %s %v takes %d, took %d", test.op, test.dtype, test.shape, got, test.took)
		}
	}
}

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
