package torch

import "github.com/memestimate/memestimate/estimate/program"

const (
	f32  = program.Float32
	bf16 = program.BFloat16
	f16  = program.Float16
	i64  = program.Int64
	mask = program.Bool
)

// A singleCase is one operator as the measurement called it. build makes the tensors that
// are there before and returns the function that is measured.
type singleCase struct {
	family, name string
	build        func(l *lab) func() *tensor
}

var singleCases = [][]singleCase{
	pointwiseCases, normCases, productCases, matmulCases(f32, "torch.float32"), matmulCases(bf16, "torch.bfloat16"),
	indexCases, lossCases, fanCases, blockCases, convCases(), moduleCases,
	sdpaCases(f32, "torch.float32"), sdpaCases(bf16, "torch.bfloat16"), sdpaCases(f16, "torch.float16"),
}

// picture is the tensor most operators were measured on: [8, 64, 128, 128] in float32.
func picture(l *lab) *tensor { return l.leaf(f32, 8, 64, 128, 128) }

// onPicture is a case of a function of the picture.
func onPicture(family, name string, f func(l *lab, x *tensor) *tensor) singleCase {
	return singleCase{family, name, func(l *lab) func() *tensor {
		x := picture(l)
		return func() *tensor { return f(l, x) }
	}}
}

// plainly is a case of one operator on the picture.
func plainly(family, name, op string, a program.Args) singleCase {
	return onPicture(family, name, func(l *lab, x *tensor) *tensor { return l.do(op, a, x) })
}

// times multiplies by a number.
func (l *lab) times(x *tensor) *tensor { return l.op("mul", x, num()) }

