package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// relus is a model of one Relu for each input.
func relus(in ...Value) []byte {
	g := Graph{In: in}
	for i, v := range in {
		out := fmt.Sprint("y", i)
		g.Nodes = append(g.Nodes, Op("Relu", v.Name, out))
		g.Out = append(g.Out, Value{Name: out})
	}
	return Model{Graph: g}.Bytes()
}

// The command that a hint proposes for open dimensions works, whatever a batch binds in the model: one is proposed for
// every model that any command line could estimate.
func TestHintsCloseEveryDimension(t *testing.T) {
	t.Chdir(t.TempDir())
	float := Float
	for _, tt := range []struct {
		name string
		in   []Value
		want string // of the main command
		fit  string // of fit
	}{
		{"m.onnx", []Value{float("x", "N", "seq", 3)}, "m.onnx --batch 8 --dim seq=128",
			"m.onnx --memory=2.00GiB --dim seq=128"},
		{"m.onnx", []Value{float("x", "seq", "batch", 64)}, "m.onnx --batch 8 --dim seq=128",
			"m.onnx --memory=2.00GiB --dim seq=128"},
		{"m.onnx", []Value{float("x", "s0", 3), float("y", "s1")}, "m.onnx --batch 8 --dim s1=128",
			"m.onnx --memory=2.00GiB --dim s1=128"},
		{"m.onnx", []Value{float("x", "a", "b"), float("y", "b", "c")}, "m.onnx --batch 8 --dim c=128",
			"m.onnx --memory=2.00GiB --dim c=128"},
		{"m.onnx", []Value{float("x", nil, 3)}, "m.onnx --batch 8", ""},
		{"m.onnx", []Value{float("x", "seq", nil)}, "m.onnx --batch 8 --input x=8x128", ""},
		{"m.onnx", []Value{float("x", "N", "past+1", nil), float("p", "N", "past")},
			"m.onnx --batch 8 --dim past=128 --input x=8x129x128", ""},
		{"m.onnx", []Value{float("x", "a", "b", "c"), float("y", "b", "a", nil)},
			"m.onnx --dim a=128 --dim b=128 --dim c=128 --input y=128x128x128", ""},
		{"m.onnx", []Value{float("x", 4, nil), float("y", 4, "q")}, "m.onnx --dim q=128 --input x=4x128", ""},
		{"-m.onnx", []Value{float("x", "N", "q")}, "./-m.onnx --batch 8 --dim q=128",
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
	var in []Value
	for i := range 3000 {
		in = append(in, Float(fmt.Sprint("x", i), fmt.Sprint("a", i), fmt.Sprint("a", i+1), 3))
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
	write(t, "m.onnx", string(relus(Float("x", "N", "q"))))
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

// The default export of a model has the batch of its example in constants: another one is refused by saying so.
func TestFixedBatchIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fixed.onnx")
	write(t, path, string(Model{Opset: 17, Graph: Graph{In: []Value{Float("x", 8, 4)}, Out: []Value{{Name: "y"}},
		Inits: []Tensor{{Name: "to", DType: onnxload.Int64, Dims: []int64{3}, Typed: []int64{8, 2, 2}}},
		Nodes: []Node{Op("Reshape", "x to", "y")}}}.Bytes()))
	_, errs, code := try(t, path, "--mode", "infer", "--input", "x=32x4")
	if code != exitInput || !strings.Contains(errs, "the export's batch is fixed at 8") ||
		!strings.Contains(errs, "dynamic_shapes") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, errs, code := try(t, path, "--mode", "infer"); code != exitOK {
		t.Errorf("as it is: exit code %d: %s", code, errs)
	}
}

// An export of batch 8 is answered for 32 as one of 32 is, where only its inputs and constant shapes have the batch;
// what could be the batch or something else is refused.
func TestFixedBatchIsRescaled(t *testing.T) {
	ints := func(name string, elements ...int64) Tensor {
		return Tensor{Name: name, DType: onnxload.Int64, Dims: []int64{int64(len(elements))}, Typed: elements}
	}
	floats := func(name string, dims ...int64) Tensor {
		return Tensor{Name: name, DType: onnxload.Float32, Dims: dims, Typed: make([]float32, dims[0]*dims[1])}
	}
	for name, c := range map[string]struct {
		inits   func(batch int64) []Tensor
		nodes   []Node
		refused string
	}{
		"kept": {func(n int64) []Tensor { return []Tensor{ints("to", n, 2, 2)} }, []Node{Op("Reshape", "x to", "y")}, ""},
		"rows of each sample": {func(n int64) []Tensor { return []Tensor{ints("rows", 2*n, 2), ints("to", n, -1)} },
			[]Node{Op("Reshape", "x rows", "a"), Op("Relu", "a", "b"), Op("Reshape", "b to", "y")}, ""},
		"expanded, and joined to the batch": {
			func(n int64) []Tensor { return []Tensor{ints("to", n, 3), floats("token", 1, 3)} },
			[]Node{Op("Expand", "token to", "a"), Op("Concat", "a x", "y", A("axis", 1))}, ""},
		"expanded by itself": {
			func(n int64) []Tensor { return []Tensor{ints("to", n, 3), floats("token", 1, 3), ints("sum", 1)} },
			[]Node{Op("Expand", "token to", "a"), Op("ReduceSum", "a", "b", A("keepdims", 0)), Op("Add", "x b", "y")},
			"node 0 (Expand) makes 8 of a tensor without a batch"},
		"a constant of the batch": {func(n int64) []Tensor { return []Tensor{floats("mask", n, 4)} },
			[]Node{Op("Add", "x mask", "y")}, "32 and 8 do not broadcast"},
		"another dimension in front": {func(n int64) []Tensor { return []Tensor{ints("to", 4, 2, n/2)} },
			[]Node{Op("Transpose", "x", "a"), Op("Reshape", "a to", "y")}, "has not as many elements"},
	} {
		export := func(batch int64) string {
			path := filepath.Join(t.TempDir(), "export.onnx")
			write(t, path, string(Model{Opset: 17, Graph: Graph{In: []Value{Float("x", batch, 4)}, Out: []Value{{Name: "y"}},
				Inits: c.inits(batch), Nodes: c.nodes}}.Bytes()))
			return path
		}
		out, errs, code := try(t, export(8), "--mode", "infer", "--batch", "32", "-f", "json")
		if c.refused != "" {
			if code != exitInput || !strings.Contains(out+errs, c.refused) || !strings.Contains(out+errs, "dynamic_shapes") {
				t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
			}
			continue
		}
		want, _, _ := try(t, export(32), "--mode", "infer", "-f", "json")
		var got, as estimate.Report
		if code != exitOK || json.Unmarshal([]byte(out), &got) != nil || json.Unmarshal([]byte(want), &as) != nil {
			t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
			continue
		}
		if got.Peak.Allocated != as.Peak.Allocated || got.Activations != as.Activations ||
			!strings.Contains(out, "the export's batch is fixed at 8") {
			t.Errorf("%s: %d allocated, %+v, wanted %d, %+v: %v", name, got.Peak.Allocated, got.Activations, as.Peak.Allocated,
				as.Activations, got.Notes)
		}
	}
}
