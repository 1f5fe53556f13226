package module

import (
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// frameworks are the writers of ONNX files that export no PyTorch module, by what they call themselves
// in producer_name (the field is free text; these are the beginnings that the exporters write, in lower case).
var frameworks = []struct{ producer, framework string }{
	{"tf2onnx", "TensorFlow"},
	{"tensorflow", "TensorFlow"},
	{"keras2onnx", "Keras"},
	{"winmltools", "Core ML"},
	{"coreml", "Core ML"},
	{"onnxmltools", "a converter of several frameworks"},
	{"skl2onnx", "scikit-learn"},
	{"matlab", "MATLAB"},
	{"cntk", "CNTK"},
	{"caffe", "Caffe"},
	{"onnx-caffe2", "Caffe2"},
	{"chainer", "Chainer"},
	{"mxnet", "MXNet"},
	{"paddle", "PaddlePaddle"},
	{"mindspore", "MindSpore"},
	{"darknet", "Darknet"},
	{"jax2onnx", "JAX"},
}

// Framework returns the framework that a graph comes from where the file says that it is another than PyTorch; "" else.
func Framework(m *onnxload.Model) string {
	producer := strings.ToLower(m.Producer)
	for _, f := range frameworks {
		if strings.HasPrefix(producer, f.producer) {
			return f.framework
		}
	}
	return ""
}

// BackwardNodes counts the nodes of a backward pass that is part of the graph, as ONNX Runtime writes one for training,
// and names an operator of theirs.
func (a *Analysis) BackwardNodes() (n int, op string) {
	for _, s := range a.Steps {
		o := s.Node.Op
		if s.Node.Domain == "com.microsoft" && (strings.HasSuffix(o, "Grad") || o == "YieldOp" || o == "ConcatTraining" ||
			o == "SplitTraining" ||
			strings.HasSuffix(o, "Optimizer") || o == "GradientAccumulator" || o == "InPlaceAccumulator") {
			if n++; op == "" || strings.HasSuffix(o, "Grad") && !strings.HasSuffix(op, "Grad") {
				op = o
			}
		}
	}
	return n, op
}
