package eager

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// isFolded reports whether a convolution had a batch norm behind it that an export in evaluation mode folded
// into its weight. The TorchScript exporter renames both the weight and the bias that it
// computes, "onnx::Conv_193"; torch.export leaves the name of what it took out of the norm's tuple of
// results, "getitem_3", on the convolution's only result.
func (b *recovery) isFolded(n *onnxload.Node) bool {
	if n.Op != "Conv" && n.Op != "ConvTranspose" || n.Domain != "" {
		return false
	}
	w, bias := b.in(n, 1), b.in(n, 2)
	if !b.isParameter(w) || n.Out[0] == onnxload.NoValue {
		return false
	}
	prefix := "onnx::" + n.Op + "_"
	if bias != onnxload.NoValue && strings.HasPrefix(b.m.Values[n.In[1]].Name, prefix) && strings.HasPrefix(b.m.Values[n.In[2]].Name, prefix) {
		return true
	}
	return strings.HasPrefix(b.m.Values[n.Out[0]].Name, "getitem")
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

// noteExport says what the export lost that training needs.
func (b *recovery) noteExport() {
	say := func(format string, args ...any) { b.prog.Notes = append(b.prog.Notes, fmt.Sprintf(format, args...)) }
	if b.folded > 0 {
		say("%d batch norms were folded into convolutions by an export in evaluation mode; they are restored here", b.folded)
	}
	if !b.src.Train {
		return
	}
	// A batch norm in training mode shows that the export was made for training: no dropout then means none.
	dropout := false
	for i, n := range b.nodes {
		dropout = dropout || n.Op == "Dropout" || n.Op == "BatchNormalization" && (attrInt(n, "training_mode", 0) != 0 || strings.HasPrefix(b.places[i].Op, "_native_batch_norm"))
	}
	if !dropout {
		say("the graph has no dropout: if the model has, an export in evaluation mode left it out, and what it saves is not counted; export with training=torch.onnx.TrainingMode.TRAINING")
	}
}
