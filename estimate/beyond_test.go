package estimate

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

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

func (c beyondCase) plan() program.Plan {
	p := program.Plan{}
	if c.TrainOnly != "" {
		p.TrainOnly = "^" + c.TrainOnly
	}
	if c.Parallel != "" {
		p.GPUs, p.Parallel, p.View, p.Bucket, p.Static = 2, c.Parallel, bool(c.View), c.Bucket<<20, c.Static
		if c.Parallel == "fsdp2" {
			p.Parallel, p.NoReshard = program.FSDP, c.Reshard != nil && !*c.Reshard
			p.Offload = c.Offload
			if c.Mixed != nil {
				if p.ParamDType, p.ReduceDType = "bf16", "fp32"; c.Mixed == "bf16" {
					p.ReduceDType = c.Reduce
				}
			}
			p.Shard = beyondBlocks[c.Model]
			if c.Blocks != nil && !*c.Blocks {
				p.Shard = program.Whole
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
func (c beyondCase) bind(t *testing.T) (*Model, Step) {
	t.Helper()
	bound, err := Bind(openModel(t, c.Model, formOf(c.Model)), Options{Batch: c.Batch})
	must.OK(t, err)
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

// TestRepeatedBlocks holds the blocks that are found by structure against those that a person names.
func TestRepeatedBlocks(t *testing.T) {
	for model, expr := range beyondBlocks {
		bound, err := Bind(openModel(t, model, formOf(model)), Options{Batch: 1})
		must.OK(t, err)
		p, err := bound.Program(true)
		must.OK(t, err)
		whole := regexp.MustCompile(`^(` + expr + `)$`)
		var got, want []string
		for i, marked := range program.Repeated(p) {
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
		must.OK(t, err)
		p, err := bound.Program(true)
		must.OK(t, err)
		blocks, _ := program.RepeatedBlocks(p)
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
