package kernels

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// words writes a script: +bytes taken, -bytes given back, =n a result.
func words(s Script) string {
	var out []string
	var taken []int64
	for _, step := range s {
		switch step.Do {
		case Take:
			taken = append(taken, step.Bytes)
			if step.Bytes > 0 {
				out = append(out, fmt.Sprintf("+%d", step.Bytes))
			}
		case Keep:
			out = append(out, fmt.Sprintf("+%d", step.Bytes))
		case Give:
			if n := taken[step.Which]; n > 0 {
				out = append(out, fmt.Sprintf("-%d", n))
			}
		case Make:
			word := fmt.Sprintf("=%d", step.Which)
			if step.Bytes > 0 {
				word += fmt.Sprintf(":%d", step.Bytes)
			}
			out = append(out, word)
		case Leave:
			out = append(out, fmt.Sprintf("!%d", step.Which))
		}
	}
	return strings.Join(out, " ")
}

func of(dtype string, shape ...int64) *Tensor { return NewTensor(dtype, shape, RowMajor(shape), false) }

func turned(t *Tensor) *Tensor {
	shape, stride := slices.Clone(t.Shape), slices.Clone(t.Stride)
	slices.Reverse(shape)
	slices.Reverse(stride)
	return NewTensor(t.DType, shape, stride, false)
}

func tensors(list ...*Tensor) (args []Arg) {
	for _, t := range list {
		args = append(args, Arg{Tensor: t, Set: t != nil})
	}
	return args
}

func number(n int64) Arg { return Arg{Int: n, Float: float64(n), Set: true} }

func numbers(list ...int64) Arg {
	a := Arg{Set: true, List: []Arg{}}
	for _, n := range list {
		a.List = append(a.List, number(n))
	}
	return a
}

// What calls take on an H200, as the allocator's history of PyTorch 2.11 shows it.
func TestCalls(t *testing.T) {
	matrix, image := of("float32", 64, 64), of("float32", 8, 64, 32, 32)
	tests := []struct {
		op, overload string
		args         []Arg
		results      []*Tensor
		want         string
	}{
		{"mm", "default", tensors(matrix, matrix), []*Tensor{matrix}, "=0 +33554432"},
		{"_cdist_forward", "default", tensors(matrix, matrix), []*Tensor{matrix}, "=0"},
		{"_cdist_forward", "default", tensors(of("float32", 2, 64, 8), of("float32", 16, 8)),
			[]*Tensor{of("float32", 2, 64, 16)}, "+1024 =0 -1024"},
		{"_cdist_backward", "default", append(tensors(turned(matrix), matrix, matrix), number(1), tensors(matrix)[0]),
			[]*Tensor{matrix}, "+16384 =0 +1048576 -1048576 -16384"},
		{"abs", "default", tensors(of("complex64", 8, 64)), []*Tensor{of("float32", 8, 64)}, "=0 +4096 -4096"},
		{"abs", "default", tensors(matrix), []*Tensor{matrix}, "=0"},
		{"mm", "default", tensors(matrix, turned(matrix)), []*Tensor{matrix}, "=0 +33554432"}, // BLAS reads both orders
		{"mm", "default", tensors(matrix, NewTensor("float32", []int64{64, 64}, []int64{128, 2}, false)), []*Tensor{matrix},
			"=0 +16384 +33554432 -16384"},
		{"addmm", "default", tensors(of("float32", 64), matrix, matrix), []*Tensor{matrix}, "=0 +33554432 +1048576"},
		{"addmm", "default", tensors(matrix, matrix, matrix), []*Tensor{matrix}, "=0 +33554432"},
		{"_grouped_mm", "default", tensors(of("bfloat16", 128, 64), of("bfloat16", 4, 64, 48), of("int32", 4)),
			[]*Tensor{of("bfloat16", 128, 48)}, "=0 +240 +67584 -67584 -240"},
		{"_grouped_mm", "default", tensors(matrix, of("float32", 4, 64, 64), of("int32", 4)), []*Tensor{matrix}, "=0"},
		{"native_dropout", "default", tensors(image), []*Tensor{image, of("bool", 8, 64, 32, 32)}, "=1 =0"},
		{"sum", "default", tensors(of("bool", 1000)), []*Tensor{of("int64")}, "=0 +8000 -8000"},
		{"cumsum", "default", tensors(matrix), []*Tensor{matrix}, "=0"},
		{"cumsum", "default", tensors(NewTensor("float32", []int64{8, 64, 64}, []int64{4096, 1, 64}, false)),
			[]*Tensor{of("float32", 8, 64, 64)}, "=0 +131072 -131072"},
		{"mse_loss", "default", tensors(matrix, matrix), []*Tensor{of("float32")}, "=0:16384 +16384 -16384"},
		{"mse_loss", "default", append(tensors(matrix, matrix), number(reductionNone)), []*Tensor{matrix}, "=0"},
		{"_softmax_backward_data", "default", tensors(matrix, matrix), []*Tensor{matrix}, "=0 +16384 -16384"},
		{"_log_softmax_backward_data", "default", tensors(matrix, matrix), []*Tensor{matrix}, "=0"},
		{"embedding", "default", tensors(matrix, of("int64", 7)), []*Tensor{of("float32", 7, 64)}, "=0"},
		{"_scaled_dot_product_efficient_attention", "default", tensors(image, image, image),
			[]*Tensor{image, of("float32", 8, 64, 32), of("int64"), of("int64")}, "=0 =1 !2 !3"},
		{"masked_scatter_", "default", tensors(matrix, of("bool", 64, 64), of("float32", 7)), []*Tensor{matrix},
			"=0 +32768 +1279 -1279 -32768"},
		{"masked_scatter", "default", tensors(matrix, of("bool", 64, 1), of("float32", 7)), []*Tensor{matrix},
			"=0 +32768 +4096 +1279 -1279 -4096 -32768"},
		{"_efficientzerotensor", "default", nil, []*Tensor{matrix}, "!0"},
		{"im2col", "default", tensors(of("float32", 1, 4, 8, 8)), []*Tensor{of("float32", 1, 36, 64)}, "+1024 =0 -1024"},
		{"im2col", "default", tensors(turned(of("float32", 8, 8, 4, 1))), []*Tensor{of("float32", 1, 36, 64)},
			"+1024 +1024 =0 -1024 -1024"},
		{"col2im", "default", tensors(of("float32", 1, 36, 64)), []*Tensor{of("float32", 1, 4, 8, 8)}, "=0:9216"},
		{"col2im", "default", tensors(turned(of("float32", 64, 36))), []*Tensor{of("float32", 4, 8, 8)},
			"=0:9216 +9216 -9216"},
	}
	for _, tt := range tests {
		k := NewKernels(gpu.Default())
		got := words(k.Call(&Call{Op: tt.op, Overload: tt.overload, Args: tt.args, Results: tt.results}))
		if got != tt.want {
			t.Errorf("%s.%s: %s, want %s", tt.op, tt.overload, got, tt.want)
		}
	}
}

