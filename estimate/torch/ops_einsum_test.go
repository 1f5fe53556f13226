package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// An einsum that sums over nothing is mul: each factor's gradient is a product of the result's size, which is summed
// to the factor's shape. Batches, heads and the two features that multiply each other: 2, 4, 8 and 8, in float32.
func TestEinsumWithoutSum(t *testing.T) {
	l := newLab()
	k, v := l.leaf(f32, 2, 4, 8), l.leaf(f32, 2, 4, 8)
	forward, backward := l.measure(func() *tensor {
		return l.do("einsum", program.Args{Mode: "bhd,bhe->bhde", Shape: []int64{2, 4, 8, 8}}, k, v)
	})
	full, factor := int64(2*4*8*8*4), int64(2*4*8*4)
	if want := []int64{full}; !slices.Equal(forward, want) {
		t.Errorf("forward: %d, wanted %d", forward, want)
	}
	if want := []int64{full, full, factor, -full, factor, -full}; !slices.Equal(backward, want) {
		t.Errorf("backward: %d, wanted %d", backward, want)
	}
}

// Autocast casts the operands before anything else, those of a product without a sum too: measured with a history of
// the allocator, as below.
func TestEinsumUnderAutocast(t *testing.T) {
	for _, tt := range []struct {
		equation string
		shapes   [][]int64
		want     []int64
	}{
		{"big,oig->bo", [][]int64{{512, 64, 8}, {32, 64, 8}}, []int64{524288, 32768, 524288, 32768, 32768}},
		{"i,j->ij", [][]int64{{4096}, {256}}, []int64{8192, 512, 2097152}},
		{"bhid,bhjd->bhij", [][]int64{{4, 8, 64, 32}, {4, 8, 64, 32}}, []int64{131072, 131072, 262144}},
	} {
		l := newLab()
		l.r.amp = &autocast{dtype: bf16, cache: map[*leaf]*tensor{}}
		in := []*tensor{l.leaf(f32, tt.shapes[0]...), l.leaf(f32, tt.shapes[1]...)}
		forward, _ := l.measure(func() *tensor {
			out := l.do("einsum", program.Args{Mode: tt.equation}, in...)
			if out.dtype != bf16 {
				t.Errorf("%s is %s, wanted bfloat16", tt.equation, out.dtype)
			}
			return out
		})
		if !slices.Equal(forward, tt.want) {
			t.Errorf("%s: %v, wanted %v", tt.equation, forward, tt.want)
		}
	}
}

// Under autocast cumsum of 16 bits gives float32 by way of a copy; its backward goes back to 16 bits first.
func TestCumsumUnderAutocast(t *testing.T) {
	l := newLab()
	l.r.amp = &autocast{dtype: bf16, cache: map[*leaf]*tensor{}}
	x := l.leaf(bf16, 4, 256)
	forward, backward := l.measure(func() *tensor { return l.op("cumsum", x) })
	const n = 4 * 256
	if want := []int64{4 * n, 4 * n, -4 * n}; !slices.Equal(forward, want) {
		t.Errorf("forward: %d, wanted %d", forward, want)
	}
	if want := []int64{2 * n, 2 * n, 2 * n, 2 * n, -2 * n, -2 * n, -2 * n}; len(backward) != len(want) ||
		!slices.Equal(backward[:4], want[:4]) {
		t.Errorf("backward: %d, wanted %d", backward, want)
	}
}

