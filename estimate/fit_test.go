package estimate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// The batch that is found fits, the next one does not, and every point is what a run of that batch says.
func TestLargest(t *testing.T) {
	for _, c := range []struct {
		model  string
		memory int64
		step   Step
	}{
		{"mlp", 6 << 30, Step{}},
		{"resnet18", 8 << 30, Step{Settings: torch.Settings{Precision: "amp-bf16"}}},
		{"resnet18", 4 << 30, Step{Infer: true}},
	} {
		m := open(t, c.model)
		f, err := Largest(m, Options{Name: c.model, Step: &c.step}, c.memory)
		must.OK(t, err)
		device := func(batch int64) (int64, int64) {
			b, err := Bind(m, Options{Batch: batch})
			must.OK(t, err)
			s, err := b.Simulate(c.step)
			must.OK(t, err)
			return s.Peak.Device, s.Peak.Safe
		}
		fits, _ := device(f.Batch)
		next, _ := device(f.Batch + 1)
		if fits > c.memory || next <= c.memory || f.Batch < 2 {
			t.Errorf("%s: batch %d takes %d and the next one %d of %d bytes", c.model, f.Batch, fits, next, c.memory)
		}
		_, safe := device(f.Safe)
		if safe > c.memory || f.Safe > f.Batch || f.Safe < 1 {
			t.Errorf("%s: safe batch %d takes at most %d of %d bytes, batch %d fits", c.model, f.Safe, safe, c.memory, f.Batch)
		}
		for i, p := range f.Curve {
			if i > 0 && p.Batch <= f.Curve[i-1].Batch {
				t.Errorf("%s: batch %d follows %d", c.model, p.Batch, f.Curve[i-1].Batch)
			}
			if p.Fits != (p.Device <= c.memory) || p.Safe != (p.SafeBytes <= c.memory) {
				t.Errorf("%s: %+v", c.model, p)
			}
		}
	}
}

// Searches of cuDNN see the memory that the run must fit, also where no GPU is named, and decide next to nothing.
func TestLargestSearches(t *testing.T) {
	var fits [2]*Fitting
	for i := range fits {
		var err error
		step := Step{Settings: torch.Settings{Benchmark: i == 1}}
		if fits[i], err = Largest(open(t, "resnet18"), Options{Step: &step}, 4<<30); err != nil {
			t.Fatal(err)
		}
	}
	if fits[1].Batch < fits[0].Batch*9/10 || fits[1].Safe < fits[0].Safe*9/10 {
		t.Errorf("with searches batch %d fits and %d is safe, without %d and %d", fits[1].Batch, fits[1].Safe, fits[0].Batch,
			fits[0].Safe)
	}
}

func TestLargestRefuses(t *testing.T) {
	m := readModel(t, onnxtest.Model{Opset: 17, Graph: onnxtest.Graph{In: []onnxtest.Value{onnxtest.Float("x", 1, 4)},
		Out:   []onnxtest.Value{{Name: "y"}},
		Inits: []onnxtest.Tensor{{Name: "to", DType: onnxload.Int64, Dims: []int64{2}, Typed: []int64{2, 2}}},
		Nodes: []onnxtest.Node{onnxtest.Op("Reshape", "x to", "y")}}}.Bytes(), "")
	if _, err := Largest(m, Options{Step: &Step{Infer: true}}, 8<<30); !errors.Is(err, ErrNoBatch) {
		t.Errorf("a model of one batch alone: %v", err) // not that two samples are too large
	}
	f, err := Largest(open(t, "mlp"), Options{}, 1<<20)
	if err != nil || f.Batch != 0 || f.Safe != 0 || len(f.Curve) != 1 {
		t.Errorf("a MiB: %+v, %v", f, err)
	}
}

// The bytes that layers save and what the loss does add up to all that autograd keeps. The criterion of cross entropy
// keeps the log-softmax of the output, the labels and the sum of the weights; a mean keeps nothing.
func TestSavedByLayers(t *testing.T) {
	for _, name := range []string{"conv_example", "resnet18", "bert_base", "swin_t"} {
		opt := Options{Batch: 2, Step: &Step{}}
		if name == "conv_example" {
			opt.Batch = 0
		}
		r, err := Run(open(t, name), opt)
		must.OK(t, err)
		sum := int64(0)
		for _, l := range r.Layers {
			sum += l.SavedBytes
		}
		loss := r.Activations.LossSaved
		if sum+loss != r.Activations.Saved || sum < r.Activations.Saved*3/4 {
			t.Errorf("%s: the layers save %d, the loss %d, of %d bytes", name, sum, loss, r.Activations.Saved)
		}
		want := int64(0)
		if r.Settings.Loss == "cross-entropy" {
			classes := r.Model.Outputs[0].Shape
			samples := int64(1)
			for _, n := range classes[:len(classes)-1] {
				samples *= n
			}
			want = 4*samples*classes[len(classes)-1] + 8*samples + 4
		}
		if loss != want {
			t.Errorf("%s: the loss, %s, saves %d bytes, want %d", name, r.Settings.Loss, loss, want)
		}
	}
}

