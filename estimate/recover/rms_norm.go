package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// castsProduct reports whether what a norm gives times its weight is cast as a whole, (self.weight * x).to(dtype) as
// Olmo2RMSNorm and GptOssRMSNorm have it: by the cast that TorchScript keeps behind it, or the name that optimizers leave
// of one.
func (b *recovery) castsProduct(scale *onnxload.Node) bool {
	after, _ := b.user(scale.Output(0), "Cast")
	return after != nil && b.elem(after.Output(0)) == program.Float32 ||
		strings.HasPrefix(b.m.NameOf(scale.Output(0)), "type_as")
}

// isScale reports whether a value is a weight of a norm, as it is or with one added.
func (b *recovery) isScale(w onnxload.ValueID) bool {
	if one, _ := b.producedBy(w, "Add"); one != nil {
		w, _ = b.otherThanNumber(one)
	}
	return w != onnxload.NoValue && b.isParameter(w)
}

// matchPlainRMSNorm finds a root mean square norm without a weight, self._norm(x.float()).type_as(x), by the name of
// the cast that its result keeps (NanoChatRMSNorm and Llama4TextL2Norm in transformers).
func (b *recovery) matchPlainRMSNorm(x onnxload.ValueID, mean, norm *onnxload.Node, members []int) {
	if !strings.HasPrefix(b.m.NameOf(norm.Output(0)), "type_as") || !b.guess(floatRMSNorm) {
		return
	}
	b.claim(func() {
		v, in := b.normInFloat(x, mean, false)
		b.call("type_as", program.Args{}, []program.ValueID{v, in}, norm.Output(0))
	}, members...)
}

// normInFloat emits x times the inverse root of the mean of its squares, computed in float32, and returns it and x,
// which it takes for the product as it is where own is set.
func (b *recovery) normInFloat(x onnxload.ValueID, mean *onnxload.Node, own bool) (v, in program.ValueID) {
	f, shape, small := program.Float32, b.dims(x), b.dims(mean.Output(0))
	in = b.value(x)
	wide := b.temp("float", program.Args{}, f, shape, in)
	square := b.temp("square", program.Args{}, f, shape, wide)
	v = b.temp("mean", b.reduction(mean, b.axes(mean)), f, small, square)
	number := b.add(program.Value{Kind: program.Number, DType: f})
	v = b.temp("add", program.Args{}, f, small, v, number)
	v = b.temp("rsqrt", program.Args{}, f, small, v) // or a power, which saves one small tensor more
	if own {
		wide = in
	}
	return b.temp("mul", program.Args{}, f, shape, wide, v), in
}
