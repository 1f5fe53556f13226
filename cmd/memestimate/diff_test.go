package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/test/must"
)

var update = flag.Bool("update", false, "write the expected results in testdata anew")

// A block is a convolution, a batch norm and a ReLU of the edited networks.
type block struct {
	in, out int
}

// network writes a chain of blocks as nn.Sequential would be exported, pooled, with a classifier on top when
// classes is above 0. The prefix is the name of the Sequential.
func network(prefix string, blocks []block, classes int) []byte {
	g := Graph{In: []Value{Float("input", "batch", blocks[0].in, 64, 64)}}
	at := "input"
	n := 0
	add := func(op string, in string, inits []Tensor, attrs ...Attr) {
		module := fmt.Sprintf("%s.%d", prefix, n)
		n++
		name := fmt.Sprintf("/%s/%s/%s", prefix, module, op)
		ins := []string{in}
		for _, t := range inits {
			t.Name = module + "." + t.Name
			g.Inits = append(g.Inits, t)
			ins = append(ins, t.Name)
		}
		at = name + "_output_0"
		g.Nodes = append(g.Nodes, Node{Op: op, Name: name, In: ins, Out: []string{at}, Attrs: attrs})
	}
	last := 0
	for _, b := range blocks {
		in, out := int64(b.in), int64(b.out)
		last = b.out
		add("Conv", at, []Tensor{Bare("weight", onnxload.Float32, out, in, 3, 3)}, A("pads", []int64{1, 1, 1, 1}),
			A("kernel_shape", []int64{3, 3}))
		add("BatchNormalization", at, []Tensor{
			Bare("weight", onnxload.Float32, out), Bare("bias", onnxload.Float32, out),
			Bare("running_mean", onnxload.Float32, out), Bare("running_var", onnxload.Float32, out)})
		add("Relu", at, nil)
	}
	if classes > 0 {
		g.Nodes = append(g.Nodes,
			Node{Op: "GlobalAveragePool", Name: "/pool/GlobalAveragePool", In: []string{at}, Out: []string{"pooled"}},
			Node{Op: "Flatten", Name: "/Flatten", In: []string{"pooled"}, Out: []string{"flat"}},
			Node{Op: "Gemm", Name: "/fc/Gemm", In: []string{"flat", "fc.weight", "fc.bias"}, Out: []string{"output"},
				Attrs: []Attr{A("transB", int64(1))}})
		g.Inits = append(g.Inits, Bare("fc.weight", onnxload.Float32, int64(classes), int64(last)),
			Bare("fc.bias", onnxload.Float32, int64(classes)))
		at = "output"
	}
	g.Out = []Value{{Name: at}}
	return Model{Opset: 17, Producer: "pytorch", Graph: g}.Bytes()
}

// editedNetworks are the base and what was made of it.
func editedNetworks(t *testing.T) (dir string) {
	dir = t.TempDir()
	plain := []block{{3, 16}, {16, 32}, {32, 32}, {32, 64}}
	for name, data := range map[string][]byte{
		"base":     network("features", plain, 10),
		"widened":  network("features", []block{{3, 16}, {16, 48}, {48, 32}, {32, 64}}, 10),
		"inserted": network("features", []block{{3, 16}, {16, 32}, {32, 24}, {24, 32}, {32, 32}, {32, 64}}, 10),
		"renamed":  network("body", plain, 10),
		"headless": network("features", plain, 0),
	} {
		must.Write(t, filepath.Join(dir, name+".onnx"), data)
	}
	return dir
}