// The phases are those of the first step, of a steady one, and of the one in which the peak is; the largest
// of them is the peak.
func TestPhasesHaveThePeak(t *testing.T) {
	steps := map[int]bool{}
	for _, name := range []string{"resnet18", "resnet50", "mlp", "gpt2", "vgg16", "convnext_tiny", "resnext50_32x4d"} {
		for _, infer := range []bool{false, true} {
			r, err := Run(open(t, name), Options{Batch: 4, Step: &Step{Infer: infer}})
			must.OK(t, err)
			found, largest := false, int64(0)
			for _, p := range r.Phases {
				largest = max(largest, p.Peak)
				found = found || p.Step == r.Peak.Step && p.Name == r.Peak.Phase && p.Peak == r.Peak.Allocated
			}
			if !found || largest != r.Peak.Allocated {
				t.Errorf("%s, inference %v: the peak of %d bytes in the %s of step %d is not in %+v", name, infer,
					r.Peak.Allocated, r.Peak.Phase, r.Peak.Step, r.Phases)
			}
			steps[r.Peak.Step] = true
		}
	}
	r, err := Run(open(t, "mlp"), Options{Batch: 4, Step: &Step{Settings: torch.Settings{Accumulate: 100}}})
	if err != nil || len(r.Phases) > 16 {
		t.Errorf("%d phases of 100 passes a step, %v", len(r.Phases), err)
	}
	if !steps[1] || !steps[2] || !steps[3] {
		t.Errorf("peaks in steps %v alone", steps)
	}
}

// A model that cannot be run keeps its sums and says why.
func TestWhatCannotRun(t *testing.T) {
	r, err := Run(open(t, "mlp"), Options{Batch: 2, Step: &Step{Settings: torch.Settings{Loss: "nll", Precision: "fp32"}}})
	if err != nil || r.Peak == nil {
		t.Fatalf("%v", err)
	}
	if _, err := Run(open(t, "mlp"),
		Options{Batch: 2, Step: &Step{Settings: torch.Settings{Loss: "nosuch"}}}); err == nil {
		t.Error("an unknown loss is taken")
	}
	limited, err := Run(open(t, "mlp"), Options{Batch: 2, Step: &Step{MemoryLimit: 1 << 30}})
	if err != nil || limited.OOM == nil || limited.Peak.Reserved <= 1<<30 {
		t.Fatalf("%+v, %v", limited.OOM, err)
	}
	limited.Judge(Step{MemoryLimit: 1 << 30}, 64<<30, Safe)
	if limited.OK() || len(limited.Fits) != 2 || limited.Fits[0].Fits || limited.Fits[1].By != "safe_bytes" {
		t.Errorf("%+v", limited.Fits)
	}
}

// Each variant is what a run with that setting says.
func TestWhatIf(t *testing.T) {
	m := open(t, "resnet18")
	opt := Options{Batch: 4, Step: &Step{}}
	b, err := Bind(m, opt)
	must.OK(t, err)
	variants := map[string]Variant{}
	for _, v := range b.WhatIf(m, opt, Safe) {
		variants[v.Change] = v
	}
	for change, s := range map[string]Step{
		"--optimizer sgd":  {Settings: torch.Settings{Optimizer: "sgd"}},
		"--precision bf16": {Settings: torch.Settings{Precision: "bf16"}},
		"--channels-last":  {Settings: torch.Settings{ChannelsLast: true}},
		"--foreach=false":  {Settings: torch.Settings{ForLoop: true}},

		"--cudnn-benchmark": {Settings: torch.Settings{Benchmark: true}},
	} {
		sim, err := b.Simulate(s)
		must.OK(t, err)
		if v := variants[change]; v.Allocated != sim.Peak.Allocated || v.Device != sim.Peak.Device || v.Error != "" {
			t.Errorf("%s: %+v, want %d", change, v, sim.Peak.Allocated)
		}
	}
	half, err := Run(m, Options{Batch: 2, Step: &Step{}})
	if err != nil || variants["--batch 2"].Reserved != half.Peak.Reserved {
		t.Errorf("half the batch: %+v, %v", variants["--batch 2"], err)
	}
}

