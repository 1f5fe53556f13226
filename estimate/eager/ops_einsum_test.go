package eager

import (
	"slices"
	"testing"
)

// An einsum that sums over nothing is mul: each factor's gradient is a product of the result's size, which is summed to the
// factor's shape. Batches, heads and the two features that multiply each other: 2, 4, 8 and 8, in float32.
func TestEinsumWithoutSum(t *testing.T) {
	l := newLab()
	k, v := l.leaf(f32, 2, 4, 8), l.leaf(f32, 2, 4, 8)
	forward, backward := l.measure(func() *tensor {
		return l.do("einsum", Args{Mode: "bhd,bhe->bhde", Shape: []int64{2, 4, 8, 8}}, k, v)
	})
	full, factor := int64(2*4*8*8*4), int64(2*4*8*4)
	if want := []int64{full}; !slices.Equal(forward, want) {
		t.Errorf("forward: %d, wanted %d", forward, want)
	}
	if want := []int64{full, full, factor, -full, factor, -full}; !slices.Equal(backward, want) {
		t.Errorf("backward: %d, wanted %d", backward, want)
	}
}

// Autocast casts what an einsum multiplies as matrices, and not what it multiplies element by element.
func TestEinsumUnderAutocast(t *testing.T) {
	l := newLab()
	l.r.grad = false
	l.r.amp = &autocast{dtype: bf16, cache: map[*leaf]*tensor{}}
	x, y := l.plain(f32, 2, 4, 8), l.plain(f32, 2, 8, 4)
	for equation, want := range map[string][2]any{"bij,bjk->bik": {bf16, []int64{2, 4, 4}}, "bij,bkl->bijkl": {f32, []int64{2, 4, 8, 8, 4}}} {
		out := l.do("einsum", Args{Mode: equation, Shape: want[1].([]int64)}, x, y)
		if out.dtype != want[0] || !slices.Equal(out.shape, want[1].([]int64)) {
			t.Errorf("%s is %s%v, wanted %v", equation, out.dtype, out.shape, want)
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
	if want := []int64{2 * n, 2 * n, 2 * n, 2 * n, -2 * n, -2 * n, -2 * n}; len(backward) != len(want) || !slices.Equal(backward[:4], want[:4]) {
		t.Errorf("backward: %d, wanted %d", backward, want)
	}
}
