package kernels

// atenGuessed call libraries whose workspaces are neither published nor measured here: what is left of cuSOLVER and
// MAGMA (cuda/linalg; the others are in atenLinalg), cuDNN's CTC loss. Likely is one copy of the matrices, at most
// four.
var atenGuessed = []operator{
	{"cholesky_solve", on((*Kernels).factors, 0)},
	{"ormqr", on((*Kernels).factors, 0)},
	{"linalg_eig", on((*Kernels).factors, 0)},
	{"linalg_eigvals", on((*Kernels).factors, 0)},
	{"_linalg_eigvals", on((*Kernels).factors, 0)},
	{"linalg_pinv", on((*Kernels).factors, 0)},
	{"linalg_matrix_exp", on((*Kernels).matrixExp, 0)},
	{"linalg_ldl_factor_ex", on((*Kernels).factors, 0)},
	{"linalg_ldl_solve", on((*Kernels).factors, 0)},
	{"linalg_solve_triangular", (*Kernels).triangular},
	{"triangular_solve", (*Kernels).triangular},
	{"_cudnn_ctc_loss", on((*Kernels).factors, 0)},
	{"torchvision::deform_conv2d", on((*Kernels).deformConv, 0, 1)},
	{"torchvision::_deform_conv2d_backward", on((*Kernels).deformConvBackward, 0, 1, 2)},
}

func (k *Kernels) factors(c *Call) {
	x := c.tensor(0)
	k.makesAll(c)
	k.give(k.guess(x.Bytes(), saturate(4, x.Bytes())))
}

// matrixExp is linalg_matrix_exp. Its Taylor polynomial of degree 18, which large norms take, keeps five powers of the
// matrices and five sums of these, and products beside them (native/LinearAlgebra.cpp, compute_T18); smaller norms take
// less. On an H200 it took 12 copies of one matrix of 512 x 512.
func (k *Kernels) matrixExp(c *Call) {
	x := c.tensor(0)
	k.makes(0)
	k.give(k.guess(saturate(12, x.Bytes()), saturate(14, x.Bytes())))
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
	if y.Elements == 0 {
		return
	}
	out, buffer := k.take(y.Bytes()), k.take(y.Bytes())
	columns := k.take(deformColumns(x, w, y))
	k.useBLAS(false)
	k.makes(0)
	k.give(columns, buffer, out)
}

// deformConvBackward is torchvision's _deform_conv2d_backward(grad, input, weight, offset, mask, bias, ...): the
// gradients of input, offset and mask are made of columns that are the product of the weight and the gradient, which is
// put in another order; that of the weight of columns of the input and another such copy (in the same file).
func (k *Kernels) deformConvBackward(c *Call) {
	g, x, w := c.tensor(0), c.tensor(1), c.tensor(2)
	if g.Elements == 0 {
		return
	}
	for _, i := range [...]int{0, 2, 3} {
		k.makes(i)
	}
	images := saturate(g.Bytes()/max(g.size(0), 1), deformImages(g))
	columns, ordered := k.take(deformColumns(x, w, g)), k.take(images)
	k.useBLAS(false)
	k.give(ordered, columns)
	k.makes(1)
	ordered, columns = k.take(g.Bytes()), k.take(deformColumns(x, w, g))
	k.useBLAS(false)
	k.give(columns, ordered)
	k.makes(4)
}

// deformImages is get_greatest_divisor_below_bound: how many images of y are worked on at once.
func deformImages(y *Tensor) int64 {
	images := min(y.size(0), 32)
	for images > 1 && y.size(0)%images != 0 {
		images--
	}
	return images
}

// deformColumns returns the bytes of the columns of as many images: what each filter sees at each place.
func deformColumns(x, w, y *Tensor) int64 {
	return saturate(x.size(1), w.size(2), w.size(3), deformImages(y), y.size(2), y.size(3), x.Elem)
}
