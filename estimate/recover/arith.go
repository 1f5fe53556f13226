package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

func unaryCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		b.call(op, program.Args{}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
	}
}

// activation is a unaryCall whose module has an option inplace. call is how a line of Python begins that calls the
// function.
func activation(op, call string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		b.call(op, program.Args{Inplace: b.inPlace(n, call)}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
	}
}

func binaryCall(op string) func(*recovery, *onnxload.Node) { return arithmetic(op, "") }

// arithmetic is a binaryCall that Python has an augmented assignment of, by its sign: x -= y.
func arithmetic(op, sign string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		inPlace, _ := b.saysInPlace(n, sign)
		b.call(op, program.Args{Inplace: inPlace && len(n.In) == 2}, b.values(n), n.Output(0))
	}
}

// emitAdd is add, or add_ where a residual block of convolutions ends: out += identity after a
// normalisation, and before a ReLU whichever comes first, is how these are written, and saves nothing for backward.
// Without a ReLU, result += input of MobileNetV3, EfficientNet and ConvNeXt has the block's result first; the
// x + block(x) of others has not, and the sum of two blocks is that of two branches.
func emitAdd(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	var args program.Args
	sides := 1
	if relu, _ := b.user(n.Output(0), "Relu"); relu != nil {
		sides = 2
	}
	if yes, known := b.saysInPlace(n, "+"); known {
		args.Inplace, sides = yes, 0
	}
	for i := range sides {
		if v, other := b.in(n, i), b.in(n, 1-i); b.endsBlock(v) && slices.Equal(b.dims(v), b.dims(other)) &&
			(sides == 2 || !b.endsBlock(other)) && b.guess(residualInPlace) {
			args.Inplace = true
			in[0], in[1] = in[i], in[1-i]
			break
		}
	}
	b.call("add", args, in, n.Output(0))
}

// endsBlock reports whether a value that is read once is the picture that a block of convolutions ends with:
// normalised, or scaled by a parameter, stochastic depth or not.
func (b *recovery) endsBlock(v onnxload.ValueID) bool {
	if !b.single(v) || len(b.dims(v)) < 4 {
		return false
	}
	p, _ := b.producer(b.unnoised(v))
	return p != nil && (p.Op == "BatchNormalization" || b.isFolded(p) || p.Op == "Mul" &&
		(b.isParameter(b.in(p, 0)) || b.isParameter(b.in(p, 1))))
}

// emitClip is hardtanh (ReLU6) where both bounds are numbers, as modules write it; clamp otherwise.
func emitClip(b *recovery, n *onnxload.Node) {
	op, inplace := "clamp", false
	lo, hi := b.in(n, 1) != onnxload.NoValue || n.Attr("min") != nil, b.in(n, 2) != onnxload.NoValue ||
		n.Attr("max") != nil
	if b.isNumber(b.in(n, 1), 0) && b.isNumber(b.in(n, 2), 6) || n.Attr("min") != nil && n.Attr("max") != nil ||
		b.isNumber(b.in(n, 1), -1) && b.isNumber(b.in(n, 2), 1) {
		op, inplace = "hardtanh", b.inPlace(n, "relu6(")
	}
	b.call(op, program.Args{Both: lo && hi, Inplace: inplace}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

func emitSum(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	b.chained(len(in) - 2)
	acc := in[0]
	for i := 1; i < len(in)-1; i++ {
		acc = b.temp("add", program.Args{}, b.elem(n.Output(0)), b.dims(n.Output(0)), acc, in[i])
	}
	if len(in) == 1 {
		b.call("clone", program.Args{}, in, n.Output(0))
		return
	}
	b.call("add", program.Args{}, []program.ValueID{acc, in[len(in)-1]}, n.Output(0))
}

// emitWhere is where, or masked_fill: that exports as a choice of a number where the mask is set, of the tensor
// elsewhere. torch.where with a number has it the other way round in the code that masks attention.
func emitWhere(b *recovery, n *onnxload.Node) {
	in, out := b.values(n), n.Output(0)
	number := b.prog.Values[in[1]].Kind == program.Number && b.elem(out).IsFloat()
	if number && b.prog.Values[in[2]].Kind == program.Activation && slices.Equal(b.dims(b.in(n, 2)), b.dims(out)) {
		args := program.Args{}
		if mask := b.dims(b.in(n, 0)); b.masksLeading(n) { // x[mask] = number, in place
			args.Inplace = true
			mask = append(slices.Clone(mask), slices.Repeat([]int64{1}, len(b.dims(out))-len(mask))...)
			in[0] = b.temp("reshape", program.Args{Shape: mask}, b.elem(b.in(n, 0)), mask, in[0])
		}
		b.call("masked_fill", args, []program.ValueID{in[2], in[0]}, out)
		return
	}
	b.call("where", program.Args{}, in, out)
}

// masksLeading reports whether a choice is of a mask that is not spread as ONNX's are: see shape.MasksLeading.
func (b *recovery) masksLeading(n *onnxload.Node) bool {
	of := func(i int) shape.Shape { return b.types.Type(b.in(n, i)).Shape }
	mask, whole := b.dims(b.in(n, 0)), b.dims(n.Output(0))
	for i, d := range mask {
		if k := len(whole) - len(mask) + i; k < 0 || d != 1 && d != whole[k] {
			return shape.MasksLeading(of(0), of(1), of(2))
		}
	}
	return false
}

func emitCast(b *recovery, n *onnxload.Node) {
	b.call("to", program.Args{DType: b.elem(n.Output(0))}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}
