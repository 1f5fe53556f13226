package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// relus is a model of one Relu for each input.
func relus(in ...onnxtest.Value) []byte {
	g := onnxtest.Graph{In: in}
	for i, v := range in {
		out := fmt.Sprint("y", i)
		g.Nodes = append(g.Nodes, onnxtest.Op("Relu", v.Name, out))
		g.Out = append(g.Out, onnxtest.Value{Name: out})
	}
	return onnxtest.Model{Graph: g}.Bytes()
}

// The command that a hint proposes for open dimensions works, whatever a batch binds in the model: one is proposed for
// every model that any command line could estimate.
func TestHintsCloseEveryDimension(t *testing.T) {
	t.Chdir(t.TempDir())
	float := onnxtest.Float
	for _, tt := range []struct {
		name string
		in   []onnxtest.Value
		want string // of the main command
		fit  string // of fit
	}{
		{"m.onnx", []onnxtest.Value{float("x", "N", "seq", 3)}, "m.onnx --batch 8 --dim seq=128",
			"m.onnx --memory=2.00GiB --dim seq=128"},
		{"m.onnx", []onnxtest.Value{float("x", "seq", "batch", 64)}, "m.onnx --batch 8 --dim seq=128",
			"m.onnx --memory=2.00GiB --dim seq=128"},
		{"m.onnx", []onnxtest.Value{float("x", "s0", 3), float("y", "s1")}, "m.onnx --batch 8 --dim s1=128",
			"m.onnx --memory=2.00GiB --dim s1=128"},
		{"m.onnx", []onnxtest.Value{float("x", "a", "b"), float("y", "b", "c")}, "m.onnx --batch 8 --dim c=128",
			"m.onnx --memory=2.00GiB --dim c=128"},
		{"m.onnx", []onnxtest.Value{float("x", nil, 3)}, "m.onnx --batch 8", ""},
		{"m.onnx", []onnxtest.Value{float("x", "seq", nil)}, "m.onnx --batch 8 --input x=8x128", ""},
		{"m.onnx", []onnxtest.Value{float("x", "N", "past+1", nil), float("p", "N", "past")},
			"m.onnx --batch 8 --dim past=128 --input x=8x129x128", ""},
		{"m.onnx", []onnxtest.Value{float("x", "a", "b", "c"), float("y", "b", "a", nil)},
			"m.onnx --dim a=128 --dim b=128 --dim c=128 --input y=128x128x128", ""},
		{"m.onnx", []onnxtest.Value{float("x", 4, nil), float("y", 4, "q")}, "m.onnx --dim q=128 --input x=4x128", ""},
		{"-m.onnx", []onnxtest.Value{float("x", "N", "q")}, "./-m.onnx --batch 8 --dim q=128",
			"./-m.onnx --memory=2.00GiB --dim q=128"},
	} {
		write(t, tt.name, string(relus(tt.in...)))
		for command, want := range map[string]string{"memestimate": tt.want, "memestimate fit": tt.fit} {
			args := []string{"--", tt.name}
			if command != "memestimate" {
				args = []string{"fit", "--memory", "2GiB", "--", tt.name}
			}
			_, stderr, _ := try(t, args...)
			_, hint, _ := strings.Cut(stderr, "memestimate: hint: ")
			if want != "" {
				want = command + " " + want + "\n"
			}
			if hint != want {
				t.Errorf("%s of %v: hint %q, want %q: %s", command, tt.in, hint, want, stderr)
			} else if hint != "" {
				if _, stderr, code := try(t, strings.Fields(hint)[1:]...); code != exitOK {
					t.Errorf("%q: code %d, %s", hint, code, stderr)
				}
			}
		}
	}
}

// A file may have thousands of open dimensions. The hint says what they are called, how many there are, and what lists
// them.
func TestHintOfManyDimensions(t *testing.T) {
	var in []onnxtest.Value
	for i := range 3000 {
		in = append(in, onnxtest.Float(fmt.Sprint("x", i), fmt.Sprint("a", i), fmt.Sprint("a", i+1), 3))
	}
	file := filepath.Join(t.TempDir(), "m.onnx")
	write(t, file, string(relus(in...)))
	_, stderr, code := try(t, file)
	_, hint, _ := strings.Cut(stderr, "memestimate: hint: ")
	for _, want := range []string{" --batch 8 --dim a1=128 --dim a2=128 ",
		" --dim a20=128, and so for 2,980 more\n"} {
		if code != exitUsage || !strings.Contains(hint, want) {
			t.Errorf("code %d, hint %q, want %q in it", code, hint, want)
		}
	}
}

// What else was typed is in the hint as well.
func TestHintsKeepFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "m.onnx", string(relus(onnxtest.Float("x", "N", "q"))))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"m.onnx", "--precision", "bf16", "--channels-last", "--budget", "24GiB", "--foreach=false", "--output",
			"a b"},
			`memestimate m.onnx --batch 8 --budget=24.00GiB --channels-last --foreach=false --output="a b" ` +
				`--precision=bf16 --dim q=128`},
		{[]string{"diff", "m.onnx", "m.onnx", "--precision", "bf16,fp32", "--base", "optimizer=sgd", "--base", "mode=infer",
			"--max-growth", "5%"},
			`memestimate diff m.onnx m.onnx --batch 8 --base=optimizer=sgd --base=mode=infer --max-growth="5%" ` +
				`--precision=bf16,fp32 --dim q=128`},
		{[]string{"run", "m.onnx", "--wait=90s", "--exclude", "0", "--exclude", "rtx", "--", "true"},
			`memestimate run m.onnx --batch 8 --exclude=0 --exclude=rtx --wait=1m30s --dim q=128 -- COMMAND`},
		{[]string{"run", "m.onnx", "--wait", "--", "true"}, `memestimate run m.onnx --batch 8 --wait --dim q=128 -- COMMAND`},
		{[]string{"table", "m.onnx", "--columns", "layer,saved"},
			`memestimate table m.onnx --batch 8 --columns=layer --columns=saved --dim q=128`},
	} {
		_, stderr, _ := try(t, tt.args...)
		if _, hint, _ := strings.Cut(stderr, "memestimate: hint: "); hint != tt.want+"\n" {
			t.Errorf("%q: hint %q, want %q", tt.args, hint, tt.want)
		}
	}
}
