package workspace

// atenGuessed call libraries whose workspaces are neither published nor measured here: cuSOLVER and MAGMA
// (cuda/linalg), cuDNN's CTC loss. Likely is one copy of the matrices, at most four.
var atenGuessed = []operator{
	{"linalg_cholesky_ex", (*Kernels).factors},
	{"cholesky", (*Kernels).factors},
	{"cholesky_inverse", (*Kernels).factors},
	{"cholesky_solve", (*Kernels).factors},
	{"_cholesky_solve_helper", (*Kernels).factors},
	{"linalg_inv_ex", (*Kernels).factors},
	{"_linalg_solve_ex", (*Kernels).factors},
	{"_linalg_det", (*Kernels).factors},
	{"_linalg_slogdet", (*Kernels).factors},
	{"linalg_lu_factor_ex", (*Kernels).factors},
	{"linalg_lu", (*Kernels).factors},
	{"linalg_lu_solve", (*Kernels).factors},
	{"linalg_qr", (*Kernels).factors},
	{"geqrf", (*Kernels).factors},
	{"ormqr", (*Kernels).factors},
	{"linalg_householder_product", (*Kernels).factors},
	{"_linalg_svd", (*Kernels).factors},
	{"_linalg_eigh", (*Kernels).factors},
	{"linalg_eig", (*Kernels).factors},
	{"linalg_eigvals", (*Kernels).factors},
	{"_linalg_eigvals", (*Kernels).factors},
	{"linalg_lstsq", (*Kernels).factors},
	{"linalg_pinv", (*Kernels).factors},
	{"linalg_matrix_exp", (*Kernels).factors},
	{"linalg_ldl_factor_ex", (*Kernels).factors},
	{"linalg_ldl_solve", (*Kernels).factors},
	{"linalg_solve_triangular", (*Kernels).triangular},
	{"triangular_solve", (*Kernels).triangular},
	{"_cudnn_ctc_loss", (*Kernels).factors},
	{"torchvision::deform_conv2d", (*Kernels).deformConv},
}

func (k *Kernels) factors(c *Call) {
	x := c.tensor(0)
	if x == nil {
		return
	}
	for i := range c.Results {
		k.makes(i)
	}
	k.give(k.guess(x.Bytes(), saturate(4, x.Bytes())))
}

// triangular is cuBLAS's trsm, which works in place on a copy in columns.
func (k *Kernels) triangular(c *Call) {
	k.makes(0)
	k.useBLAS(false)
	if x := c.tensor(0); x != nil {
		k.give(k.guess(0, x.Bytes()))
	}
}

// deformConv is torchvision's deform_conv2d(input, weight, offset, mask, bias, ...): at most 32 images at once are put
// into columns, and products of these into a buffer, which is copied in the order of the output; the bias is added out
// of place (torchvision/csrc/ops/cuda/deform_conv2d_kernel.cu).
func (k *Kernels) deformConv(c *Call) {
	x, w, y := c.tensor(0), c.tensor(1), c.result(0)
	if x == nil || w == nil || y.Elements == 0 {
		return
	}
	images := min(y.size(0), 32)
	for y.size(0)%images != 0 {
		images--
	}
	out, buffer := k.take(y.Bytes()), k.take(y.Bytes())
	columns := k.take(saturate(x.size(1), w.size(2), w.size(3), images, y.size(2), y.size(3), x.Elem))
	k.useBLAS(false)
	k.makes(0)
	k.give(columns, buffer, out)
}
