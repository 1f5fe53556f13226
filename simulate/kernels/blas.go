package kernels

// BLASCopies reports whether a matrix product copies an operand of rows x cols with these strides: BLAS needs one of
// unit stride (prepare_matrix_for_cublas in aten/src/ATen/native/cuda/Blas.cpp).
func BLASCopies(rows, cols, rowStride, colStride int64) bool {
	return !(colStride == 1 && rowStride >= max(1, cols) || rowStride == 1 && colStride >= max(1, rows) ||
		rows == 1 && colStride == 1 || cols == 1 && rowStride == 1)
}

// LtEpilogue reports whether addmm of a bias of some dimensions and a product of m x k and k x n goes through
// cublasLt, whose epilogue adds a vector, unless a side of the product is 1 (isInputCompliesAddmmCudaLt in
// cuda/Blas.cpp). The thread then keeps cublasLt's workspace beside cuBLAS's.
func LtEpilogue(biasDims int, m, k, n int64) bool {
	return biasDims == 1 && m > 1 && k > 1 && n > 1
}
