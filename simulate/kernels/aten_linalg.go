package kernels

// atenLinalg are the decompositions of cuda/linalg/BatchLinearAlgebra.cpp, which cuSOLVER and cuBLAS do. What cuSOLVER
// asks for is neither published nor in PyTorch's source: the sizes are those that it took on an H200 (cuSOLVER of CUDA
// 13.0), each matrix of one to 1,024 rows, alone and in batches, in float32, float64 and complex64.
var atenLinalg = []operator{
	{"linalg_lu_factor_ex", on((*Kernels).luFactor, 0)},
	{"_linalg_det", on((*Kernels).luFactor, 0)},
	{"_linalg_slogdet", on((*Kernels).luFactor, 0)},
	{"linalg_lu", on((*Kernels).luParts, 0)},
	{"linalg_inv_ex", on((*Kernels).inverse, 0)},
	{"_linalg_solve_ex", on((*Kernels).solve, 0)},
	{"linalg_lu_solve", on((*Kernels).luSolve, 2)},
	{"linalg_cholesky_ex", nil},
	{"cholesky", nil},
	{"cholesky_inverse", func(k *Kernels, c *Call) { k.copyAside(c, 0) }},
	{"_cholesky_solve_helper", func(k *Kernels, c *Call) { k.copyAside(c, 1) }},
	{"linalg_qr", on((*Kernels).qr, 0)},
	{"geqrf", on((*Kernels).geqrf, 0)},
	{"linalg_householder_product", on((*Kernels).householder, 0)},
	{"linalg_lstsq", on((*Kernels).leastSquares, 0)},
	{"_linalg_eigh", on((*Kernels).eigh, 0)},
	{"_linalg_svd", on((*Kernels).svd, 0)},
}

// matrices says how many rows and columns the matrices of a tensor have, and how many they are.
func matrices(t *Tensor) (rows, columns, batch int64) {
	rows, columns = t.size(-2), t.size(-1)
	return rows, columns, t.Elements / max(saturate(rows, columns), 1)
}

// copyAside makes the results beside a copy of an argument, by columns.
func (k *Kernels) copyAside(c *Call, arg int) {
	k.makesAll(c)
	if x := c.tensor(arg); x != nil {
		k.scratch(x.Bytes())
	}
}

// getrf is what an LU decomposition of one matrix takes in cuSOLVER; batches are cuBLAS's, which has pointers to them.
func (k *Kernels) getrf(x *Tensor) {
	_, n, batch := matrices(x)
	if batch > 1 {
		k.scratch(8 * batch)
		return
	}
	k.scratch(256 + 16*32*ceilDiv(n, 32))
}

func (k *Kernels) luFactor(c *Call) {
	k.makesAll(c)
	k.getrf(c.tensor(0))
}

// luParts is linalg_lu: its three results are taken out of the decomposition.
func (k *Kernels) luParts(c *Call) {
	x := c.tensor(0)
	k.makesAll(c)
	lu := k.take(x.Bytes())
	k.getrf(x)
	k.give(lu)
}

// inverse is linalg_inv_ex: the identity solved by the decomposition, which is no result.
func (k *Kernels) inverse(c *Call) {
	x := c.tensor(0)
	n, _, batch := matrices(x)
	k.makesAll(c)
	lu, pivots := k.take(x.Bytes()), k.take(saturate(4, n, batch))
	k.getrf(x)
	k.solved(x)
	k.give(pivots, lu)
}

// solve is _linalg_solve_ex(A, B), whose results are the solution, the decomposition, its pivots and their check.
func (k *Kernels) solve(c *Call) {
	a, x := c.tensor(0), c.result(0)
	k.makesAll(c)
	k.getrf(a)
	if len(x.Shape) < len(a.Shape) { // vectors
		x = NewTensor(x.DType, append(append([]int64{}, x.Shape...), 1), append(append([]int64{}, x.Stride...), 1), false)
	}
	k.solved(x)
}

// luSolve is linalg_lu_solve(LU, pivots, B).
func (k *Kernels) luSolve(c *Call) {
	k.makesAll(c)
	k.solved(c.tensor(2))
}

