package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

var updateDiff = flag.Bool("update-diff", false, "write the expected diffs anew")

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
		add("Conv", at, []Tensor{Bare("weight", onnxload.Float32, out, in, 3, 3)}, A("pads", []int64{1, 1, 1, 1}), A("kernel_shape", []int64{3, 3}))
		add("BatchNormalization", at, []Tensor{
			Bare("weight", onnxload.Float32, out), Bare("bias", onnxload.Float32, out),
			Bare("running_mean", onnxload.Float32, out), Bare("running_var", onnxload.Float32, out)})
		add("Relu", at, nil)
	}
	if classes > 0 {
		g.Nodes = append(g.Nodes,
			Node{Op: "GlobalAveragePool", Name: "/pool/GlobalAveragePool", In: []string{at}, Out: []string{"pooled"}},
			Node{Op: "Flatten", Name: "/Flatten", In: []string{"pooled"}, Out: []string{"flat"}},
			Node{Op: "Gemm", Name: "/fc/Gemm", In: []string{"flat", "fc.weight", "fc.bias"}, Out: []string{"output"}, Attrs: []Attr{A("transB", int64(1))}})
		g.Inits = append(g.Inits, Bare("fc.weight", onnxload.Float32, int64(classes), int64(last)), Bare("fc.bias", onnxload.Float32, int64(classes)))
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
		if err := os.WriteFile(filepath.Join(dir, name+".onnx"), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The rows of a diff are what was edited, no more and no less: testdata/diff has them.
func TestDiffRows(t *testing.T) {
	dir := editedNetworks(t)
	for _, tt := range []struct{ name, args string }{
		{"identical", "DIR/base.onnx DIR/base.onnx --batch 8"},
		{"widened", "DIR/base.onnx DIR/widened.onnx --batch 8"},
		{"inserted", "DIR/base.onnx DIR/inserted.onnx --batch 8"},
		{"removed", "DIR/inserted.onnx DIR/base.onnx --batch 8"},
		{"renamed", "DIR/base.onnx DIR/renamed.onnx --batch 8"},
		{"headless", "DIR/base.onnx DIR/headless.onnx --batch 8"},
		{"optimizer", "DIR/base.onnx DIR/base.onnx --batch 8 --optimizer adamw --base optimizer=sgd"},
		{"matrix", "DIR/base.onnx DIR/widened.onnx --batch 1,32 --precision fp32,amp-bf16"},
		{"resnets", "resnet18 resnet50 --batch 8"},
		{"resnext", "resnet50 resnext50_32x4d --batch 8"},
		{"vgg", "vgg16 vgg19_features --batch 4"},
		{"mobilenets", "mobilenet_v2 mobilenet_v3_large --batch 8"},
		{"gpt2-optimizer", "gpt2 gpt2 --batch 4 --optimizer adamw --base optimizer=sgd"},
		{"bert", "distilbert bert_base --batch 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"diff"}, strings.Fields(strings.ReplaceAll(tt.args, "DIR", dir))...)
			for _, format := range []string{"text", "markdown", "csv", "json", "html"} {
				stdout, stderr, code := try(t, append(args, "--format", format)...)
				again, _, _ := try(t, append(args, "--format", format)...)
				if code != exitOK || stderr != "" {
					t.Fatalf("%s: code %d, stderr %q", format, code, stderr)
				}
				if stdout != again {
					t.Errorf("%s: two runs differ", format)
				}
				edited := strings.Contains(tt.args, "DIR")
				switch {
				case format == "csv" && !edited:
					golden(t, tt.name+".csv", withoutSaved(stdout))
				case format == "text" && edited:
					golden(t, tt.name+".txt", withoutPeak(stdout))
				case format == "markdown" && edited:
					golden(t, tt.name+".md", withoutPeak(stdout))
				}
			}
		})
	}
}

// golden compares a result with the file of testdata/diff.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "diff", name)
	if *updateDiff {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if words(got) != words(string(want)) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// words leaves out what only lays a text out: how wide a column is depends on the lines that are not compared.
func words(text string) string {
	var out []string
	for _, w := range strings.Fields(text) {
		if strings.Trim(w, "-") != "" {
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}

// withoutPeak leaves out the lines about the peak: what a workspace takes is for the tests of the
// simulation to hold, and would make these files change with every rule of it.
func withoutPeak(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "device memory") && !strings.Contains(line, " at the peak") && !strings.Contains(line, "upper bound") && !strings.Contains(line, "peak moves") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// withoutSaved leaves out the last column, for the same reason, and the rows of layers in which it alone changes.
func withoutSaved(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = line[:strings.LastIndexByte(line, ',')]
		if strings.HasPrefix(line, ",changed,") && strings.HasSuffix(line, ",0,0,0") {
			f := strings.Split(line, ",")
			if f[2] == f[3] && f[6] == f[7] {
				continue
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String()
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
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", "base.onnx")
	git("commit", "-qm", "base")
	wide, err := os.ReadFile("widened.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("base.onnx", wide, 0o666); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := try(t, "diff", "git:HEAD:base.onnx", "base.onnx", "--batch", "8")
	if code != exitOK || !strings.Contains(stdout, "layers: 4 changed, ") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code := try(t, "diff", "git:HEAD:base.onnx", "base.onnx", "--batch", "256", "--base", "batch=8", "--max-growth", "1%"); code != exitNo || !strings.Contains(stderr, "more than 1%") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	if _, stderr, code := try(t, "diff", "git:HEAD:base.onnx", "base.onnx", "--batch", "8", "--max-growth", "1GiB"); code != exitOK {
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
