package torch

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
)

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
