package kernels

import (
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

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
