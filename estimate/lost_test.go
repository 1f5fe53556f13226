package estimate

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// What a note about an export says, by what was lost.
const (
	lostRandom = "neither dropout nor stochastic depth"
	lostNorms  = "folded into convolutions"
	lostLayers = "absorbed the batch norms"
	idleNorms  = "in evaluation mode, and dropout"
	lostEqual  = "merged tensors of equal values"
	lostTie    = "shares one tensor for both"
	extraMask  = "mask depends on no input"
)

// An export is one form of a built-in model as a training step sees it.
type export struct {
	report     *Report
	random     bool  // draws random numbers: dropout or stochastic depth
	norms      int   // BatchNormalization nodes
	parameters int64 // bytes of those that are trained
	masks      int   // attentions that are given a mask
}

func exportOf(t *testing.T, model, form string) export {
	t.Helper()
	m := openModel(t, model, form)
	b, err := Bind(m, Options{Batch: 8})
	if err != nil {
		t.Fatalf("%s:%s: %v", model, form, err)
	}
	e := export{}
	if e.report, err = b.Report(Options{Step: &Step{}}); err != nil || e.report.Peak == nil {
		t.Fatalf("%s:%s: %v, peak %v", model, form, err, e.report)
	}
	p, err := b.Program(true)
	must.OK(t, err)
	for _, id := range p.State {
		if v := p.Values[id]; v.Kind == program.Parameter {
			bytes := v.DType.Bits() / 8
			for _, n := range v.Shape {
				bytes *= n
			}
			e.parameters += bytes
		}
	}
	for _, c := range p.Calls {
		e.random = e.random || c.Op == "dropout" && c.Args.P > 0
		if c.Op == "sdpa" {
			e.random = e.random || c.Args.P > 0
			if len(c.In) > 3 && c.In[3] != program.NoValue {
				e.masks++
			}
		}
	}
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		e.random = e.random || strings.HasPrefix(n.Op, "Random") || n.Op == "Bernoulli"
		if n.Op == "BatchNormalization" {
			e.norms++
		}
	}
	return e
}

func (e export) says(what string) bool {
	return slices.ContainsFunc(e.report.Notes, func(n Note) bool { return strings.Contains(n.Text, what) })
}

// TestExportsSayWhatTheyLost compares every form of every built-in model with the one made for training: what
// it lacks, a note names, and a note that names a loss is right. A peak that is further off than half a percent is
// never without one.
func TestExportsSayWhatTheyLost(t *testing.T) {
	losses := []string{lostRandom, lostNorms, lostLayers, idleNorms, lostEqual, lostTie, extraMask}
	for _, name := range models.Names() {
		info, err := models.Info(name)
		must.OK(t, err)
		if len(info.Forms) < 2 { // nothing to compare with
			continue
		}
		full := exportOf(t, name, info.Forms[0])
		for _, form := range info.Forms {
			e := exportOf(t, name, form)
			want := func(what string, lost bool) {
				t.Helper()
				if e.says(what) != lost {
					t.Errorf("%s:%s: a note says %q: %v, want %v", name, form, what, e.says(what), lost)
				}
			}
			inference := form == "ts-eval" || form == "dynamo"
			want(lostNorms, e.norms < full.norms)
			want(lostLayers, e.norms < full.norms)
			want(idleNorms, inference && e.norms > 0)
			want(extraMask, e.masks > full.masks)
			if full.random && !e.random {
				want(lostRandom, true)
			} else if e.random {
				want(lostRandom, false)
			}
			if !inference {
				want(lostEqual, false)
				want(lostTie, false)
			}
			// Biases make less of a difference: onnxscript's optimizer leaves out those that are zero, which cannot be told
			// from those that a module never had, and restored norms leave some that folding made.
			switch diff := float64(e.parameters-full.parameters) / float64(full.parameters); {
			case diff < -0.005:
				want(lostEqual, true)
			case diff > 0.005:
				want(lostTie, true)
			}
			off := rel(e.report.Peak.Allocated, full.report.Peak.Allocated)
			if math.Abs(off) > 0.005 && !slices.ContainsFunc(losses, e.says) {
				t.Errorf("%s:%s: the peak is off by %+.2f%%, and no note says why: %v", name, form, 100*off, e.report.Notes)
			}
		}
	}
}

// lastLayer is a table of 1024 rows of 16 numbers, looked up, and a product with a weight of so many columns.
func lastLayer(weight string, columns int64) on.Model {
	return on.Model{Graph: on.Graph{
		In: []on.Value{on.Val("x", onnxload.Int64, 8)},
		Inits: []on.Tensor{on.Bare("emb\x1b.weight", onnxload.Float32, 1024, 16),
			on.Bare(weight, onnxload.Float32, 16, columns)},
		Nodes: []on.Node{on.Op("Gather", "emb\x1b.weight x", "e"), on.Op("MatMul", "e "+weight, "y")},
		Out:   []on.Value{{Name: "y"}},
	}}
}

