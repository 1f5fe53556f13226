package module

import (
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// BatchNorm reports whether a node is a batch norm, and whether it computes statistics of its batch. torch.export
// leaves training_mode out; the ATen operator tells, which the node's metadata has, or its name.
func BatchNorm(n *onnxload.Node, aten string) (is, trains bool) {
	if n.Op != "BatchNormalization" {
		return false, false
	}
	if mode := n.Attr("training_mode"); mode != nil && mode.Int != 0 {
		return true, true
	}
	legit := aten + n.Name
	return true, strings.Contains(legit, "_native_batch_norm_legit") && !strings.Contains(legit, "no_training")
}

// HasFoldedNorm reports whether a node is a convolution that had a batch norm behind it, which an export in
// evaluation mode folded into its weight; whether that weight is a constant is the caller's to know. The
// TorchScript exporter renames both the weight and the bias that it computes, "onnx::Conv_193";
// torch.export leaves the name of what it took out of the norm's tuple of results, "getitem_3", on
// the convolution's only result.
func HasFoldedNorm(m *onnxload.Model, n *onnxload.Node) bool {
	out := n.Output(0)
	if n.Op != "Conv" && n.Op != "ConvTranspose" || n.Domain != "" || out == onnxload.NoValue {
		return false
	}
	renamed := 0
	for i := 1; i < min(len(n.In), 3); i++ {
		if n.In[i] != onnxload.NoValue && strings.HasPrefix(m.NameOf(n.In[i]), "onnx::"+n.Op+"_") {
			renamed++
		}
	}
	return renamed == 2 || strings.HasPrefix(m.NameOf(out), "getitem")
}
