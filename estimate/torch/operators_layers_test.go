package torch

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
)

// onTensors is a case of a function of leaves of these shapes.
func onTensors(family, name string, d program.DType, f func(l *lab, x []*tensor) *tensor, shapes ...[]int64) singleCase {
	return singleCase{family, name, func(l *lab) func() *tensor {
		var x []*tensor
		for _, s := range shapes {
			x = append(x, l.leaf(d, s...))
		}
		return func() *tensor { return f(l, x) }
	}}
}

func dims(n ...int64) []int64 { return n }

// calling is a case's function that calls one operator on all the leaves.
func calling(op string, a program.Args) func(l *lab, x []*tensor) *tensor {
	return func(l *lab, x []*tensor) *tensor { return l.do(op, a, x...) }
}

var (
	pic  = dims(8, 64, 128, 128)
	rows = dims(4096, 1024)
)

var normCases = []singleCase{
	onTensors("norms", "bn train fp32", f32, calling("batch_norm", program.Args{Train: true}), pic, dims(64), dims(64)),
	onTensors("norms", "bn eval fp32", f32, calling("batch_norm", program.Args{}), pic, dims(64), dims(64)),
	{"norms", "bn train bf16 in, fp32 params", func(l *lab) func() *tensor {
		x, w, b := l.leaf(bf16, pic...), l.leaf(f32, 64), l.leaf(f32, 64)
		return func() *tensor { return l.do("batch_norm", program.Args{Train: true}, x, w, b) }
	}},
	{"norms", "bn train channels_last", func(l *lab) func() *tensor {
		x, w, b := l.lastLeaf(f32, pic...), l.leaf(f32, 64), l.leaf(f32, 64)
		return func() *tensor { return l.do("batch_norm", program.Args{Train: true}, x, w, b) }
	}},
	onTensors("norms", "instnorm", f32, calling("instance_norm", program.Args{}), pic),
	onTensors("norms", "instancenorm affine", f32, calling("instance_norm", program.Args{}), pic, dims(64), dims(64)),
	onTensors("norms", "groupnorm", f32, calling("group_norm", program.Args{Groups: 8}), pic, dims(64), dims(64)),
	onTensors("norms", "layernorm [4096,1024]", f32, calling("layer_norm", program.Args{Shape: dims(1024)}), rows,
		dims(1024), dims(1024)),
	onTensors("norms", "layernorm bf16", bf16, calling("layer_norm", program.Args{Shape: dims(1024)}), rows, dims(1024),
		dims(1024)),
	onTensors("norms", "rmsnorm fp32", f32, calling("rms_norm", program.Args{Shape: dims(1024)}), rows, dims(1024)),
	onTensors("norms", "rmsnorm bf16", bf16, calling("rms_norm", program.Args{Shape: dims(1024)}), rows, dims(1024)),
	{"norms", "HF llama rmsnorm bf16 in", func(l *lab) func() *tensor {
		x, w := l.leaf(bf16, rows...), l.leaf(f32, 1024)
		w.leaf.grad = l.plain(f32, 1024) // left from the call that warmed up
		return func() *tensor {
			v := l.let(l.do("to", program.Args{DType: f32}, x))
			m := l.do("mean", program.Args{Dims: []int{1}, Keep: true}, l.op("pow", v, num()))
			n := l.op("mul", v, l.op("rsqrt", l.op("add", m, num())))
			return l.op("mul", w, l.do("to", program.Args{DType: bf16}, n))
		}
	}},
	plainly("norms", "normalize", "normalize", program.Args{Dims: []int{1}}),
}

// matmulCases are those that were measured in float32 and in bfloat16.
func matmulCases(d program.DType, torch string) []singleCase {
	x3, x2, w, b := dims(8, 512, 1024), rows, dims(4096, 1024), dims(4096)
	heads := func(l *lab, x *tensor, perm []int) *tensor {
		return l.do("permute", program.Args{Dims: perm}, l.do("reshape", program.Args{Shape: dims(8, 512, 16, 64)}, x))
	}
	return []singleCase{
		onTensors("matmul", "linear3d bias=True "+torch, d, calling("linear", program.Args{}), x3, w, b),
		onTensors("matmul", "linear2d bias=True "+torch, d, calling("linear", program.Args{}), x2, w, b),
		onTensors("matmul", "linear3d bias=False "+torch, d, calling("linear", program.Args{}), x3, w),
		onTensors("matmul", "linear2d bias=False "+torch, d, calling("linear", program.Args{}), x2, w),
		onTensors("matmul", "linear3d noncontig "+torch, d, func(l *lab, x []*tensor) *tensor {
			return l.op("linear", l.do("permute", program.Args{Dims: []int{1, 0, 2}}, x[0]), x[1], x[2])
		}, x3, w, b),
		onTensors("matmul", "bmm "+torch, d, calling("matmul", program.Args{}), dims(64, 512, 64), dims(64, 64, 512)),
		onTensors("matmul", "matmul4d transposed k "+torch, d, func(l *lab, x []*tensor) *tensor {
			return l.op("matmul", l.do("reshape", program.Args{Shape: dims(4, 16, 512, 64)}, x[0]),
				l.do("reshape", program.Args{Shape: dims(4, 16, 64, 512)}, x[1]))
		}, dims(64, 512, 64), dims(64, 64, 512)),
		onTensors("matmul", "matmul 4d from permuted heads "+torch, d, func(l *lab, x []*tensor) *tensor {
			return l.op("matmul", heads(l, x[0], []int{0, 2, 1, 3}), heads(l, x[1], []int{0, 2, 3, 1}))
		}, x3, x3),
	}
}