// A graph that folding made two tensors of one for has a note with the names, escaped, and the size.
func TestNoteOfCopiedWeight(t *testing.T) {
	for _, c := range []struct {
		weight  string
		columns int64
		want    bool
	}{{"onnx::MatMul_7", 1024, true}, {"head.weight", 1024, false}, {"onnx::MatMul_7", 512, false}} {
		r := answer(t, lastLayer(c.weight, c.columns), Options{Step: &Step{}})
		got := ""
		for _, n := range r.Notes {
			if strings.Contains(n.Text, lostTie) {
				got = n.Text
			}
		}
		if (got != "") != c.want {
			t.Errorf("weight %q of %d columns: note %q, want one: %v", c.weight, c.columns, got, c.want)
		}
		if c.want && (!strings.Contains(got, `"onnx::MatMul_7"`) || !strings.Contains(got, `"emb\x1b.weight"`) ||
			!strings.Contains(got, "0.06 MiB")) {
			t.Errorf("note %q names not both tensors and 0.06 MiB", got)
		}
	}
}

// What is taken to work in place is said: by the note about the sums where it tells it all, else by one about the run.
func TestInPlaceNote(t *testing.T) {
	const sums, run = "ReLUs are taken to work in place", "in the simulated run"
	for _, c := range []struct {
		model     string
		sums, run bool
	}{
		{"resnet18", true, false},     // each ReLU follows a norm
		{"mobilenet_v2", false, true}, // ReLU6
		{"alexnet", true, true},       // two follow a Linear, and are in the sums alone
		{"bert_base", false, false},
	} {
		e := exportOf(t, c.model, "ts-train")
		if e.says(sums) != c.sums || e.says(run) != c.run {
			t.Errorf("%s: the sums' note %v, the run's %v, want %v and %v: %v", c.model, e.says(sums), e.says(run), c.sums,
				c.run, e.report.Notes)
		}
	}
}

// TestWayIn recognises how every built-in model was exported. Where a file kept all there was to keep, it cannot be
// told from one that was made for training.
func TestWayIn(t *testing.T) {
	want := map[string][]module.Way{
		"ts-train": {module.TorchScript, OtherWay}, "dynamo-train": {module.TorchExport, module.DefaultExport},
		"ts-eval": {OtherWay, module.TorchScript}, "dynamo": {module.DefaultExport},
	}
	count := map[string]map[module.Way][]string{}
	for _, name := range models.Names() {
		info, err := models.Info(name)
		must.OK(t, err)
		for _, form := range info.Forms {
			b, err := Bind(openModel(t, name, form), Options{Batch: 2})
			if _, fixed := errors.AsType[*shape.BindError](err); fixed {
				b, err = Bind(openModel(t, name, form), Options{})
			}
			if err != nil {
				t.Fatalf("%s:%s: %v", name, form, err)
			}
			if count[form] == nil {
				count[form] = map[module.Way][]string{}
			}
			count[form][b.way] = append(count[form][b.way], name)
			if !slices.Contains(want[form], b.way) {
				t.Errorf("%s:%s is taken for %q", name, form, b.way)
			}
		}
	}
	for form, ways := range count {
		all := 0
		for _, names := range ways {
			all += len(names)
		}
		if right := len(ways[want[form][0]]); 4*right < 3*all {
			t.Errorf("%s: %d of %d are recognised: %v", form, right, all, ways)
		}
	}
}