// Measured with torch.cuda.memory._record_memory_history around torch.einsum of leaves and around its backward, PyTorch
// 2.11 on an H200. cuBLAS's workspaces are there before; the last sum's buffers of "i,j->ij" are left out: that of a
// gradient of 4 MiB over its rows has tests of its own.
func TestEinsum(t *testing.T) {
	for _, tt := range []struct {
		equation          string
		dtype             program.DType
		shapes            [][]int64
		forward, backward []int64
	}{
		{"ij,jk->ki", f32, [][]int64{{1024, 512}, {512, 256}}, []int64{1048576},
			[]int64{2097152, 524288, 524288, -524288, 2097152, -2097152}},
		{"ij,kj->ki", f32, [][]int64{{1024, 512}, {256, 512}}, []int64{1048576}, []int64{2097152, 524288, 2097152, -2097152}},
		{"big,oig->bo", f32, [][]int64{{512, 64, 8}, {32, 64, 8}}, []int64{1048576, 65536, 65536},
			[]int64{65536, 1048576, -65536, -1048576, 65536, -65536, 1048576, -1048576}},
		{"bgi,oig->bo", f32, [][]int64{{512, 8, 64}, {32, 64, 8}}, []int64{65536, 65536},
			[]int64{65536, 1048576, -65536, 65536, -65536}},
		{"bsd,edf->bsef", f32, [][]int64{{4, 64, 128}, {8, 128, 256}}, []int64{1048576, 2097152},
			[]int64{1048576, 131072, -1048576, 1048576, -1048576}},
		{"bsed,bse->bsd", f32, [][]int64{{4, 64, 8, 128}, {4, 64, 8}}, []int64{131072},
			[]int64{8192, 1048576, 1048576, -1048576}},
		{"bsef,efd->bsed", f32, [][]int64{{4, 64, 8, 256}, {8, 256, 128}}, []int64{1048576},
			[]int64{1048576, 2097152, 2097152, -2097152}},
		{"bhid,bhjd->bhij", f32, [][]int64{{4, 8, 64, 32}, {4, 8, 64, 32}}, []int64{524288},
			[]int64{262144, 262144, 262144, -262144}},
		{"bij,bjk->bki", f32, [][]int64{{4, 64, 32}, {4, 32, 16}}, []int64{16384},
			[]int64{32768, 8192, 8192, -8192, 32768, -32768}},
		{"bchw,bdhw->bcd", f32, [][]int64{{4, 8, 16, 16}, {4, 4, 16, 16}}, []int64{512},
			[]int64{16384, 32768, 16384, -16384}},
		{"bi,bi->b", f32, [][]int64{{4096, 512}, {4096, 512}}, []int64{16384}, []int64{8388608, 8388608}},
		{"ibnd,jbnd->ijbn", f32, [][]int64{{64, 4, 8, 32}, {64, 4, 8, 32}}, []int64{524288},
			[]int64{262144, 262144, 262144, -262144, 262144, -262144}},
		{"nctkv,kvw->nctw", f32, [][]int64{{4, 16, 32, 3, 25}, {3, 25, 25}}, []int64{204800}, []int64{7500, 614400}},
		{"nkctv,kvw->nctw", f32, [][]int64{{4, 3, 16, 32, 25}, {3, 25, 25}}, []int64{614400, 204800},
			[]int64{7500, 614400, -614400, 614400, -614400}},
		{"b i d, b j d -> b i j", f32, [][]int64{{4, 64, 32}, {4, 64, 32}}, []int64{65536},
			[]int64{32768, 32768, 32768, -32768}},
		{"...ij,...jk->...ik", f32, [][]int64{{4, 8, 64, 32}, {4, 8, 32, 16}}, []int64{131072}, []int64{65536, 262144}},
		{"bqhd,hdm->bqm", f32, [][]int64{{4, 64, 8, 32}, {8, 32, 256}}, []int64{262144, 262144, 262144},
			[]int64{262144, 262144, -262144, -262144, 262144, -262144, 262144, -262144}},
		{"big,oig->bo", bf16, [][]int64{{512, 64, 8}, {32, 64, 8}}, []int64{524288, 32768, 32768},
			[]int64{32768, 524288, -32768, -524288, 32768, -32768, 524288, -524288}},
		{"bij,bjk->bki", bf16, [][]int64{{4, 64, 32}, {4, 32, 16}}, []int64{8192},
			[]int64{16384, 4096, 4096, -4096, 16384, -16384}},
		{"i,j->ij", f32, [][]int64{{4096}, {256}}, []int64{4194304}, []int64{4194304, 4194304, 16384, -4194304, 1024}},
	} {
		l := newLab()
		var in []*tensor
		for _, s := range tt.shapes {
			in = append(in, l.leaf(tt.dtype, s...))
		}
		forward, backward := l.measure(func() *tensor { return l.do("einsum", program.Args{Mode: tt.equation}, in...) })
		if n := len(tt.backward); len(tt.shapes[0]) == 1 && len(backward) > n {
			backward = backward[:n]
		}
		if l.err != nil || !slices.Equal(forward, tt.forward) || !slices.Equal(backward, tt.backward) {
			t.Errorf("%s in %s: %v, then %v (%v), wanted %v, then %v", tt.equation, tt.dtype, forward, backward, l.err,
				tt.forward, tt.backward)
		}
	}
}