var productCases = []singleCase{
	onPicture("matmul", "einsum", func(l *lab, x *tensor) *tensor {
		return l.do("einsum", program.Args{Mode: "bchw,bdhw->bcd", Shape: dims(8, 64, 64)}, x, x)
	}),
	{"matmul", "linear weight grad steal via t()", func(l *lab) func() *tensor {
		x, w := l.plain(f32, rows...), l.leaf(f32, 1024, 1024)
		return func() *tensor { return l.op("linear", x, w) }
	}},
	onTensors("reductions", "expand grad stolen? sum", f32, calling("sum", program.Args{}), dims(1024, 1024)),
}

// table is a case of a function of an embedding table and 4096 integers.
func table(name string, f func(l *lab, w, ids *tensor) *tensor) singleCase {
	return singleCase{"indexing", name, func(l *lab) func() *tensor {
		w, ids := l.leaf(f32, 50000, 1024), l.plain(i64, 8, 512)
		return func() *tensor { return f(l, w, ids) }
	}}
}

var indexCases = []singleCase{
	table("embedding", func(l *lab, w, ids *tensor) *tensor { return l.op("embedding", w, ids) }),
	table("gather idx", func(l *lab, w, ids *tensor) *tensor {
		return l.op("gather", w, l.do("expand", program.Args{Shape: rows},
			l.do("reshape", program.Args{Shape: dims(4096, 1)}, ids)))
	}),
	table("adv idx", func(l *lab, w, ids *tensor) *tensor {
		return l.do("index", program.Args{Shape: dims(8, 512, 1024)}, w, ids)
	}),
	table("tied weight", func(l *lab, w, ids *tensor) *tensor {
		return l.op("linear", l.do("reshape", program.Args{Shape: rows}, l.op("embedding", w, ids)), w)
	}),
}

// lossCase is a case of a loss on the output of the picture's or the logits' shape.
func lossCase(name, loss string, d program.DType, x []int64, labels program.DType, y []int64,
	before func(l *lab, x *tensor) *tensor) singleCase {
	return singleCase{"losses", name, func(l *lab) func() *tensor {
		out, target := l.leaf(d, x...), l.plain(labels, y...)
		return func() *tensor {
			in := before(l, out)
			t, err := l.r.loss(loss, in, target)
			if err != nil {
				l.err = err
			}
			if !l.kept[in] {
				l.r.release(in)
			}
			return t
		}
	}}
}

func itself(_ *lab, x *tensor) *tensor { return x }

var logits = dims(4096, 50304)

var lossCases = []singleCase{
	lossCase("cross_entropy fp32 [4096,50304]", "cross-entropy", f32, logits, i64, dims(4096), itself),
	lossCase("cross_entropy bf16", "cross-entropy", bf16, logits, i64, dims(4096), itself),
	lossCase("cross_entropy bf16.float()", "cross-entropy", bf16, logits, i64, dims(4096),
		func(l *lab, x *tensor) *tensor {
			return l.do("to", program.Args{DType: f32}, x)
		}),
	lossCase("mse", "mse", f32, pic, f32, pic, itself),
	lossCase("l1", "l1", f32, pic, f32, pic, itself),
	lossCase("smoothl1", "smooth-l1", f32, pic, f32, pic, itself),
	{"losses", "bce_logits", func(l *lab) func() *tensor {
		x, y := l.leaf(f32, pic...), l.plain(f32, pic...)
		return func() *tensor {
			target := l.op("sigmoid", y)
			t := l.r.bceLogits(x, target)
			l.r.release(target)
			return t
		}
	}},
}