// The workspaces of cuBLAS are kept for each thread and stream, and taken once.
func TestKept(t *testing.T) {
	k := NewKernels(gpu.Default())
	matrix := of("float32", 64, 64)
	mm := &Call{Op: "mm", Overload: "default", Args: tensors(matrix, matrix), Results: []*Tensor{matrix}}
	var got []string
	for _, at := range []place{{0, 0}, {0, 0}, {1, 0}, {0, 1}, {1, 0}} {
		k.On(at.thread, at.stream)
		got = append(got, words(k.Call(mm)))
	}
	if want := "=0 +33554432,=0,=0 +33554432,=0 +33554432,=0"; strings.Join(got, ",") != want {
		t.Errorf("%s, want %s", got, want)
	}
	if blas, dnn := k.Threads(); blas != 2 || dnn != 0 {
		t.Errorf("%d threads used cuBLAS, %d cuDNN", blas, dnn)
	}
}

// A convolution's workspace is a plan that can be done without, the same for the same shape.
func TestConvolutionCall(t *testing.T) {
	x, w := of("float32", 32, 64, 56, 56), of("float32", 64, 64, 3, 3)
	last := NewTensor("float32", x.Shape, ChannelsLast(x.Shape), false)
	args := func(list ...*Tensor) []Arg {
		return append(tensors(list...), numbers(1, 1), numbers(1, 1), numbers(1, 1), number(0), numbers(0, 0), number(1))
	}
	k := NewKernels(gpu.Default())
	call := &Call{Op: "convolution", Overload: "default", Args: args(x, w, nil), Results: []*Tensor{x}}
	for range 2 {
		s := slices.Clone(k.Call(call))
		i := slices.IndexFunc(s, func(s Step) bool { return s.Plan > 0 })
		if i < 0 || s[i].Plan != 1 || s[i].Bytes <= x.Bytes() {
			t.Errorf("script %v, want plan 1 for copies of x", s)
		}
	}
	// A weight in channels last has the input copied.
	wlast := NewTensor("float32", w.Shape, ChannelsLast(w.Shape), false)
	if got := words(k.Call(&Call{Op: "convolution", Overload: "default", Args: args(x, wlast, nil),
		Results: []*Tensor{last}})); !strings.HasPrefix(got, fmt.Sprintf("+%d =0", x.Bytes())) {
		t.Errorf("%s, want a copy of the input first", got)
	}
	if _, dnn := k.Threads(); dnn != 1 {
		t.Error("cuDNN was not used")
	}
}

// No row panics, whatever a file says its arguments are, and each gives back only what it took.
func TestAnyArguments(t *testing.T) {
	var kinds []Arg
	for _, x := range []*Tensor{of("float32"), of("float32", 0), of("int64", 3), of("bfloat16", 2, 3), of("", 2, 3),
		of("float16", 2, 3, 4), of("float32", 2, 3, 4, 5), turned(of("bool", 2, 3, 4, 5)), of("complex64", 1, 2, 3, 4, 5)} {
		kinds = append(kinds, Arg{Tensor: x, Set: true})
	}
	kinds = append(kinds, Arg{}, number(-1), number(0), number(3), number(1<<60), numbers(), numbers(-7, 9, 1<<60),
		Arg{Set: true, List: kinds[:5]}, Arg{Set: true, List: []Arg{{}, kinds[2]}})
	seed := uint32(1)
	random := func(n int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % n
	}
	for _, table := range tables {
		for _, row := range table {
			if row.take == nil {
				continue
			}
			op, overload, _ := strings.Cut(row.name, ".")
			k := NewKernels(gpu.Default())
			for range 300 {
				c := &Call{Op: op, Overload: overload, Args: make([]Arg, random(24)), Results: make([]*Tensor, random(10))}
				for i := range c.Args {
					c.Args[i] = kinds[random(len(kinds))]
				}
				for i := range c.Results {
					c.Results[i] = kinds[random(len(kinds))].Tensor
				}
				s := k.Call(c)
				taken, given := 0, map[int]bool{}
				for _, step := range s {
					switch {
					case step.Do == Take && step.Bytes < 0:
						t.Fatalf("%s takes %d bytes", row.name, step.Bytes)
					case step.Do == Take:
						taken++
					case step.Do == Give && (step.Which >= taken || given[step.Which]):
						t.Fatalf("%s gives back what it has not", row.name)
					case step.Do == Give:
						given[step.Which] = true
					}
				}
			}
		}
	}
}
