package module

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Way is how a model came into a file: what is lost on it, and so how far an estimate is off.
type Way string

// The ways of PyTorch's exporters. Another one is "".
const (
	TorchScript   Way = "torchscript"   // torch.onnx.export(dynamo=False), kept for training
	TorchExport   Way = "torch-export"  // torch.onnx.export(dynamo=True, optimize=False), kept for training
	DefaultExport Way = "torch-default" // torch.onnx.export(model, inputs): optimised, in evaluation mode as a rule
)

// namespaceKey is what torch.onnx.export(dynamo=True) says of every node, and TorchScript of none.
const namespaceKey = "namespace"

// Way tells how the file was written. torch.export's translation has its numbers in Constant nodes, which onnxscript's
// optimizer makes initializers: a graph without any, and without a sign of training, is an optimised one. TorchScript's
// in evaluation mode has folded norms, or products whose weight it transposed; it is none of the three.
func (a *Analysis) Way() Way {
	if a.Model.Producer != "pytorch" {
		return ""
	}
	traced, training, constants, folded := false, false, false, false
	for i := range a.Steps {
		n := a.Steps[i].Node
		traced = traced || n.Stack > 0 || n.MetaValue(namespaceKey) != ""
		norm, trains := BatchNorm(n, a.Steps[i].Place.Op)
		training = training || trains || a.facts(n).Has(Random)
		folded = folded || norm && !trains || HasFoldedNorm(a.Model, n) && a.isConstant(n, 1) || a.isTransposedWeight(n)
	}
	for i := range a.Model.Graph.Nodes {
		if n := &a.Model.Graph.Nodes[i]; n.Op == "Constant" && n.Domain == "" {
			constants = true
			break
		}
	}
	switch {
	case traced && (training || constants):
		return TorchExport
	case traced:
		return DefaultExport
	case training || !folded:
		return TorchScript
	}
	return ""
}

// isConstant reports whether input k of a node is a constant or computed of constants alone.
func (a *Analysis) isConstant(n *onnxload.Node, k int) bool {
	return len(n.In) > k && n.In[k] != onnxload.NoValue && len(a.Origins(n.In[k])) > 0
}

// isTransposedWeight reports whether a node is a product with a weight that the TorchScript exporter transposed while
// folding constants, which it names after the operator: "onnx::MatMul_812".
func (a *Analysis) isTransposedWeight(n *onnxload.Node) bool {
	return n.Op == "MatMul" && slices.ContainsFunc(n.In, func(v onnxload.ValueID) bool {
		return v != onnxload.NoValue && a.ConstantOf(v) != nil && strings.HasPrefix(a.Model.NameOf(v), "onnx::MatMul_")
	})
}
