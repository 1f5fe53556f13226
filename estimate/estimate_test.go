package estimate

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// open reads a built-in model.
func open(t testing.TB, name string) *onnxload.Model {
	t.Helper()
	data, err := models.Open(name)
	must.OK(t, err)
	m := readModel(t, data, "")
	return m
}

// measured returns what PyTorch counted for each model.
func measured(t *testing.T) map[string][4]int64 {
	t.Helper()
	f, err := os.Open("testdata/parameters.csv")
	must.OK(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	records, err := r.ReadAll()
	must.OK(t, err)
	out := map[string][4]int64{}
	for _, rec := range records[1:] {
		var v [4]int64
		for i := range v {
			if v[i], err = strconv.ParseInt(rec[i+1], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		out[rec[0]] = v
	}
	return out
}

// unread are bytes of buffers that modules have but that their forward pass does not read,
// so that no export has them.
var unread = map[string]int64{
	"llama_160m": 128, // rotary_emb.original_inv_freq, a spare copy of inv_freq
	"qwen2_0_5b": 128,
}

// The parameters and buffers of every training export are those that PyTorch counted.
func TestParametersMatchPyTorch(t *testing.T) {
	for name, want := range measured(t) {
		info, err := models.Info(name)
		must.OK(t, err)
		for _, form := range info.Forms {
			if !strings.HasSuffix(form, "-train") {
				continue
			}
			t.Run(name+":"+form, func(t *testing.T) {
				r, err := Run(open(t, name+":"+form), Options{Batch: 8})
				must.OK(t, err)
				got := [4]int64{r.Parameters.Bytes, r.Parameters.Count, r.Parameters.Tensors, r.Buffers.Bytes + unread[name]}
				if got != want {
					t.Errorf("parameters and buffers: %v, PyTorch: %v", got, want)
				}
			})
		}
	}
}

// TestDroppedWorkspaceNote sees that a report says when convolutions have to do without their workspace.
func TestDroppedWorkspaceNote(t *testing.T) {
	bound, err := Bind(openModel(t, "vgg16", "ts-train"), Options{Batch: 32})
	must.OK(t, err)
	noted := func(limit int64) bool {
		t.Helper()
		r, err := bound.Report(Options{Batch: 32, Step: &Step{MemoryLimit: limit}})
		must.OK(t, err)
		if r.OOM != nil {
			t.Errorf("out of memory under %d", limit)
		}
		return slices.ContainsFunc(r.Notes, func(n Note) bool {
			return n.Level == Warning && strings.Contains(n.Text, "workspace of cuDNN's first choice")
		})
	}
	if !noted(4747<<20) || noted(0) {
		t.Error("want the note under a tight limit alone")
	}
}

// What torch.profiler's memory timeline shows at the peak of a steady step, by its own categories: the totals are
// within 2 %, and each category of more than 5 % of the peak is within 5 % of the total. The profiler starts in the
// third step, so it does not see the workspaces that cuBLAS keeps, and activations whose maker it does not know are
// "unknown".
func TestProfilerTimelines(t *testing.T) {
	for _, c := range []struct {
		file, model string
		batch       int64
		step        Step
	}{
		{"timeline_resnet50.json", "resnet50", 32, Step{Settings: torch.Settings{Optimizer: "sgdm", DropOutput: true}}},
		{"timeline_gpt2.json", "gpt2", 4, Step{Settings: torch.Settings{DropOutput: true}}},
	} {
		data := must.Read(t, "testdata/profiler/"+c.file)
		var want struct {
			Max   int64   `json:"max_memory_allocated"`
			Sizes []int64 `json:"sizes_at_peak"`
			Sum   int64   `json:"sum_at_peak"`
		}
		if err := json.Unmarshal(data, &want); err != nil || len(want.Sizes) != 9 {
			t.Fatalf("%s: %v", c.file, err)
		}
		r, err := Run(open(t, c.model), Options{Batch: c.batch, Step: &c.step})
		must.OK(t, err)
		by := r.Peak.ByCategory
		sum := r.Peak.Allocated - by["rounding"] // as requested
		got := map[string]int64{
			"parameter": by["parameter"] + by["buffer"], "optimizer_state": by["optimizer_state"], "input": by["input"],
			"temporary": by["temporary"],
			"gradient":  by["gradient"], "autograd_detail": by["autograd_detail"], "activation and unknown": by["activation"] +
				by["unknown"],
		}
		s := want.Sizes
		measured := map[string]int64{
			"parameter": s[1], "optimizer_state": s[2], "input": s[3], "temporary": s[4], "gradient": s[6],
			"autograd_detail": s[7], "activation and unknown": s[5] + s[8],
		}
		if e := rel(sum, want.Sum); e > 0.02 || e < -0.02 {
			t.Errorf("%s: %d in all at the peak, the profiler has %d: %+.2f %%", c.model, sum, want.Sum, 100*e)
		}
		if e := rel(r.Peak.Allocated, want.Max); e > 0.01 || e < -0.01 {
			t.Errorf("%s: %d allocated, measured %d: %+.2f %%", c.model, r.Peak.Allocated, want.Max, 100*e)
		}
		for name, n := range measured {
			if off := got[name] - n; n*20 > want.Sum && (off*20 > want.Sum || -off*20 > want.Sum) {
				t.Errorf("%s: %s is %d, the profiler has %d", c.model, name, got[name], n)
			}
		}
		t.Logf("%s: allocated %+.2f %%, total of the categories %+.2f %%", c.model, 100*rel(r.Peak.Allocated, want.Max),
			100*rel(sum, want.Sum))
	}
}

// TestAdaptersOfWholeNames estimates adapters from an export that names all modules of every node: that of the built-in
// model was made smaller by cutting such names off.
func TestAdaptersOfWholeNames(t *testing.T) {
	const measured = 13956546560
	bound, err := Bind(openGraph(t, "testdata/beyond", "qwen2_0_5b", "dynamo-train"), Options{Batch: 4})
	must.OK(t, err)
	sim, err := bound.Simulate(Step{Settings: torch.Settings{Precision: torch.FP32},
		Plan: program.Plan{LoRA: "r=16,targets=q_proj|v_proj"}})
	must.OK(t, err)
	if off := rel(sim.Peak.Reserved, measured); math.Abs(off) > 0.001 {
		t.Errorf("%d reserved, %+.2f %% of what was measured", sim.Peak.Reserved, 100*off)
	}
}

// nn.TransformerEncoderLayer runs on other paths in training and in inference: the one copies its packed projection
// once, the other splits it by views and works in place after it, unless autocast is on
// (torch/nn/modules/activation.py).
func TestEncoderLayerPaths(t *testing.T) {
	b, err := Bind(openModel(t, "torch_encoder", "ts-train"), Options{Batch: 8})
	must.OK(t, err)
	for _, want := range []struct {
		train, autocast         bool
		copies, splits, inPlace int
	}{{true, false, 6, 0, 0}, {true, true, 6, 0, 0}, {false, false, 0, 6, 18}, {false, true, 6, 0, 0}} {
		p, err := b.program(want.train, want.autocast)
		must.OK(t, err)
		copies, splits, inPlace, attentions := 0, 0, 0, 0
		for _, c := range p.Calls {
			switch {
			case c.Op == "contiguous":
				copies++
			case c.Op == "split":
				splits++
			case c.Op == "sdpa":
				attentions++
			case c.Args.Inplace:
				inPlace++
			}
		}
		if copies != want.copies || splits != want.splits || inPlace != want.inPlace || attentions != 6 {
			t.Errorf("training %v, autocast %v: %d copies, %d splits, %d in place, %d attentions", want.train, want.autocast,
				copies, splits, inPlace, attentions)
		}
	}
}

// simulated are models of three kinds: convolutions, windows of attention in a graph of shape arithmetic, a large
// language model.
var simulated = []struct {
	model string
	batch int64
}{{"resnet50", 32}, {"swin_t:ts-train", 32}, {"qwen2_0_5b", 4}}

// mostAllocations bounds the heap allocations that an event of a simulation may cost, so that a rule which
// allocates in a loop is noticed.
const mostAllocations = 4

func TestAllocationsPerEvent(t *testing.T) {
	for _, c := range simulated {
		bound, err := Bind(open(t, c.model), Options{Batch: c.batch})
		must.OK(t, err)
		events := 0
		allocations := testing.AllocsPerRun(1, func() {
			s, err := bound.Simulate(Step{})
			must.OK(t, err)
			events = s.Run.Log.Len()
		})
		if per := allocations / float64(events); per > mostAllocations {
			t.Errorf("%s: %.1f allocations an event, more than %d", c.model, per, mostAllocations)
		}
	}
}
