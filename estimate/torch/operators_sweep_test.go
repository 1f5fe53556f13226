package torch

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// sweptCase returns the function that a swept row measured, nil for an operator without a case.
func sweptCase(l *lab, m *measuredCall) func() *tensor {
	d := m.dtype()
	leaf := func(shape ...int64) *tensor {
		if m.Layout == "nhwc" && len(shape) == 4 {
			return l.lastLeaf(d, shape...)
		}
		return l.leaf(d, shape...)
	}
	call := func(op string, a program.Args, in ...*tensor) func() *tensor {
		return func() *tensor { return l.do(op, a, in...) }
	}
	switch m.Op {
	case "linear":
		x, w := leaf(m.X...), leaf(m.W...)
		if m.Bias != nil && *m.Bias {
			return call("linear", program.Args{}, x, w, leaf(m.W[0]))
		}
		return call("linear", program.Args{}, x, w)
	case "embedding":
		return call("embedding", program.Args{}, leaf(m.W...), l.plain(i64, m.N))
	case "index_put":
		return call("index", program.Args{Shape: m.Out}, leaf(m.W...), l.plain(i64, m.N))
	case "batch_norm":
		return call("batch_norm", program.Args{Train: true}, leaf(m.X...), leaf(m.X[1]), leaf(m.X[1]))
	case "layer_norm":
		return call("layer_norm", program.Args{Shape: m.X[1:]}, leaf(m.X...), leaf(m.X[1]), leaf(m.X[1]))
	case "rms_norm":
		return call("rms_norm", program.Args{Shape: m.X[1:]}, leaf(m.X...), leaf(m.X[1]))
	case "sdpa":
		return sweptAttention(l, m)
	case "conv1d", "conv2d", "conv3d", "conv_transpose2d":
		return sweptConv(l, m)
	case "lstm", "gru", "rnn":
		return recurrentModule(l, m, true)
	}
	return nil
}

func sweptAttention(l *lab, m *measuredCall) func() *tensor {
	d := m.dtype()
	if m.Kind != "heads" {
		in := make([]*tensor, 3, 4)
		for i := range in {
			in[i] = l.leaf(d, m.B, m.H, m.S, m.D)
		}
		a := program.Args{Causal: m.Kind == "causal"}
		switch m.Kind {
		case "drop":
			a.Train, a.P = true, 0.1
		case "fmask":
			in = append(in, l.plain(d, m.B, 1, m.S, m.S))
		}
		return func() *tensor { return l.do("sdpa", a, in...) }
	}
	in := make([]*tensor, 3)
	for i := range in {
		in[i] = l.leaf(d, m.B, m.S, m.H*m.D)
	}
	return func() *tensor {
		heads := make([]*tensor, 3)
		for i, t := range in {
			heads[i] = l.do("permute", program.Args{Dims: []int{0, 2, 1, 3}},
				l.do("reshape", program.Args{Shape: dims(m.B, m.S, m.H, m.D)}, t))
		}
		y := l.do("permute", program.Args{Dims: []int{0, 2, 1, 3}}, l.op("sdpa", heads...))
		return l.do("reshape", program.Args{Shape: dims(m.B, m.S, m.H*m.D)}, y)
	}
}

func sweptConv(l *lab, m *measuredCall) func() *tensor {
	d := m.dtype()
	n := len(m.W) - 2
	a := program.Args{Shape: m.Out, Groups: max(m.Groups, 1), Stride: m.Stride}
	for range n {
		a.Dilate = append(a.Dilate, max(m.Dilation, 1))
		if m.Stride == nil {
			a.Stride = append(a.Stride, 1)
		}
	}
	op, outs := "conv", m.W[0]
	if m.Op == "conv_transpose2d" {
		op, a.Mode, outs = "conv_transpose", "transposed", m.W[1]
	}
	make := func(shape []int64) *tensor {
		if m.Layout == "nhwc" {
			return l.lastLeaf(d, shape...)
		}
		return l.leaf(d, shape...)
	}
	in := []*tensor{make(m.X), make(m.W)}
	// Pictures of three channels stood for data, which wants no gradient.
	if m.X[1] == 3 && (m.Op == "conv2d" || m.Op == "conv3d") {
		in[0].requiresGrad, in[0].leaf = false, nil
	}
	if m.Bias == nil || *m.Bias {
		in = append(in, l.leaf(d, outs))
	}
	return func() *tensor { return l.do(op, a, in...) }
}

// recurrentModule is an RNN module; with batch_first it transposes its input and its output.
func recurrentModule(l *lab, m *measuredCall, batchFirst bool) func() *tensor {
	d := m.dtype()
	s := kernels.RNNShape{Kind: map[string]kernels.RNNKind{"lstm": kernels.LSTM, "gru": kernels.GRU,
		"rnn": kernels.ElmanRNN}[m.Op], Hidden: m.Hidden, Layers: m.Layers, Both: m.Both}
	gates := map[kernels.RNNKind]int64{kernels.LSTM: 4, kernels.GRU: 3, kernels.ElmanRNN: 1}[s.Kind] * m.Hidden
	directions := int64(1)
	if m.Both {
		directions = 2
	}
	x := l.leaf(d, m.X...)
	flat := l.plain(d, 1)
	in := []*tensor{nil, nil, nil}
	for i := range m.Layers * directions {
		width := m.X[2]
		if i >= directions {
			width = m.Hidden * directions
		}
		for _, shape := range [][]int64{{gates, width}, {gates, m.Hidden}, {gates}, {gates}} {
			v := l.plain(d, shape...)
			if d != bf16 {
				v = l.r.alias(flat, shape, kernels.RowMajor(shape))
			}
			l.kept[v] = true
			in = append(in, l.wants(v))
		}
	}
	a := program.Args{Hidden: m.Hidden, Layers: m.Layers, Both: m.Both, P: m.Dropout, Train: true}
	if !batchFirst {
		x = l.leaf(d, m.X[1], m.X[0], m.X[2])
		in[0] = x
		return func() *tensor { return l.do(m.Op, a, in...) }
	}
	return func() *tensor {
		args := append([]*tensor{l.do("permute", program.Args{Dims: []int{1, 0, 2}}, x)}, in[1:]...)
		return l.do("permute", program.Args{Dims: []int{1, 0, 2}}, l.do(m.Op, a, args...))
	}
}

// name says which row of its operator a swept measurement is.
func (m *measuredCall) name() string {
	if m.Name != "" {
		return m.Name
	}
	s := fmt.Sprintf("%s %s", m.Op, m.DType)
	for _, part := range []string{m.Layout, m.Kind} {
		if part != "" {
			s += " " + part
		}
	}
	switch {
	case m.Op == "sdpa":
		return s + fmt.Sprintf(" %v", dims(m.B, m.H, m.S, m.D))
	case m.N != 0:
		return s + fmt.Sprintf(" %v of %v", m.N, m.W)
	case m.Hidden != 0:
		return s + fmt.Sprintf(" %v hidden %d x %d both %v dropout %v", m.X, m.Hidden, m.Layers, m.Both, m.Dropout)
	}
	if m.W == nil {
		return s + fmt.Sprintf(" x %v", m.X)
	}
	return s + fmt.Sprintf(" x %v w %v stride %v dilation %d groups %d", m.X, m.W, m.Stride, m.Dilation, m.Groups)
}
