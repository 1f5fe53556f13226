package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/memestimate/memestimate/gate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/test/must"
)

// spellings are what users of PyTorch write, and what it means: the settings of the report as JSON, or the hint that
// it is refused with.
var spellings = []struct{ args, want, hint string }{
	// Flags.
	{"--batch-size 8", `"batch":8`, ""},
	{"--batch_size 8", `"batch":8`, ""},
	{"--bs 8", `"batch":8`, ""},
	{"--Batch 8", `"batch":8`, ""},
	{"-b8", `"batch":8`, ""},
	{"--per_device_train_batch_size 8", `"batch":8`, ""},
	{"--dtype bfloat16", `"precision":"bf16"`, ""},
	{"--mixed_precision fp16-mixed", `"precision":"amp-fp16"`, ""},
	{"--optim adam", `"optimizer":"adam"`, ""},
	{"--gradient_accumulation_steps 4", `"grad_accum":4`, ""},
	{"--criterion mse", `"loss":"mse"`, ""},
	{"--channels_last", `"channels_last":true`, ""},
	{"--sequence-length 512", "", "--dim sequence=512"},
	{"--image_size 256", "", "--dim height=256"},
	// Precisions.
	{"--precision float32", `"precision":"fp32"`, ""},
	{"--precision FP32", `"precision":"fp32"`, ""},
	{"--precision torch.float32", `"precision":"fp32"`, ""},
	{"--precision bfloat16", `"precision":"bf16"`, ""},
	{"--precision torch.bfloat16", `"precision":"bf16"`, ""},
	{"--precision half", `"precision":"fp16"`, ""},
	{"--precision float16", `"precision":"fp16"`, ""},
	{"--precision mixed", `"precision":"amp-fp16"`, ""},
	{"--precision amp", `"precision":"amp-fp16"`, ""},
	{"--precision O1", `"precision":"amp-fp16"`, ""},
	{"--precision bf16-mixed", `"precision":"amp-bf16"`, ""},
	{"--precision 16-mixed", `"precision":"amp-fp16"`, ""},
	{"--precision 32-true", `"precision":"fp32"`, ""},
	{"--precision AMP_BF16", `"precision":"amp-bf16"`, ""},
	{"--precision 16", "", "16-mixed is amp-fp16, 16-true is fp16"},
	{"--precision tf32", "", "--precision fp32"},
	{"--precision fp8", "", "an upper bound"},
	{"--precision O2", "", "O1 is amp-fp16"},
	// Optimizers.
	{"--optimizer AdamW", `"optimizer":"adamw"`, ""},
	{"--optimizer torch.optim.SGD", `"optimizer":"sgd"`, ""},
	{"--optimizer SGD(momentum=0.9)", `"optimizer":"sgdm"`, ""},
	{"--optimizer torch.optim.SGD(lr=0.1,momentum=0.9,weight_decay=1e-4,nesterov=True)", `"optimizer":"sgdm-wd-nesterov"`,
		""},
	{"--optimizer SGD(lr=0.1,momentum=0)", `"optimizer":"sgd"`, ""},
	{"--optimizer AdamW(lr=3e-4,betas=(0.9,0.95),weight_decay=0.1,fused=True)", `"optimizer":"adamw-fused"`, ""},
	{"--optimizer adamw_torch_fused", `"optimizer":"adamw-fused"`, ""},
	{"--optimizer Adam(amsgrad=True)", `"optimizer":"adam-amsgrad"`, ""},
	{"--optimizer RMSprop(momentum=0.9)", `"optimizer":"rmsprop-momentum"`, ""},
	{"--optimizer Adam(foreach=False)", "", "--foreach=false"},
	{"--optimizer adamw_bnb_8bit", "", "adamw takes two states"},
	{"--optimizer Lion", "", "sgdm one"},
	{"--optimizer SGD(momentum=0.9", "", "SGD(momentum=0.9)"},
	// Modes and losses.
	{"--mode inference", `"mode":"infer"`, ""},
	{"--mode eval", `"mode":"infer"`, ""},
	{"--mode Training", `"mode":"train"`, ""},
	{"--loss CrossEntropyLoss", `"loss":"cross-entropy"`, ""},
	{"--loss nn.MSELoss()", `"loss":"mse"`, ""},
	{"--loss F.cross_entropy", `"loss":"cross-entropy"`, ""},
	{"--loss BCELoss", "", "BCEWithLogitsLoss"},
	// GPUs.
	{"--gpu 4090", `"gpu":"rtx-4090"`, ""},
	{"--gpu RTX4090", `"gpu":"rtx-4090"`, ""},
	{"--gpu T4", `"gpu":"t4"`, ""},
	{"--gpu A100-80G", `"gpu":"a100-80gb"`, ""},
	{"--gpu NVIDIA_A100-SXM4-80GB", `"gpu":"a100-80gb"`, ""},
	{"--gpu h100-sxm", `"gpu":"h100-`, ""},
	{"--gpu A100", "", "name one of them"},
	{"--gpu 1080ti", `"gpu":"gtx-1080-ti"`, ""},
	{"--gpu 24GiB", `"limit_bytes":25769803776`, ""},
	{"--gpu 16GB", `"limit_bytes":16000000000`, ""},
	{"--gpu 1180ti", "", "--gpu 11GiB"},
	// Sizes.
	{"--budget 24G", `"limit_bytes":25769803776`, ""},
	{"--budget 24gib", `"limit_bytes":25769803776`, ""},
	{"--budget 24Gi", `"limit_bytes":25769803776`, ""},
	{"--budget 24GB", `"limit_bytes":24000000000`, ""},
	{"--budget 25769803776", `"limit_bytes":25769803776`, ""},
	{"--memory-limit 20480M", `"memory_limit_bytes":21474836480`, ""},
	{"--budget 24", "", "24GiB, or 24B"},
}

