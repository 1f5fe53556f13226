package estimate

import (
	"bytes"
	"encoding/csv"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A call is one call of a leaf module, as PyTorch ran it.
type moduleCall struct {
	module, class string
	bytes         int64
}

// measuredLayers returns the calls of each model's leaf modules, and the batch they were run with.
func measuredLayers(t *testing.T) (calls map[string][]moduleCall, batches map[string]int64) {
	t.Helper()
	r := csv.NewReader(bytes.NewReader(testfile.Unzipped(t, "testdata/layers.csv.gz")))
	r.Comment = '#'
	records, err := r.ReadAll()
	must.OK(t, err)
	calls, batches = map[string][]moduleCall{}, map[string]int64{}
	for _, rec := range records[1:] {
		n, err := strconv.ParseInt(rec[4], 10, 64)
		must.OK(t, err)
		if batches[rec[0]], err = strconv.ParseInt(rec[1], 10, 64); err != nil {
			t.Fatal(err)
		}
		calls[rec[0]] = append(calls[rec[0]], moduleCall{rec[2], rec[3], n})
	}
	return calls, batches
}

// again is what TorchScript appends to a module's path when it is called again.
var again = regexp.MustCompile(`_\d+$`)

// Every leaf module that PyTorch ran is a layer of its own with an output of the same size.
func TestLayersMatchPyTorch(t *testing.T) {
	calls, batches := measuredLayers(t)
	found, all := 0, 0
	for name, want := range calls {
		info, err := models.Info(name)
		must.OK(t, err)
		if info.Forms[0] != "ts-train" {
			continue // the metadata of the other forms was shortened
		}
		r, err := Run(open(t, name), Options{Batch: batches[name]})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rows := map[string][]module.Layer{}
		for _, l := range r.Layers {
			if len(l.Outputs) == 1 {
				rows[l.Module] = append(rows[l.Module], l)
				if m := again.ReplaceAllString(l.Module, ""); m != l.Module {
					rows[m] = append(rows[m], l)
				}
			}
		}
		for _, c := range want {
			// These pass their input on and leave no node, or a node of no module.
			if c.class == "Identity" || c.class == "StochasticDepth" {
				continue
			}
			all++
			if takeRow(rows, c) {
				found++
			} else if len(rows[c.module]) > 0 {
				t.Errorf("%s: %s (%s) has %d bytes of output, no layer of that module has: %+v", name, c.module, c.class, c.bytes,
					rows[c.module])
			}
		}
		if !r.Coverage.Complete() {
			t.Errorf("%s: not modelled: %v", name, r.Coverage.Unmodelled)
		}
	}
	if found < all-2 {
		t.Errorf("%d of %d leaf modules are layers", found, all)
	}
	t.Logf("%d of %d leaf modules are layers of the right size", found, all)
}

// takeRow removes the row of a call, so that each is found once.
func takeRow(rows map[string][]module.Layer, c moduleCall) bool {
	for i, l := range rows[c.module] {
		n, err := module.Elements(l.Outputs[0].Shape)
		if err == nil && n*4 == c.bytes && l.Outputs[0].DType == "float32" {
			rows[c.module] = append(rows[c.module][:i:i], rows[c.module][i+1:]...)
			return true
		}
	}
	return false
}

// The rows of a report add up to its totals.
func TestRowsAddUp(t *testing.T) {
	for _, name := range models.Names() {
		info, err := models.Info(name)
		must.OK(t, err)
		for _, form := range info.Forms {
			opt := Options{Batch: 2}
			if name == "conv_example" {
				opt.Batch = 0
			}
			r, err := Run(open(t, name+":"+form), opt)
			if err != nil {
				t.Errorf("%s:%s: %v", name, form, err)
				continue
			}
			var count, bytes, activation int64
			last := -1
			for _, l := range r.Layers {
				count += l.Params
				bytes += l.ParamBytes
				activation += l.Activation
				if l.Index <= last {
					t.Errorf("%s:%s: layer %q of node %d follows node %d", name, form, l.Name, l.Index, last)
				}
				last = l.Index
			}
			if count != r.Parameters.Count || bytes != r.Parameters.Bytes || activation != r.Activations.Forward {
				t.Errorf("%s:%s: rows have %d parameters, %d bytes of them, %d of activations; totals %+v, %+v", name, form, count,
					bytes, activation, r.Parameters, r.Activations)
			}
			for _, n := range r.Notes {
				if n.Level == Warning && strings.Contains(n.Text, "lower bound") {
					t.Errorf("%s:%s: %s", name, form, n.Text)
				}
			}
		}
	}
}

// The figures that the README of Pytorch-Memory-Utils prints for its example.
func TestModelsizeExample(t *testing.T) {
	r, err := Run(open(t, "conv_example"), Options{})
	must.OK(t, err)
	if r.Parameters.Bytes != 450304 || r.Activations.Forward != 336089600 || r.Activations.WithBackward != 672179200 {
		t.Errorf("%+v, %+v", r.Parameters, r.Activations)
	}
}

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
