package kernels

import (
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