// What is written means what users of PyTorch mean, or is refused with what to write.
func TestSpellings(t *testing.T) {
	if len(spellings) < 60 {
		t.Errorf("%d spellings", len(spellings))
	}
	for _, tt := range spellings {
		args := append([]string{"mlp", "--format", "json"}, strings.Fields(tt.args)...)
		if !strings.Contains(tt.want, `"batch"`) {
			args = append(args, "--batch", "2")
		}
		stdout, stderr, code := try(t, args...)
		if tt.hint != "" {
			if code != exitUsage || !strings.Contains(stderr, `"hint":"`) || !strings.Contains(stderr, tt.hint) {
				t.Errorf("%s: exit code %d, want the hint %q:\n%s", tt.args, code, tt.hint, stderr)
			}
			continue
		}
		if code != exitOK {
			t.Errorf("%s: exit code %d: %s", tt.args, code, stderr)
			continue
		}
		var whole map[string]any
		must.OK(t, json.Unmarshal([]byte(stdout), &whole))
		said, err := json.Marshal([]any{whole["settings"], whole["fits"]})
		must.OK(t, err)
		if !strings.Contains(string(said), tt.want) {
			t.Errorf("%s: %s, want %s", tt.args, said, tt.want)
		}
	}
}

// A budget file takes the words that flags take.
func TestSpellingsInABudgetFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memestimate.yaml")
	write(t, file, `models: mlp
settings:
  Batch_Size: 2
  dtype: [bfloat16, torch.float32]
  optimizer: SGD(lr=0.1, momentum=0.9)
  mode: Training
  gpu: rtx-4090
limits:
  device: 20G
  fits: [a100-80gb]
`)
	stdout, stderr, code := try(t, "check", "--config", file)
	if code != exitOK || !strings.Contains(stdout, "bf16") {
		t.Fatalf("exit code %d: %s\n%s", code, stderr, stdout)
	}
	for of, hint := range map[string]string{"device: 24": "24GiB", "fits: A100": "a100-40gb, a100-64gb, a100-80gb"} {
		write(t, file, "models: mlp\nsettings: {batch: 2}\nlimits: {"+of+"}\n")
		if _, stderr, code := try(t, "check", "--config", file); code != exitInput || !strings.Contains(stderr, hint) ||
			!strings.Contains(stderr, "memestimate.yaml:3: ") {
			t.Errorf("%s: exit code %d: %s", of, code, stderr)
		}
	}
}

