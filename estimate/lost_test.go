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