// Of a file that is not PyTorch's the report says whose it is, and gives no advice on torch.onnx.
func TestOriginOfFile(t *testing.T) {
	net := []on.Node{
		on.Op("Conv", "x conv.weight", "c"), on.Op("BatchNormalization",
			"c bn.weight bn.bias bn.running_mean bn.running_var", "y"),
	}
	grad := append(net[:2:2], on.Op("ReluGrad", "y y", "dy").Of("com.microsoft"))
	quantized := []on.Node{on.Op("QuantizeLinear", "x scale zero", "q"), on.Op("DequantizeLinear", "q scale zero", "y")}
	for _, tt := range []struct {
		producer  string
		nodes     []on.Node
		has, lack []string
	}{
		{"pytorch", net, []string{"TrainingMode.TRAINING"}, []string{"not from PyTorch", "backward pass, such as"}},
		{"", net, []string{"TrainingMode.TRAINING"}, []string{"not from PyTorch"}},
		{"tf2onnx", net, []string{"comes from TensorFlow by its exporter \"tf2onnx\"", "in evaluation mode"},
			[]string{"TrainingMode"}},
		{"MATLAB Deep Learning Toolbox Converter", net, []string{"comes from MATLAB"}, []string{"TrainingMode"}},
		{"pytorch", grad, []string{"1 node is of a backward pass, such as \"ReluGrad\""},
			[]string{"TrainingMode.TRAINING, do_constant"}},
		{"onnx.quantize", quantized, []string{"computes in integers by its own nodes (QuantizeLinear)"},
			[]string{"not from PyTorch", "work in place"}},
	} {
		var b strings.Builder
		r := answer(t, on.Model{Producer: tt.producer, Opsets: []on.Import{on.Domain("com.microsoft", 1)}, Graph: on.Graph{
			In: []on.Value{on.Float("x", 2, 3, 8, 8)}, Out: []on.Value{{Name: "y"}}, Nodes: tt.nodes,
			Inits: []on.Tensor{on.Zeros("conv.weight", onnxload.Float32, 4, 3, 3, 3),
				on.Zeros("bn.weight", onnxload.Float32, 4), on.Zeros("bn.bias", onnxload.Float32, 4),
				on.Zeros("bn.running_mean", onnxload.Float32, 4), on.Zeros("bn.running_var", onnxload.Float32,
					4), on.Float32s("scale", 0.1), on.Zeros("zero", onnxload.Int8)},
		}}, Options{Step: &Step{}})
		for _, n := range r.Notes {
			b.WriteString(n.Text + "\n")
		}
		for _, s := range tt.has {
			if !strings.Contains(b.String(), s) {
				t.Errorf("%q: no note has %q:\n%s", tt.producer, s, b.String())
			}
		}
		for _, s := range tt.lack {
			if strings.Contains(b.String(), s) {
				t.Errorf("%q: a note has %q:\n%s", tt.producer, s, b.String())
			}
		}
	}
}

// A graph of half precision is the run of the model in float32 unless another precision is asked for, and says so.
func TestHalfGraph(t *testing.T) {
	half := on.Model{Producer: "pytorch", Opset: 17, Graph: on.Graph{
		In: []on.Value{on.Val("x", onnxload.Float16, 64, 1024)}, Out: []on.Value{{Name: "y"}},
		Nodes: []on.Node{on.Op("LayerNormalization", "x norm.weight norm.bias", "y")},
		Inits: []on.Tensor{on.Bare("norm.weight", onnxload.Float16, 1024), on.Bare("norm.bias", onnxload.Float16, 1024)},
	}}
	const note = "--precision fp16 is that of the graph"
	single := answer(t, half, Options{Step: &Step{Infer: true}})
	if !(export{report: single}).says(note) {
		t.Errorf("no note has %q: %v", note, single.Notes)
	}
	asked := answer(t, half, Options{Step: &Step{Infer: true, Settings: torch.Settings{Precision: torch.FP16}}})
	if (export{report: asked}).says(note) {
		t.Errorf("fp16 was asked for, and a note has %q", note)
	}
	const input = 64 * 1024 * 2
	if s, a := single.Peak.ByCategory["input"], asked.Peak.ByCategory["input"]; s != 2*input || a != input {
		t.Errorf("the input has %d bytes in float32 and %d in float16, want %d and %d", s, a, 2*input, input)
	}
}

// A mask that an exporter computed from positions is as good as none; one that the module keeps is passed on.
func TestMasksThatExportersFold(t *testing.T) {
	for name, causal := range map[string]bool{"val_31": true, "attn.mask": false} {
		m := on.Model{Graph: on.Graph{
			In: []on.Value{on.Float("q", 2, 4, 16, 8), on.Float("k", 2, 4, 16, 8), on.Float("v", 2, 4, 16, 8)},
			Inits: []on.Tensor{on.Bare(name, onnxload.Bool, 1, 1, 16, 16), on.Float32s("val_1", 0.5).Scalar(),
				on.Float32s("val_2", 0).Scalar(), on.Float32s("val_3", -1e9).Scalar()},
			Nodes: []on.Node{
				on.Op("Transpose", "k", "kt", on.A("perm", []int64{0, 1, 3, 2})), on.Op("Mul", "q val_1", "qs"), on.Op("Mul",
					"kt val_1", "ks"), on.Op("MatMul", "qs ks", "scores"),
				on.Op("Where", name+" val_2 val_3", "mask"), on.Op("Add", "scores mask", "masked"), on.Op("Softmax", "masked", "p",
					on.A("axis", -1)), on.Op("MatMul", "p v", "y")},
			Out: []on.Value{on.Float("y", 2, 4, 16, 8)},
		}}
		data := m.Bytes()
		model := readModel(t, data, "")
		bound, err := Bind(model, Options{})
		must.OK(t, err)
		p, err := bound.Program(true)
		must.OK(t, err)
		found := false
		for _, c := range p.Calls {
			if c.Op == "sdpa" {
				found = true
				if c.Args.Causal != causal {
					t.Errorf("mask %q: is_causal is %v", name, c.Args.Causal)
				}
			}
		}
		if !found {
			t.Errorf("mask %q: no attention was found", name)
		}
	}
}