var fanCases = []singleCase{
	onPicture("fan-in", "residual relu(x)+x twice-used", func(l *lab, x *tensor) *tensor {
		u := l.let(l.times(x))
		return l.op("add", l.op("relu", u), u)
	}),
	onPicture("fan-in", "residual3 u used 3x", func(l *lab, x *tensor) *tensor {
		u := l.let(l.times(x))
		return l.op("add", l.op("add", l.op("relu", u), l.op("silu", u)), l.op("sigmoid", u))
	}),
	onPicture("fan-in", "residual4 u used 4x", func(l *lab, x *tensor) *tensor {
		u := l.let(l.times(x))
		return l.op("add", l.op("add", l.op("add", l.op("relu", u), l.op("silu", u)), l.op("sigmoid", u)), l.op("tanh", u))
	}),
}

// sdpaCases are those that were measured in all three types.
func sdpaCases(d program.DType, torch string) []singleCase {
	q := dims(4, 16, 1024, 64)
	name := func(s string) string { return fmt.Sprintf("sdpa %s %s", torch, s) }
	masked := func(kind string, m program.DType) singleCase {
		return singleCase{"attention", name(kind), func(l *lab) func() *tensor {
			x := []*tensor{l.leaf(d, q...), l.leaf(d, q...), l.leaf(d, q...), l.plain(m, 4, 1, 1024, 1024)}
			return func() *tensor { return l.op("sdpa", x...) }
		}}
	}
	return []singleCase{
		onTensors("attention", name("none"), d, calling("sdpa", program.Args{}), q, q, q),
		onTensors("attention", name("causal"), d, calling("sdpa", program.Args{Causal: true}), q, q, q),
		onTensors("attention", name("drop"), d, calling("sdpa", program.Args{Train: true, P: 0.1}), q, q, q),
		masked("fmask", d), masked("bmask", mask),
		onTensors("attention", name("from packed qkv permute"), d, func(l *lab, x []*tensor) *tensor {
			p := l.all("unbind", program.Args{}, l.do("permute", program.Args{Dims: []int{2, 0, 3, 1, 4}}, x[0]))
			return l.op("sdpa", p...)
		}, dims(4, 1024, 3, 16, 64)),
		onTensors("attention", name("hd80 L1000"), d, func(l *lab,
			x []*tensor) *tensor {
			return l.op("sdpa", x[0], x[0], x[0])
		}, dims(4, 16, 1000, 80)),
		onTensors("attention", name("gqa"), d, func(l *lab, x []*tensor) *tensor { return l.op("sdpa", x[0], x[1], x[1]) },
			q, dims(4, 4, 1024, 64)),
	}
}

var blockCases = []singleCase{
	{"blocks", "amp block", block(true, false)},
	{"blocks", "fp32 block", block(false, false)},
	{"blocks", "fp32 block, grads there", block(false, true)},
	{"blocks", "fp32 block, inference", func(l *lab) func() *tensor {
		net := newMLP(l)
		old := l.plain(f32, rows...)
		return func() *tensor {
			l.r.grad = false
			y := net.forward(l)
			l.kept[y] = true
			l.r.release(old)
			return y
		}
	}},
}

// An mlp is Linear, ReLU, Linear, LayerNorm, GELU, Linear on [4096, 1024].
type mlp struct {
	x, target *tensor
	w, b      [3]*tensor
	g, h      *tensor
}

func newMLP(l *lab) *mlp {
	n := &mlp{x: l.plain(f32, rows...), target: l.plain(f32, rows...)}
	for i := range n.w {
		n.w[i], n.b[i] = l.leaf(f32, 1024, 1024), l.leaf(f32, 1024)
	}
	n.g, n.h = l.leaf(f32, 1024), l.leaf(f32, 1024)
	return n
}

// forward keeps its variable x as nn.Sequential does: a module's input goes once its
// output has taken its place.
func (n *mlp) forward(l *lab) *tensor {
	x := l.op("linear", n.x, n.w[0], n.b[0])
	x = l.op("relu", x)
	x = l.op("linear", x, n.w[1], n.b[1])
	x = l.do("layer_norm", program.Args{Shape: dims(1024)}, x, n.g, n.h)
	x = l.op("gelu", x)
	return l.op("linear", x, n.w[2], n.b[2])
}

// block is a case of the network and a mean squared error.
func block(amp, again bool) func(l *lab) func() *tensor {
	return func(l *lab) func() *tensor {
		n := newMLP(l)
		l.ones = true
		oldOut, oldLoss := l.plain(bf16, rows...), l.plain(f32, rows...) // the variables still hold the last round's
		step := func() *tensor {
			if amp {
				l.r.opts.Precision = AMPBF16
				l.r.enterAutocast()
				defer l.r.exitAutocast()
			}
			y := n.forward(l)
			l.kept[y] = true // a variable of the caller
			l.r.release(oldOut)
			t, err := l.r.loss("mse", y, n.target)
			if err != nil {
				l.err = err
			}
			l.r.release(oldLoss)
			return t
		}
		if again {
			t := step()
			l.r.runBackward(t)
		}
		return step
	}
}