var pointwiseCases = []singleCase{
	plainly("pointwise", "relu", "relu", program.Args{}),
	onPicture("pointwise", "relu_inplace", func(l *lab, x *tensor) *tensor {
		return l.do("relu", program.Args{Inplace: true},
			l.times(x))
	}),
	plainly("pointwise", "leaky", "leaky_relu", program.Args{}),
	plainly("pointwise", "elu", "elu", program.Args{}),
	plainly("pointwise", "silu", "silu", program.Args{}),
	plainly("pointwise", "hardswish", "hardswish", program.Args{}),
	plainly("pointwise", "gelu", "gelu", program.Args{}),
	plainly("pointwise", "gelu_tanh", "gelu", program.Args{}),
	plainly("pointwise", "sigmoid", "sigmoid", program.Args{}),
	plainly("pointwise", "tanh", "tanh", program.Args{}),
	plainly("pointwise", "softplus", "softplus", program.Args{}),
	plainly("pointwise", "hardsigmoid", "hardsigmoid", program.Args{}),
	plainly("pointwise", "hardtanh", "hardtanh", program.Args{}),
	plainly("pointwise", "clamp", "clamp", program.Args{Both: true}),
	plainly("pointwise", "mish", "mish", program.Args{}),
	onPicture("pointwise", "add_self", func(l *lab, x *tensor) *tensor { return l.op("add", x, x) }),
	onPicture("pointwise", "add_scalar", func(l *lab, x *tensor) *tensor { return l.op("add", x, num()) }),
	onPicture("pointwise", "mul_self", func(l *lab, x *tensor) *tensor { return l.op("mul", x, x) }),
	onPicture("pointwise", "mul_scalar", func(l *lab, x *tensor) *tensor { return l.op("mul", x, num()) }),
	onPicture("pointwise", "div_scalar", func(l *lab, x *tensor) *tensor { return l.op("div", x, num()) }),
	onPicture("pointwise", "pow2", func(l *lab, x *tensor) *tensor { return l.op("pow", x, num()) }),
	onPicture("pointwise", "sqrt", func(l *lab, x *tensor) *tensor {
		l.r.grad = false
		a := l.op("abs", x)
		l.r.grad = true
		l.kept[a] = true // the graph holds its leaf
		return l.op("sqrt", l.wants(a))
	}),
	plainly("pointwise", "exp", "exp", program.Args{}),
	plainly("pointwise", "log", "log", program.Args{}),
	plainly("pointwise", "erf", "erf", program.Args{}),
	plainly("pointwise", "rsqrt", "rsqrt", program.Args{}),
	plainly("pointwise", "neg", "neg", program.Args{}),
	plainly("pointwise", "abs", "abs", program.Args{}),
	plainly("pointwise", "sin", "sin", program.Args{}),
	onPicture("pointwise", "maximum", func(l *lab, x *tensor) *tensor { return l.op("maximum", x, l.times(x)) }),
	plainly("pointwise", "softmax", "softmax", program.Args{}),
	plainly("pointwise", "logsoftmax", "log_softmax", program.Args{}),
	plainly("pointwise", "softmax_dim1", "softmax", program.Args{}),
	plainly("pointwise", "dropout", "dropout", program.Args{Train: true, P: 0.5}),
	plainly("pointwise", "dropout2d", "feature_dropout", program.Args{Train: true, P: 0.5, Shape: []int64{8, 64, 1, 1}}),
	onPicture("pointwise", "where", func(l *lab, x *tensor) *tensor {
		c := l.op("compare", x, num())
		return l.op("where", c, x, l.do("fill", program.Args{DType: f32, Shape: x.shape}))
	}),
	onPicture("pointwise", "masked_fill", func(l *lab, x *tensor) *tensor {
		return l.op("masked_fill", x,
			l.op("compare", x, num()))
	}),
	plainly("pointwise", "to_bf16", "to", program.Args{DType: bf16}),
	plainly("pointwise", "clone", "clone", program.Args{}),
	plainly("pointwise", "glu", "glu", program.Args{Dim: 1}),
	onPictures("add_xy", "add"), onPictures("mul_xy", "mul"), onPictures("div_xy", "div"), onPictures("sub", "sub"),
	onBroadcast("mul_bcast", "mul"), onBroadcast("add_bcast", "add"),

	plainly("pooling", "maxpool", "max_pool", program.Args{Shape: []int64{8, 64, 64, 64}}),
	plainly("pooling", "maxpool_ceil", "max_pool", program.Args{Shape: []int64{8, 64, 64, 64}}),
	plainly("pooling", "avgpool", "avg_pool", program.Args{Shape: []int64{8, 64, 64, 64}}),
	plainly("pooling", "adap1", "adaptive_avg_pool", program.Args{Shape: []int64{8, 64, 1, 1}}),
	plainly("pooling", "adap7", "adaptive_avg_pool", program.Args{Shape: []int64{8, 64, 7, 7}}),
	plainly("pooling", "adapmax", "adaptive_max_pool", program.Args{Shape: []int64{8, 64, 1, 1}}),
	plainly("pooling", "reflpad", "reflection_pad", program.Args{Shape: []int64{8, 64, 130, 130}}),
	plainly("pooling", "pad", "constant_pad", program.Args{Shape: []int64{8, 64, 130, 130}}),
	plainly("pooling", "up_near", "upsample", program.Args{Shape: []int64{8, 64, 256, 256}}),
	plainly("pooling", "up_bil", "upsample", program.Args{Shape: []int64{8, 64, 256, 256}}),
	plainly("pooling", "pixshuf", "pixel_shuffle", program.Args{Shape: []int64{8, 16, 256, 256}}),

	onPicture("views", "cat", func(l *lab, x *tensor) *tensor { return l.do("cat", program.Args{Dim: 1}, x, x) }),
	onPicture("views", "split_cat", func(l *lab, x *tensor) *tensor {
		p := l.all("split", program.Args{Dim: 1, Shape: []int64{32, 32}}, x)
		return l.do("cat", program.Args{Dim: 1}, p[1], p[0])
	}),
	onPicture("views", "split0", func(l *lab, x *tensor) *tensor {
		return l.times(l.do("split", program.Args{Dim: 1, Shape: []int64{32, 32}}, x))
	}),
	onPicture("views", "slice", func(l *lab, x *tensor) *tensor {
		return l.times(l.do("slice", program.Args{Dims: []int{1}, Shape: []int64{32}}, x))
	}),
	onPicture("views", "transpose_contig", func(l *lab, x *tensor) *tensor {
		return l.op("contiguous", l.do("permute", program.Args{Dims: []int{0, 2, 1, 3}}, x))
	}),
	onPicture("views", "reshape_copy", func(l *lab, x *tensor) *tensor {
		return l.do("reshape", program.Args{Shape: []int64{8, 64 * 128 * 128}},
			l.do("permute", program.Args{Dims: []int{0, 2, 1, 3}}, x))
	}),
	plainly("views", "view", "reshape", program.Args{Shape: []int64{8, 64 * 128 * 128}}),
	plainly("views", "permute", "permute", program.Args{Dims: []int{0, 2, 3, 1}}),
	plainly("views", "roll", "roll", program.Args{}),
	plainly("views", "flip", "flip", program.Args{}),
	onPicture("views", "expand", func(l *lab, x *tensor) *tensor {
		s := l.do("slice", program.Args{Dims: []int{1}, Shape: []int64{1}}, x)
		return l.times(l.do("expand", program.Args{Shape: x.shape}, s))
	}),

	plainly("reductions", "mean", "mean", program.Args{}),
	plainly("reductions", "mean_dim", "mean", program.Args{Dims: []int{2, 3}}),
	plainly("reductions", "sum", "sum", program.Args{}),
	plainly("reductions", "max_dim", "max_dim", program.Args{Dims: []int{1}}),
	plainly("reductions", "amax", "amax", program.Args{Dims: []int{1}}),
	plainly("reductions", "max_all", "amax", program.Args{}),
	plainly("reductions", "cumsum", "cumsum", program.Args{}),
	plainly("reductions", "topk", "topk", program.Args{Shape: []int64{8, 64, 128, 5}}),
	plainly("reductions", "var", "var", program.Args{Dims: []int{3}}),
	plainly("reductions", "norm", "norm", program.Args{}),
}

// onPictures is a case of an operator of two pictures.
func onPictures(name, op string) singleCase {
	return singleCase{"pointwise", name, func(l *lab) func() *tensor {
		a, b := picture(l), picture(l)
		return func() *tensor { return l.op(op, a, b) }
	}}
}

// onBroadcast is a case of an operator of a picture and a value for each channel.
func onBroadcast(name, op string) singleCase {
	return singleCase{"pointwise", name, func(l *lab) func() *tensor {
		a, b := picture(l), l.leaf(f32, 1, 64, 1, 1)
		return func() *tensor { return l.op(op, a, b) }
	}}
}
