package torch

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
)

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

// convCases are the convolutions of common networks, in the three types and both layouts.
func convCases() []singleCase {
	var list []singleCase
	types := []struct {
		name string
		d    program.DType
	}{{"float32", f32}, {"bfloat16", bf16}, {"float16", f16}}
	for _, t := range types {
		for _, last := range []bool{false, true} {
			for _, c := range [][8]int64{ // N, C, H, K, kernel, stride, padding, groups
				{32, 3, 224, 64, 7, 2, 3, 1}, {32, 64, 56, 64, 3, 1, 1, 1}, {32, 64, 56, 256, 1, 1, 0, 1},
				{32, 128, 28, 128, 3, 1, 1, 1}, {32, 256, 14, 256, 3, 1, 1, 1}, {32, 512, 7, 512, 3, 1, 1, 1},
				{32, 256, 56, 128, 3, 2, 1, 1}, {32, 144, 56, 144, 3, 1, 1, 144}, {32, 96, 56, 96, 7, 1, 3, 96}, {8, 3, 224, 768,
					16, 16, 0, 1},
			} {
				cl := "False"
				if last {
					cl = "True"
				}
				list = append(list, singleCase{"convolutions", fmt.Sprintf("conv %s cl=%s N%d C%d H%d K%d k%d s%d g%d", t.name, cl,
					c[0], c[1], c[2], c[3], c[4], c[5], c[7]), func(l *lab) func() *tensor {
					leaf := l.leaf
					if last {
						leaf = l.lastLeaf
					}
					h := (c[2]+2*c[6]-c[4])/c[5] + 1
					in := []*tensor{leaf(t.d, c[0], c[1], c[2], c[2]), leaf(t.d, c[3], c[1]/c[7], c[4], c[4])}
					if c[4] == 16 {
						in = append(in, l.leaf(t.d, c[3]))
					}
					a := program.Args{Shape: dims(c[0], c[3], h, h), Groups: c[7], Stride: dims(c[5], c[5]), Dilate: dims(1, 1)}
					return func() *tensor { return l.do("conv", a, in...) }
				}})
			}
		}
	}
	biased := func(name string, a program.Args, x, w []int64, outs int64) singleCase {
		op := "conv"
		if a.Mode != "" {
			op = "conv_transpose"
		}
		return onTensors("convolutions", name, f32, calling(op, a), x, w, dims(outs))
	}
	return append(list,
		biased("conv bias fp32 32x64x56", program.Args{Shape: dims(32, 64, 56, 56), Groups: 1, Stride: dims(1, 1),
			Dilate: dims(1, 1)}, dims(32, 64, 56, 56), dims(64, 64, 3, 3), 64),
		biased("convT fp32", program.Args{Shape: dims(8, 32, 112, 112), Groups: 1, Stride: dims(2, 2), Dilate: dims(1, 1),
			Mode: "transposed"}, dims(8, 64, 56, 56), dims(64, 32, 2, 2), 32),
		biased("conv1d fp32", program.Args{Shape: dims(8, 512, 1500), Groups: 1, Stride: dims(1), Dilate: dims(1)},
			dims(8, 80, 1500), dims(512, 80, 3), 512),
		biased("conv3d fp32", program.Args{Shape: dims(2, 32, 32, 64, 64), Groups: 1, Stride: dims(1, 1, 1),
			Dilate: dims(1, 1, 1)}, dims(2, 16, 32, 64, 64), dims(32, 16, 3, 3, 3), 32),
		biased("conv dil2 fp32", program.Args{Shape: dims(32, 64, 56, 56), Groups: 1, Stride: dims(1, 1), Dilate: dims(2, 2)},
			dims(32, 64, 56, 56), dims(64, 64, 3, 3), 64),
	)
}

// recurrent is a case of an RNN module.
func recurrent(name, op string, first bool, x []int64, hidden, layers int64, both bool, p float64) singleCase {
	return singleCase{"recurrent", name, func(l *lab) func() *tensor {
		m := &measuredCall{Op: op, DType: "fp32", X: x, Hidden: hidden, Layers: layers, Both: both, Dropout: p}
		if !first {
			m.X = dims(x[1], x[0], x[2])
		}
		return recurrentModule(l, m, first)
	}}
}

