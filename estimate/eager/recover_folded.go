package eager

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// HasFoldedNorm reports whether a node is a convolution that had a batch norm behind it, which an export in
// evaluation mode folded into its weight; whether that weight is a constant is the caller's to know. The
// TorchScript exporter renames both the weight and the bias that it computes, "onnx::Conv_193";
// torch.export leaves the name of what it took out of the norm's tuple of results, "getitem_3", on
// the convolution's only result.
func HasFoldedNorm(m *onnxload.Model, n *onnxload.Node) bool {
	if n.Op != "Conv" && n.Op != "ConvTranspose" || n.Domain != "" || n.Out[0] == onnxload.NoValue {
		return false
	}
	renamed := 0
	for i := 1; i < min(len(n.In), 3); i++ {
		if n.In[i] != onnxload.NoValue && strings.HasPrefix(m.Values[n.In[i]].Name, "onnx::"+n.Op+"_") {
			renamed++
		}
	}
	return renamed == 2 || strings.HasPrefix(m.Values[n.Out[0]].Name, "getitem")
}

func (b *recovery) isFolded(n *onnxload.Node) bool {
	return HasFoldedNorm(b.m, n) && b.isParameter(b.in(n, 1))
}

// emitFolded emits a convolution and the batch norm that was folded into it, with the norm's parameters and
// statistics. Whether the convolution had a bias of its own is lost; with a norm behind it, modules leave it out.
func (b *recovery) emitFolded(n *onnxload.Node, op string, args Args, in []ValueID) {
	b.folded++
	out := b.dims(n.Out[0])
	dtype := b.elem(n.Out[0])
	y := b.temp(op, args, dtype, out, in...)
	name := b.places[b.at].Module
	if name == "" {
		name = fmt.Sprintf("folded_%d", b.folded)
	}
	state := func(tail string, kind ValueKind, d onnxload.DType, shape ...int64) ValueID {
		v := b.add(Value{Name: name + ".restored_bn." + tail, Kind: kind, DType: d, Shape: shape})
		b.prog.State = append(b.prog.State, v)
		return v
	}
	c := out[1]
	w, bias := state("weight", Parameter, onnxload.Float32, c), state("bias", Parameter, onnxload.Float32, c)
	state("running_mean", Buffer, onnxload.Float32, c)
	state("running_var", Buffer, onnxload.Float32, c)
	b.call("batch_norm", Args{Train: b.src.Train}, []ValueID{y, w, bias}, n.Out[0])
}