// A flag that is nearly another one, by its own name or by one that it has elsewhere, is asked for.
func TestMistypedFlags(t *testing.T) {
	for typed, meant := range map[string]string{"--optimiser": "--optimizer", "--batchsizes": "--batch",
		"--criterium": "--loss"} {
		want := "hint: did you mean " + meant + "?"
		if _, stderr, code := try(t, "resnet18", typed, "2"); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s", typed, code, stderr)
		}
	}
	if _, stderr, _ := try(t, "resnet18", "--zzzzzz", "2"); strings.Contains(stderr, "did you mean") {
		t.Errorf("nothing is near: %s", stderr)
	}
}

// What there is in other letters, or elsewhere, is found or said.
func TestOtherModels(t *testing.T) {
	for of, hint := range map[string]string{
		"resnet101":                                 "hint: of its family there are resnet18, resnet50; ",
		"https://example.org/net.onnx":              "curl -L https://example.org/net.onnx | memestimate -",
		"https://example.org/openai-community/gpt2": "memestimate ORG/NAME for a model of huggingface.co",
		"resnet18x.onnx":                            "no such file\n",
		"squeeznet1_1":                              "did you mean squeezenet1_1?",
	} {
		if _, stderr, code := try(t, of); code != exitInput || !strings.Contains(stderr, hint) {
			t.Errorf("%s: exit code %d: %s", of, code, stderr)
		}
	}
	want, _, _ := try(t, "resnet18:dynamo", "-b2")
	if got, stderr, _ := try(t, "ResNet-18:Dynamo", "-b2"); got != want {
		t.Errorf("ResNet-18:Dynamo: %s", stderr)
	}
}

// What a budget file may say and may not, line by line: YES or NO, the file.
const spellingTable = "testdata/spellings.txt"

// The parser of budget files takes these spellings and no others, and the JSON Schema that editors use no more than it.
func TestSchemaAndParserAgree(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/memestimate.schema.json")
	must.OK(t, err)
	data := must.Read(t, spellingTable)
	n, proposed := 0, 0
	for line := range strings.Lines(string(data)) {
		want, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || want == "#" {
			continue
		}
		n++
		text = strings.NewReplacer("; ", "\n", "⏎", "\n").Replace(text)
		if !strings.Contains(text, "models:") {
			text += "\nmodels: resnet18"
		}
		parsed := accepts(t, text)
		valid := validates(schema, text)
		if valid == nil {
			proposed++
		}
		if (parsed == nil) != (want == "YES") || valid == nil && parsed != nil {
			t.Errorf("%s\nwant %s\nparser: %v\nschema: %v", text, want, parsed, valid)
		}
	}
	if n < 120 || proposed < 50 {
		t.Errorf("%d spellings, %d of them in the schema, want 120 and 50", n, proposed)
	}
}

// accepts reads a budget file as check does, up to the models.
func accepts(t *testing.T, text string) error {
	path := filepath.Join(t.TempDir(), budget.Name)
	write(t, path, text)
	c := &gate.Check{Config: path, Read: readSmall, Cases: casesOf}
	f, err := c.ReadBudget()
	if err != nil {
		return err
	}
	_, err = c.FindModels(f)
	return err
}

// validates holds the same file against the schema, as an editor does.
func validates(schema *jsonschema.Schema, text string) error {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
