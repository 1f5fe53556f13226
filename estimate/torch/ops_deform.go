package torch

import "github.com/memestimate/memestimate/estimate/program"

// deformOps are torchvision's convolutions at places that data says (torchvision/csrc/ops/cuda/
// deform_conv2d_kernel.cu).
var deformOps = []op{
	{"deform_conv", castNone, runDeformConv}, // in: x, weight, offset, mask or none, bias or none
}

// runDeformConv is deform_conv2d. At most 32 images at once are put into columns, and products of these into a buffer,
// which is copied in the order of the output; the bias is added out of place. Under autocast it computes in float32 and
// returns its input's type (torchvision/csrc/ops/autocast/deform_conv2d_kernel.cpp).
func runDeformConv(r *run, c *program.Call, in []*tensor) []*tensor {
	of := in[0].dtype
	casts := r.autocast(castFloat, in)
	x, w := in[0], in[1]
	shape := c.Args.Shape
	y, buffer := r.empty(x.dtype, shape...), r.empty(x.dtype, shape...)
	columns := r.empty(x.dtype, deformColumns(x, w, shape)...)
	r.useBLAS(false)
	out := r.empty(x.dtype, shape...)
	for _, t := range []*tensor{columns, buffer, y} {
		r.release(t)
	}
	if r.needsGrad(in...) {
		like := make([]operand, len(in))
		for i, t := range in {
			if t != nil {
				like[i] = t.operand()
			}
		}
		columns := deformColumns(x, w, shape)
		r.record("DeformConv2D", one(out), in, in, func(r *run, n *node, g []*tensor) []*tensor {
			return deformBackward(r, n, g[0], like, columns)
		})
	}
	for _, t := range casts {
		r.release(t)
	}
	if out.dtype != of {
		whole := out
		out = r.to(whole, of)
		r.release(whole)
	}
	return one(out)
}

// deformBackward is _deform_conv2d_backward, which computes all gradients: those of input, offset and mask of columns
// that are the product of the weight and the gradient, which is put in another order, and that of the weight of columns
// of the input and another such copy.
func deformBackward(r *run, n *node, g *tensor, like []operand, columns []int64) []*tensor {
	outs := make([]*tensor, len(like))
	of := func(i int) {
		if i < len(like) && like[i].layout != nil {
			outs[i] = r.empty(like[i].dtype, like[i].shape...)
		}
	}
	for _, i := range [...]int{0, 2, 3} {
		of(i)
	}
	images := append([]int64{deformImages(g.shape[0])}, g.shape[1:]...)
	first, ordered := r.empty(g.dtype, columns...), r.empty(g.dtype, images...)
	r.useBLAS(false)
	r.release(ordered)
	r.release(first)
	of(1)
	ordered, second := r.empty(g.dtype, g.shape...), r.empty(g.dtype, columns...)
	r.useBLAS(false)
	r.release(second)
	r.release(ordered)
	of(4)
	for i, t := range outs {
		if t != nil && !n.wants(i) {
			r.release(t)
			outs[i] = nil
		}
	}
	return outs
}

// deformImages is get_greatest_divisor_below_bound: how many images of a batch are worked on at once.
func deformImages(batch int64) int64 {
	images := min(batch, 32)
	for images > 1 && batch%images != 0 {
		images--
	}
	return images
}

// deformColumns returns the shape of the columns of as many images: what each filter sees at each place.
func deformColumns(x, w *tensor, shape []int64) []int64 {
	return []int64{x.shape[1], w.shape[2], w.shape[3], deformImages(shape[0]), shape[2], shape[3]}
}