var moduleCases = []singleCase{
	recurrent("LSTM", "lstm", true, dims(16, 100, 256), 512, 2, false, 0),
	recurrent("GRU", "gru", true, dims(16, 100, 256), 512, 2, false, 0),
	recurrent("LSTM bi dropout", "lstm", false, dims(100, 16, 256), 512, 2, true, 0.1),
	{"attention", "sdpa math fp32 causal", func(l *lab) func() *tensor {
		x := l.leaf(f32, 4, 16, 1024, 64)
		return func() *tensor { return l.r.mathSDPA(&program.Call{Args: &program.Args{Causal: true}}, x, x, x, nil, 0) }
	}},
	{"attention", "MHA need_weights=False", func(l *lab) func() *tensor { return multihead(l, false) }},
	{"attention", "MHA need_weights=True", func(l *lab) func() *tensor { return multihead(l, true) }},
}

// multihead is nn.MultiheadAttention(1024, 16, batch_first=True) on [4, 512, 1024] as F.multi_head_attention_forward
// writes it: a packed projection, and attention over [B, H, L, D] or, when the weights are wanted, over [B*H, L, D].
func multihead(l *lab, weights bool) func() *tensor {
	x := l.leaf(f32, 4, 512, 1024)
	w, b := l.leaf(f32, 3072, 1024), l.leaf(f32, 3072)
	wo, bo := l.leaf(f32, 1024, 1024), l.leaf(f32, 1024)
	return func() *tensor {
		q := l.let(l.do("permute", program.Args{Dims: []int{1, 0, 2}}, x)) // [L, B, E]
		p := l.op("linear", q, w, b)
		p = l.do("reshape", program.Args{Shape: dims(512, 4, 3, 1024)}, p)
		p = l.do("unsqueeze", program.Args{}, p)
		p = l.do("permute", program.Args{Dims: []int{3, 1, 2, 0, 4}}, p)
		p = l.do("squeeze", program.Args{Dim: 3}, p)
		p = l.let(l.op("contiguous", p)) // [3, L, B, E]
		parts := make([]*tensor, 3)
		for i := range parts {
			parts[i] = l.let(l.do("select", program.Args{}, p))
		}
		each := func(op string, a program.Args) { // q = q.view(...)
			for i, t := range parts {
				v := l.do(op, a, t)
				l.del(t)
				parts[i] = l.let(v)
			}
		}
		for i, t := range parts {
			// [B*H, L, D]
			v := l.do("permute", program.Args{Dims: []int{1, 0, 2}}, l.do("reshape", program.Args{Shape: dims(512, 64, 64)}, t))
			l.del(t)
			parts[i] = l.let(v)
		}
		if !weights {
			each("reshape", program.Args{Shape: dims(4, 16, 512, 64)})
		}
		var y, probs *tensor
		if weights {
			scaled := l.let(l.times(parts[0]))
			scores := l.op("matmul", scaled, l.do("permute", program.Args{Dims: []int{0, 2, 1}}, parts[1]))
			probs = l.let(l.op("softmax", scores))
			y = l.op("matmul", probs, parts[2])
			y = l.do("permute", program.Args{Dims: []int{1, 0, 2}}, y)
			y = l.op("contiguous", y)
		} else {
			y = l.op("sdpa", parts...)
			y = l.do("permute", program.Args{Dims: []int{2, 0, 1, 3}}, y)
			y = l.op("contiguous", y)
		}
		y = l.do("reshape", program.Args{Shape: dims(2048, 1024)}, y)
		y = l.op("linear", y, wo, bo)
		y = l.do("reshape", program.Args{Shape: dims(512, 4, 1024)}, y)
		if weights { // averaged over the heads, for the second result
			l.r.release(l.do("mean", program.Args{Dims: []int{1}}, l.do("reshape", program.Args{Shape: dims(4, 16, 512, 512)}, probs)))
		}
		return l.do("permute", program.Args{Dims: []int{1, 0, 2}}, y)
	}
}