// A diff is the same twice, its rows add up to its totals, and its JSON makes the text that is printed.
func TestDiffRows(t *testing.T) {
	t.Chdir(editedNetworks(t)) // paths as somebody types them
	for _, tt := range []struct {
		name, args string
	}{
		{"identical", "base.onnx base.onnx --batch 8"},
		{"widened", "base.onnx widened.onnx --batch 8"},
		{"inserted", "base.onnx inserted.onnx --batch 8"},
		{"removed", "inserted.onnx base.onnx --batch 8"},
		{"renamed", "base.onnx renamed.onnx --batch 8"},
		{"headless", "base.onnx headless.onnx --batch 8"},
		{"optimizer", "base.onnx base.onnx --batch 8 --optimizer adamw --base optimizer=sgd"},
		{"matrix", "base.onnx widened.onnx --batch 1,32 --precision fp32,amp-bf16"},
		{"resnets", "resnet18 resnet50 --batch 8"},
		{"vgg", "vgg16 vgg19_features --batch 4"},
		{"gpt2-optimizer", "gpt2 gpt2 --batch 4 --optimizer adamw --base optimizer=sgd"},
		{"gpt2-same", "gpt2 gpt2 --batch 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"diff"}, strings.Fields(tt.args)...)
			texts := map[string]string{}
			for format := range strings.FieldsSeq(allFormats) {
				stdout, stderr, code := try(t, append(args, "--format", format)...)
				again, _, _ := try(t, append(args, "--format", format)...)
				if code != exitOK || stderr != "" {
					t.Fatalf("%s: code %d, stderr %q", format, code, stderr)
				}
				if stdout != again {
					t.Errorf("%s: two runs differ", format)
				}
				texts[format] = stdout
			}
			var d diff.Diff
			must.OK(t, json.Unmarshal([]byte(texts["json"]), &d))
			if same := strings.Contains(tt.name, "identical") || strings.Contains(tt.name, "same"); d.Empty() != same {
				t.Errorf("the diff is empty: %v, want %v", d.Empty(), same)
			}
			var b strings.Builder
			if err := report.DiffText(&b, &d, 0, 0); err != nil || b.String() != texts["text"] {
				t.Errorf("the JSON does not say what the text says, %v:\n%s\nwant\n%s", err, b.String(), texts["text"])
			}
			for i := range d.Cases {
				addsUp(t, &d.Cases[i])
			}
		})
	}
}

const allFormats = "text markdown csv json"

// addsUp holds the rows of a case against its totals.
func addsUp(t *testing.T, c *diff.Case) {
	t.Helper()
	var params, activation, saved int64
	for _, l := range c.Layers {
		params += l.ParamBytes
		activation += l.Activation
		saved += l.Saved
	}
	saved += c.Total(diff.LossSaved).Change
	for _, x := range []struct {
		total string
		rows  int64
	}{{diff.Parameters, params}, {diff.Activations, activation}, {diff.Saved, saved}} {
		if want := c.Total(x.total).Change; x.rows != want {
			t.Errorf("%s: the rows of %s add up to %d, the total changes by %d", c.Label, x.total, x.rows, want)
		}
	}
}

// A file of a revision is read through git; what git has not is said in one line.
func TestDiffRevision(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir := editedNetworks(t)
	t.Chdir(dir)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c",
			"init.defaultBranch=main"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", "base.onnx")
	git("commit", "-qm", "base")
	wide := must.Read(t, "widened.onnx")
	must.Write(t, "base.onnx", wide)
	stdout, stderr, code := try(t, "diff", "git:HEAD:base.onnx", "base.onnx", "--batch", "8")
	if code != exitOK || !strings.Contains(stdout, "layers: 4 changed, ") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code := try(t, "diff", "git:HEAD:base.onnx", "base.onnx", "--batch", "256", "--base", "batch=8",
		"--max-growth", "1%"); code != exitNo || !strings.Contains(stderr, "more than 1%") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	if _, stderr, code := try(t, "diff", "git:HEAD:base.onnx", "base.onnx", "--batch", "8", "--max-growth",
		"1GiB"); code != exitOK {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	for _, tt := range []struct {
		arg  string
		code int
		want string
	}{
		{"git:HEAD:gone.onnx", exitInput, "gone.onnx"},
		{"git:nosuchrevision:base.onnx", exitInput, "git:"},
		{"git:--textconv:base.onnx", exitUsage, "want git:REV:PATH"},
		{"git:HEAD", exitUsage, "want git:REV:PATH"},
	} {
		_, stderr, code := try(t, "diff", tt.arg, "base.onnx", "--batch", "8")
		if code != tt.code || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: code %d, stderr %q", tt.arg, code, stderr)
		}
	}
}

