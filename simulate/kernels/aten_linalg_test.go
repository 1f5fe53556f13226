package kernels

import (
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

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
