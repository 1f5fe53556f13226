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

// A ModuleList is no part of what calls a node: its members are called one by one.
func TestModulesAround(t *testing.T) {
	for _, tt := range []struct{ name, namespace, want string }{
		{"/layer1/layer1.0/conv1/Conv", "", "layer1/.0/.conv1"},
		{"/m/encoder/layer.0/query/MatMul", "", "m/.encoder/.layer.0/.query"},
		{"/Conv", "", ""},
		{"n", ": a.Net/layer1: torch.nn.modules.container.Sequential/layer1.0: a.Block/relu_1: aten.relu.default",
			"layer1/.0"},
		{"n", ": a.Net/blocks.0: a.Block/relu_1: aten.relu.default", "blocks.0"},
		{"n", ": a.Net/relu_1: aten.relu.default", ""},
		{"n", ": a.Net/l.0: a.Layer/l.0.sub: a.Sub/l.0.attn: a.Attention/l.0.attn.q: a.Q/relu_1: aten.relu.default",
			"l.0/.sub/.attn/.q"},
	} {
		n := &onnxload.Node{Name: tt.name}
		if tt.namespace != "" {
			n.More = &onnxload.More{Meta: []onnxload.Entry{{Key: "namespace", Value: tt.namespace}}}
		}
		if got := new(module.Places).Of(n).Around; got != tt.want {
			t.Errorf("around %q, %q: %q, want %q", tt.name, tt.namespace, got, tt.want)
		}
	}
}

func TestIsAutomatic(t *testing.T) {
	for name, want := range map[string]bool{
		"conv1.weight": false, "class_token": false, "layer1.0.bn1.running_mean": false, "logit_scale": false,
		"weight": false, "w1": false,
		"onnx::MatMul_45": true, "/layer1/Constant_output_0": true, "val_12": true, "scalar_tensor_default_3": true,
		"unsqueeze_2": true,
		"transpose":   true, "features.1.0.attn.lifted_tensor_4": true, "": true, "123": true,
		"model/conv1/ReadVariableOp:0": true,
	} {
		if got := module.IsAutomatic(name); got != want {
			t.Errorf("isAutomatic(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestModuleOfParameter(t *testing.T) {
	for name, want := range map[string]string{"layer1.0.conv1.weight": "layer1.0.conv1", "class_token": "",
		"onnx::Conv_3": "", "a..b": "", ".a": ""} {
		if got := module.ModuleOfParameter(name); got != want {
			t.Errorf("moduleOfParameter(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestElements(t *testing.T) {
	const big = 1 << 62
	for _, tt := range []struct {
		dims []int64
		n    int64
		ok   bool
	}{
		{nil, 1, true},
		{[]int64{2, 3}, 6, true},
		{[]int64{0, big, big}, 0, true},
		{[]int64{big, big, 0}, 0, true},
		{[]int64{big, 2}, 0, false},
		{[]int64{1 << 32, 1 << 32}, 0, false},
		{[]int64{-1}, 0, false},
	} {
		if n, err := module.Elements(tt.dims); n != tt.n || (err == nil) != tt.ok {
			t.Errorf("elements(%d) = %d, %v, want %d, %v", tt.dims, n, err, tt.n, tt.ok)
		}
	}
	for _, tt := range []struct {
		elem  onnxload.DType
		n     int64
		bytes int64
	}{
		{onnxload.Float32, 3, 12}, {onnxload.Int4, 3, 2}, {onnxload.Uint2, 5, 2}, {onnxload.Bool, 7,
			7}, {onnxload.Complex128, 2, 32}, {onnxload.String, 5, 0},
	} {
		if _, bytes, err := module.TensorBytes(tt.elem, []int64{tt.n}); bytes != tt.bytes || err != nil {
			t.Errorf("%d of %v: %d bytes, %v, want %d", tt.n, tt.elem, bytes, err, tt.bytes)
		}
	}
	if _, _, err := module.TensorBytes(onnxload.Float64, []int64{1 << 60}); err == nil {
		t.Error("bytes beyond int64 were accepted")
	}
}