// A value that is given twice is one case.
func TestValuesGivenTwice(t *testing.T) {
	once, _, code := try(t, "diff", "mlp", "mlp", "--batch", "2,3", "--precision", "fp32", "--format", "csv")
	twice, _, codeTwice := try(t, "diff", "mlp", "mlp", "--batch", "2,02,3,2", "--precision", "fp32,fp32", "--format",
		"csv")
	if code != exitOK || codeTwice != exitOK || once == "" || once != twice {
		t.Errorf("codes %d and %d:\n%s\nand\n%s", code, codeTwice, once, twice)
	}
}

// A dimension or an input that only one of two models has gets its size, and the other is compared without it.
func TestDimensionsOfOneModel(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "a.onnx", string(relus(Float("x", "N", 3))))
	write(t, "b.onnx", string(relus(Float("x", "N", "seq"), Float("mask", nil, nil))))
	for _, args := range []string{
		"diff a.onnx b.onnx --batch 2 --dim seq=5 --input mask=2x7",
		"diff b.onnx a.onnx --batch 2 --dim seq=5 --input mask=2x7",
	} {
		stdout, stderr, code := try(t, strings.Fields(args)...)
		if code != exitOK || !strings.Contains(stdout, "device memory") {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
	for args, want := range map[string]string{
		"diff a.onnx b.onnx --batch 2 --dim sqe=5": "memestimate: b.onnx: --dim \"sqe\": the model has no " +
			"such dimension; it has \"N\", \"seq\"\n",
		"diff a.onnx b.onnx --batch 2 --dim seq=5": "memestimate: hint: memestimate diff a.onnx b.onnx " +
			"--batch 2 --dim seq=5 --input mask=2x128\n",
		"diff b.onnx a.onnx --batch 2 --input mask=2x7 --dim N=2": "memestimate: hint: memestimate diff b.onnx a.onnx " +
			"--batch 2 --dim N=2 --input mask=2x7 --dim seq=128\n",
	} {
		if _, stderr, code := try(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}

	// A base is held to the settings that it knows.
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	write(t, "memestimate.yaml", "settings: {batch: 2, dim: {seq: 5}, input: {mask: 2x7}}\nlimits: {growth: "+
		"1%}\nmodels: m.onnx\n")
	copyFile(t, "a.onnx", "m.onnx")
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "base")
	copyFile(t, "b.onnx", "m.onnx")
	if stdout, stderr, code := try(t, "check"); code != exitOK || strings.Contains(stdout, "nothing to grow from") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}

// On a terminal the layers whose memory changes the most stand below the totals, and a line says how many are left out;
// a pipe and --full have all.
func TestDiffOnTheScreen(t *testing.T) {
	args := []string{"diff", "resnet18", "resnet50", "--batch", "8"}
	whole, _, code := try(t, args...)
	short, _, shortCode := try(t, append(args, "--full=false")...)
	if code != exitOK || shortCode != exitOK {
		t.Fatalf("exit codes %d and %d", code, shortCode)
	}
	if n := strings.Count(short, "\n"); n > 28 || strings.Count(whole, "\n") < 150 {
		t.Errorf("%d lines on a terminal:\n%s", n, short)
	}
	for _, want := range []string{"upper bound", "layer1.0.bn3", "138 more layers change less: --full lists all",
		"the peak moves from layer3.1.conv2 to layer4.0.conv1"} {
		if !strings.Contains(short, want) {
			t.Errorf("a terminal does not show %q:\n%s", want, short)
		}
	}
	for line := range strings.Lines(short) {
		if !strings.Contains(line, "more layers change less") && !strings.Contains(line, "layer1.") &&
			!strings.Contains(line, "----") && !strings.HasPrefix(line, "change ") && !strings.Contains(whole, line) {
			t.Errorf("only a terminal has %q", line)
		}
	}
}