// cuDNN's searches are tried where there are convolutions: for what they add, or, of a step that has them, what they
// take.
func TestWhatIfCuDNNSearched(t *testing.T) {
	for _, c := range []struct {
		model  string
		with   bool
		change string
	}{{"resnet18", false, "--cudnn-benchmark"}, {"resnet18", true, "--cudnn-benchmark=false"}, {"gpt2", false, ""}} {
		m := open(t, c.model)
		opt := Options{Batch: 4, Step: &Step{Settings: torch.Settings{Benchmark: c.with}}}
		b, err := Bind(m, opt)
		must.OK(t, err)
		var tried []string
		var took int64
		for _, v := range b.WhatIf(m, opt, Safe) {
			if strings.HasPrefix(v.Change, "--cudnn-benchmark") {
				tried, took = append(tried, v.Change), v.Allocated
			}
		}
		if strings.Join(tried, " ") != c.change {
			t.Errorf("%s: tried %q, wanted %q", c.model, tried, c.change)
		}
		if as, err := b.Simulate(*opt.Step); err != nil || c.change != "" && took > as.Peak.Allocated != !c.with {
			t.Errorf("%s, %s: %d beside %d, %v", c.model, c.change, took, as.Peak.Allocated, err)
		}
	}
}

// A model without anything to train is run as an inference, and says so.
func TestNothingToTrain(t *testing.T) {
	for _, op := range []string{"Abs", "Relu"} {
		data := onnxtest.Model{Graph: onnxtest.Graph{
			In: []onnxtest.Value{onnxtest.Float("x", 2, 3)}, Nodes: []onnxtest.Node{onnxtest.Op(op, "x",
				"y")}, Out: []onnxtest.Value{onnxtest.Float("y", 2, 3)},
		}}.Bytes()
		m := readModel(t, data, "")
		r, err := Run(m, Options{Step: &Step{}})
		must.OK(t, err)
		if r.Settings.Mode != "infer" || r.Peak == nil || len(r.Notes) == 0 || r.Notes[0].Level != Warning ||
			!strings.Contains(r.Notes[0].Text, "an inference is simulated instead") {
			t.Errorf("%s: mode %q, notes %v", op, r.Settings.Mode, r.Notes)
		}
	}
}

// In a graph of many nodes few batches are tried, and what is found is still a batch that fits whose next one does not.
func TestLargestOfManyNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 20 steps of 20,000 nodes")
	}
	g := onnxtest.Graph{In: []onnxtest.Value{onnxtest.Float("x", "batch", 64)}}
	in := "x"
	for i := range manyNodes / 2 {
		gemm, relu := fmt.Sprintf("/l.%d/Gemm", i), fmt.Sprintf("/l.%d/Relu", i)
		weight := fmt.Sprintf("l.%d.weight", i%8) // shared, so that a step is quick
		if i < 8 {
			g.Inits = append(g.Inits, onnxtest.Bare(weight, onnxload.Float32, 64, 64))
		}
		g.Nodes = append(g.Nodes,
			onnxtest.Node{Op: "Gemm", Name: gemm, In: []string{in, weight}, Out: []string{gemm}},
			onnxtest.Node{Op: "Relu", Name: relu, In: []string{gemm}, Out: []string{relu}})
		in = relu
	}
	g.Out = []onnxtest.Value{{Name: in}}
	raw := onnxtest.Model{Opset: 17, Graph: g}.Bytes()
	m := readModel(t, raw, "")
	const memory = 24 << 30
	f, err := Largest(m, Options{}, memory)
	must.OK(t, err)
	sizes := map[int64]Point{}
	for _, p := range f.Curve {
		sizes[p.Batch] = p
	}
	if p, next := sizes[f.Batch], sizes[f.Batch+1]; !p.Fits || next.Device == 0 || next.Fits {
		t.Errorf("batch %d: %+v, the next one %+v", f.Batch, p, next)
	}
	for _, c := range []Confidence{Likely, Safe} {
		batch := f.Largest(c)
		past := slices.ContainsFunc(f.Curve, func(p Point) bool {
			return p.Batch > batch && p.Batch <= batch+batch/fewNear && p.At(c) > memory
		})
		if p := sizes[batch]; batch == 0 || p.At(c) > memory || !past {
			t.Errorf("%s batch %d: %+v, and none that does not fit is near: %v", c, batch, p, f.Curve)
		}
	}
	// Doubling and halving would try 46 for the three of them. The wider the margins, the further apart the three lie and
	// the fewer runs they share: it was 23 before safe had 48 % for files of which nothing is known.
	if len(f.Curve) > 25 || f.Batch < 8192 {
		t.Errorf("batch %d took %d runs", f.Batch, len(f.Curve))
	}
}
