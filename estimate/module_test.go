package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

func TestPlaceOf(t *testing.T) {
	for _, tt := range []struct {
		name, namespace string
		want            module.Place
	}{
		{"/layer1/layer1.0/conv1/Conv", "", module.Place{Module: "layer1.0.conv1"}},
		{"/m/bert/encoder/layer.0/attention/self/query/MatMul", "",
			module.Place{Module: "m.bert.encoder.layer.0.attention.self.query"}},
		{"/Conv", "", module.Place{}},
		{"/", "", module.Place{}},
		{"Conv_12", "", module.Place{}},
		{"", "", module.Place{}},
		{
			"node_relu", ": torchvision.models.resnet.ResNet/layer1: torch.nn.modules.container.Sequential/layer1.0: " +
				"torchvision.models.resnet.BasicBlock/layer1.0.relu: torch.nn.modules.activation.ReLU/relu_1: aten.relu.default",
			module.Place{Module: "layer1.0.relu", Class: "ReLU", Torch: true, Call: "relu_1", Op: "relu"},
		},
		{"n", ": a.Net/add_3: aten.add.Tensor", module.Place{Class: "Net", Call: "add_3", Op: "add"}},
		{"n", "_empty_nn_module_stack_from_metadata_hook: " +
			"_empty_nn_module_stack_from_metadata_hook/sym_size_int_1: aten.sym_size.int",
			module.Place{Call: "sym_size_int_1", Op: "sym_size"}},
		// sublayer(x, lambda x: self.attn(x)): a module that the one around it calls, and that is not its own.
		{"n", ": a.Net/l.0: a.Layer/l.0.sub: a.Sub/l.0.attn: a.Attention/l.0.attn.q: torch.nn.Linear/linear_1: " +
			"aten.linear.default",
			module.Place{Module: "l.0.sub.attn.q", Class: "Linear", Torch: true, Call: "linear_1", Op: "linear"}},
		{"n", ": a.Net/dec: a.Decoder/enc.embed: a.Embedding/add_1: aten.add.Tensor",
			module.Place{Module: "dec.enc.embed", Class: "Embedding", Call: "add_1", Op: "add"}},
		{"n", ": a.Net/l.0: a.Layer/nms: torchvision.nms.default",
			module.Place{Module: "l.0", Class: "Layer", Call: "nms", Op: "nms"}},
		// Metadata may be cut off anywhere.
		{"n", ": a.Net/layer1: a.Block/layer1.norm: torch.nn.modules.normalization.Lay",
			module.Place{Module: "layer1.norm", Class: "Lay", Torch: true, Cut: true}},
		{"n", ": a.Net/layer1: a.Block/layer1.no", module.Place{Module: "layer1", Class: "Block", Cut: true}},
		{"n", ": a.Net/layer1: a.Block/lay", module.Place{Module: "layer1", Class: "Block", Cut: true}},
		{"n", ": a.Net/layer1: a.Block/add", module.Place{Module: "layer1", Class: "Block"}},
		{"n", ": a.Net/layer1: a.Block/layer_norm_1: at", module.Place{Module: "layer1", Class: "Block"}},
		{"n", ": a.Net/layer1: a.Block/layer_norm_1: aten.layer_no", module.Place{Module: "layer1", Class: "Block"}},
	} {
		n := &onnxload.Node{Name: tt.name}
		if tt.namespace != "" {
			n.More = &onnxload.More{Meta: []onnxload.Entry{{Key: "namespace", Value: tt.namespace}}}
		}
		got := *new(module.Places).Of(n)
		got.Around = ""
		if got != tt.want {
			t.Errorf("placeOf(%q, %q) = %+v, want %+v", tt.name, tt.namespace, got, tt.want)
		}
	}
}
