package estimate

import (
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program/parallel"
	"github.com/memestimate/memestimate/test/testfile"
)

var beyondCases = flag.Bool("beyond.cases", false, "print every case of the steps beyond the plain one")

// A beyondCase is a measured step that is not the plain one: see testdata/beyond/README.md.
type beyondCase struct {
	measuredCase
	TrainOnly   string  `json:"train_only"`
	Checkpoint  *bool   `json:"ckpt"` // use_reentrant
	LoRA        int     `json:"lora"`
	LoRADropout float64 `json:"lora_dropout"`
	Compile     any     `json:"compile"`
	AMP         bool    `json:"amp"`
	Parallel    string  `json:"par"`
	Rank        int     `json:"rank"`
	Bucket      int64   `json:"bucket_cap_mb"`
	Static      bool    `json:"static_graph"`
	View        truthy  `json:"view"`
	Mixed       any     `json:"mp"` // MixedPrecisionPolicy of bfloat16, reduced in float32; nil is none
	Reduce      string  `json:"reduce"`
	Reshard     *bool   `json:"reshard"`
	Blocks      *bool   `json:"blocks"` // each is sharded by itself
	Offload     bool    `json:"offload"`
}

// beyondBlocks are the modules that were checkpointed one by one.
var beyondBlocks = map[string]string{
	"resnet50": `layer\d\.\d+`, "vit_b_16": `encoder\.layers\.[^.]+`, "gpt2": `m\.transformer\.h\.\d+`,
	"llama_160m": `m\.model\.layers\.\d+`,
	"qwen2_0_5b": `m\.model\.layers\.\d+`, "bert_base": `m\.bert\.encoder\.layer\.\d+`,
	"convnext_tiny": `features\.[1357]\.\d+`, "swin_t": `features\.[1357]\.\d+`,
	"mixer_b16": `blocks\.\d+`, "efficientnet_b0": `features\.[1-7]\.\d+`, "t5_small": `m\.(en|de)coder\.block\.\d+`,
	"torch_encoder": `t\.layers\.\d+`,
}

// beyondLoRA are the modules that had adapters.
var beyondLoRA = map[string]string{"llama_160m": "q_proj|v_proj", "qwen2_0_5b": "q_proj|v_proj", "gpt2": "c_attn"}

func (c beyondCase) plan() parallel.Plan {
	p := parallel.Plan{}
	if c.TrainOnly != "" {
		p.TrainOnly = "^" + c.TrainOnly
	}
	if c.Parallel != "" {
		p.GPUs, p.Parallel, p.View, p.Bucket, p.Static = 2, c.Parallel, bool(c.View), c.Bucket<<20, c.Static
		if c.Parallel == "fsdp2" {
			p.Parallel, p.NoReshard = parallel.FSDP, c.Reshard != nil && !*c.Reshard
			p.Offload = c.Offload
			if c.Mixed != nil {
				if p.ParamDType, p.ReduceDType = "bf16", "fp32"; c.Mixed == "bf16" {
					p.ReduceDType = c.Reduce
				}
			}
			p.Shard = beyondBlocks[c.Model]
			if c.Blocks != nil && !*c.Blocks {
				p.Shard = parallel.Whole
			}
		}
	}
	if c.LoRA != 0 {
		p.LoRA = fmt.Sprintf("r=%d,dropout=%v,targets=%s", c.LoRA, c.LoRADropout, beyondLoRA[c.Model])
	}
	if c.Checkpoint != nil {
		p.Checkpoint = beyondBlocks[c.Model]
	}
	return p
}

// bind binds the case's model, and says which step of it was measured.
func (c beyondCase) bind(t *testing.T) (*Bound, Step) {
	t.Helper()
	bound, err := Bind(openModel(t, c.Model, formOf(c.Model)), Options{Batch: c.Batch})
	if err != nil {
		t.Fatal(err)
	}
	s := c.step()
	s.Plan = c.plan()
	return bound, s
}

// scheme names what a case is about, "" where it is not simulated.
func (c beyondCase) scheme() string {
	switch {
	case c.Compile != nil || c.Rank != 0:
		return ""
	case c.Parallel != "":
		return c.Parallel
	case c.LoRA != 0 && c.Checkpoint != nil:
		return "lora, checkpointed"
	case c.LoRA != 0:
		return "lora"
	case c.TrainOnly != "":
		return "frozen"
	case c.Checkpoint != nil:
		return "checkpointed"
	}
	return ""
}

func readBeyond(t *testing.T, file string) []beyondCase {
	t.Helper()
	var all struct {
		Cases []beyondCase `json:"cases"`
	}
	testfile.JSON(t, file, &all)
	return all.Cases
}

const beyondFigures = "testdata/beyond/figures.txt"