// solved is what solving for b by an LU decomposition takes. One or two systems of few columns are cuSOLVER's; all
// others are cuBLAS's, as is where b is square, in inverses and the backward of determinants: small ones as batches by
// pointers, larger ones by two calls of trsm on a copy of b in the order of the pivots (lu_solve_kernel of
// native/cuda/linalg/BatchLinearAlgebra.cpp, without MAGMA).
func (k *Kernels) solved(b *Tensor) {
	n, columns, batch := matrices(b)
	few := batch <= 2 &&
		(n > 8 && n <= 32 || n > 32 && n <= 64 && columns <= 64 || n > 64 && n <= 128 && columns <= 2)
	if few && n != columns {
		return
	}
	k.useBLAS(false)
	if n <= 32 {
		k.give(k.take(8*batch), k.take(8*batch))
		return
	}
	k.give(k.take(saturate(8, n, batch)), k.take(8*n), k.take(saturate(8, n, batch)), k.take(b.Bytes()))
}

// looped says whether a QR decomposition is cuSOLVER's, one matrix after the other, and not cuBLAS's of a batch
// (geqrf_kernel).
func looped(x *Tensor) bool {
	rows, _, batch := matrices(x)
	return rows > 256 || batch < max(2, rows/16)
}

// qrWork is cuSOLVER's geqrf.
func qrWork(x *Tensor) int64 {
	_, n, _ := matrices(x)
	return saturate(x.Elem, 1024, 512+256*ceilDiv(n, 256)) + 128
}

// productWork is cuSOLVER's orgqr.
func productWork(x *Tensor) int64 {
	_, n, _ := matrices(x)
	if n <= 64 {
		return saturate(x.Elem/4, 132096+4*n*n)
	}
	return saturate(x.Elem/4, 66560+1536*n)
}

func (k *Kernels) geqrf(c *Call) {
	x := c.tensor(0)
	k.makesAll(c)
	if looped(x) {
		k.scratch(qrWork(x))
	}
}

// qr is linalg_qr(A, mode): Q and R are made at first, then the Householder vectors lie in one of them.
func (k *Kernels) qr(c *Call) {
	x := c.tensor(0)
	k.geqrf(c)
	k.scratch(productWork(x))
}

func (k *Kernels) householder(c *Call) {
	k.makesAll(c)
	k.scratch(productWork(c.tensor(0)))
}

// leastSquares is linalg_lstsq(A, B): a copy of A is decomposed, and Q's transpose applied to B (ormqr).
func (k *Kernels) leastSquares(c *Call) {
	x := c.tensor(0)
	k.makesAll(c)
	_, n, _ := matrices(x)
	a := k.take(x.Bytes())
	if looped(x) {
		k.scratch(qrWork(x))
		k.scratch(saturate(x.Elem/4, 262144+saturate(8*n, n+128)))
	}
	k.give(a)
}

// eigh is _linalg_eigh(A, UPLO, compute_v): syevj for float32 of 33 to 512 rows, one after the other; syevd for all
// other single ones and larger ones; and a batch of small ones at once, each with more than 256 KiB
// (linalg_eigh_cusolver).
func (k *Kernels) eigh(c *Call) {
	x := c.tensor(0)
	_, n, batch := matrices(x)
	k.makesAll(c)
	var vectors []int
	if c.result(1).Elements == 0 { // no result
		vectors = append(vectors, k.take(x.Bytes()))
	}
	wide := x.Elem / 4
	switch {
	case n <= 32:
		k.scratch(saturate(batch, wide, 262144+3200*n))
	case n <= 512 && x.DType == "float32":
		k.scratch(4*n*n + max(12500, 150*n))
	default:
		work := saturate(x.Elem, 4, n, n) + saturate(wide, 262144+380*n)
		k.give(k.guess(work, saturate(2, work)))
	}
	k.give(vectors...)
}

// svd is _linalg_svd(A, full_matrices, compute_uv, driver): a copy of A, by Jacobi's method, of small ones as a batch.
// What is no result is made of one matrix after the other.
func (k *Kernels) svd(c *Call) {
	x := c.tensor(0)
	rows, n, batch := matrices(x)
	k.makesAll(c)
	long, short := max(rows, n), min(rows, n)
	work := saturate(x.Elem/4, saturate(8, long, short)+max(20900, 280*long))
	if long <= 32 {
		work = x.Elem / 4 * 4096
	}
	taken := []int{k.take(x.Bytes())}
	if c.result(0).Elements == 0 {
		each := x.Bytes() / max(batch, 1)
		if long <= 32 {
			each = x.Bytes()
		}
		taken = append(taken, k.take(each), k.take(each))
	}
	if rows == n {
		k.scratch(work)
	} else { // not measured
		k.give(k.guess(work, saturate(2, work)))
	}
	k.give(taken...)
}