// TestBeyondThePlainStep holds steps with frozen parameters, checkpointed modules and several GPUs against measured
// ones, those by their rank 0. The limits are what people may rely on; what was reached is in docs/ACCURACY.md, and
// the answer to each case in testdata/beyond/figures.txt, which -accuracy.figures writes anew.
func TestBeyondThePlainStep(t *testing.T) {
	oneGPU := [2]spread{{0.2, 2, 5}, {0.5, 6, notHeld}}
	several := [2]spread{{0.5, 3, 5}, {3, 6, notHeld}}
	limits := map[string][2]spread{
		"frozen":             oneGPU,
		"checkpointed":       oneGPU,
		"lora":               oneGPU,
		"lora, checkpointed": oneGPU,
		"ddp":                several,
		"zero1":              several,
		"fsdp2":              several,
	}
	var lines []string
	groups, late, above := map[string][]outcome{}, 0, 0
	cases := readBeyond(t, "testdata/beyond/beyond.json.gz")
	for _, c := range readBeyond(t, "testdata/beyond/two.json.gz") { // those of them that are simulated
		if c.Model != "resnet50" && c.Model != "gpt2" || c.Steps == nil || c.Parallel != "ddp" &&
			c.Parallel != "fsdp2" {
			continue
		}
		c.Mode, c.DType, c.Opt = "train", "fp32", "adamw"
		cases = append(cases, c)
	}
	for _, c := range cases {
		scheme := c.scheme()
		if scheme == "" {
			continue
		}
		bound, s := c.bind(t)
		sim, err := bound.Simulate(s)
		if err != nil {
			t.Errorf("%s %s: %v", scheme, c.name(), err)
			continue
		}
		// which of the two ends of the race was measured is not known: the nearer one
		if c.Parallel == "ddp" || c.Parallel == "zero1" {
			if sim.Peak.UpperBound < c.SMI<<20 {
				above++
				t.Logf("%s %s: at most %d on the device, measured %d MiB", scheme, c.name(), sim.Peak.UpperBound, c.SMI)
			}
			s.late = true
			other, err := bound.Simulate(s)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(rel(other.Peak.Allocated, c.PeakAlloc)) < math.Abs(rel(sim.Peak.Allocated, c.PeakAlloc)) {
				sim = other
				late++
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s: %d %d %d", scheme, c.name(), s.Plan.Shard, sim.Peak.Allocated,
			sim.Peak.Reserved, sim.Peak.UpperBound))
		o := outcome{c: c.measuredCase, alloc: rel(sim.Peak.Allocated, c.PeakAlloc),
			reserved: rel(sim.Peak.Reserved, c.PeakReserved), device: rel(sim.Peak.Device, c.SMI<<20)}
		groups[scheme] = append(groups[scheme], o)
		if *beyondCases {
			t.Logf("%-13s %-40s alloc %+7.2f%%  reserved %+7.2f%%  device %+7.2f%%  %d, want %d", scheme, c.name(), 100*o.alloc,
				100*o.reserved, 100*o.device, sim.Peak.Allocated, c.PeakAlloc)
			at := map[string][2]int64{}
			for _, p := range phasesOf(sim.Replay, 2) {
				at[p.Name] = [2]int64{p.End, p.Peak}
			}
			var line []string
			for _, p := range [][2]string{{"forward", "fwd"}, {"loss", "loss"}, {"backward", "bwd"}, {"optimizer", "opt"}} {
				line = append(line, fmt.Sprintf("%s %+d peak %+d", p[1], at[p[0]][0]-c.Steps[1][p[1]],
					at[p[0]][1]-c.Steps[1]["peak_"+p[1]]))
			}
			t.Log("      step 2, bytes: ", strings.Join(line, "  "))
		}
	}
	t.Logf("DDP's first bucket was still there in the second step in %d of %d", late,
		len(groups["ddp"])+len(groups["zero1"]))
	if above > 1 { // vit_b_16 under autocast, by 0.3 %
		t.Errorf("the upper bound was too low in %d cases", above)
	}
	holdLines(t, beyondFigures, lines)
	for scheme, want := range limits {
		g := groups[scheme]
		a, r, d := spreadOf(g, allocated), spreadOf(g, reserved), spreadOf(g, func(o outcome) float64 { return o.device })
		t.Logf("%-13s %2d cases  allocated %v  reserved %v  device %v", scheme, len(g), a, r, d)
		if len(g) == 0 || a.median > want[0].median || a.p90 > want[0].p90 || a.worst > want[0].worst ||
			r.median > want[1].median || r.p90 > want[1].p90 || r.worst > want[1].worst {
			t.Errorf("%s: want at most allocated %v, reserved %v", scheme, want[0], want[1])
		}
	}
}

// TestRepeatedBlocks holds the blocks that are found by structure against those that a person names.
func TestRepeatedBlocks(t *testing.T) {
	for model, expr := range beyondBlocks {
		bound, err := Bind(openModel(t, model, formOf(model)), Options{Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := bound.Program(true)
		if err != nil {
			t.Fatal(err)
		}
		whole := regexp.MustCompile(`^(` + expr + `)$`)
		var got, want []string
		for i, marked := range parallel.Repeated(p) {
			name := p.Scopes[i].Name
			if marked {
				got = append(got, name)
			}
			if whole.MatchString(name) && !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: found %q, want %q", model, got, want)
		}
	}
}

// TestBlocksByParameters finds the layers of models whose exports name nothing within them but the parameters.
func TestBlocksByParameters(t *testing.T) {
	for model, expr := range map[string]string{
		"electra": `m\.electra\.encoder\.layer\.\d+`, "deberta_v2": `m\.deberta\.encoder\.layer\.\d+`,
		"yolos": `m\.vit\.encoder\.layer\.\d+`,
	} {
		bound, err := Bind(openGraph(t, "testdata/further60b", model, "dynamo-train"), Options{Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := bound.Program(true)
		if err != nil {
			t.Fatal(err)
		}
		blocks, _ := parallel.RepeatedBlocks(p)
		if len(blocks) < 2 {
			t.Errorf("%s: %d blocks, want the layers", model, len(blocks))
		}
		for _, block := range blocks {
			if !regexp.MustCompile(`^(` + expr + `)$`).MatchString(block.Name) {
				t.Errorf("%s: %q is found, want %s", model, block.Name, expr)
			}
		}
	}
}
