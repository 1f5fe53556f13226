package onnxload_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// hostileOut is where TestHostile leaves its files, for the tests of the Python package.
var hostileOut = flag.String("hostile.out", "", "the folder to write the files of the catalogue to")

func TestHostile(t *testing.T) {
	for i, c := range Hostile() {
		if *hostileOut != "" {
			must.OK(t, os.WriteFile(filepath.Join(*hostileOut, fmt.Sprint(i, ".onnx")), c.File, 0o600))
		}
		t.Run(c.Name, func(t *testing.T) {
			start := time.Now()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m, err := onnxload.Read(bytes.NewReader(c.File), int64(len(c.File)), onnxload.Options{Path: "m.onnx"})
			runtime.ReadMemStats(&after)
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("took %v", d)
			}
			_, serr := onnxload.ReadStream(bytes.NewReader(c.File), onnxload.Options{Path: "m.onnx"})
			if c.Want == "" {
				if err != nil || serr != nil {
					t.Fatalf("refused: %v, as a stream: %v", err, serr)
				}
				if m.Graph == nil {
					t.Fatal("no graph")
				}
				return
			}
			if err == nil {
				t.Fatalf("accepted, want error with %q", c.Want)
			}
			msg := err.Error()
			if !strings.Contains(msg, c.Want) {
				t.Errorf("error %q, want %q", msg, c.Want)
			}
			if !strings.HasPrefix(msg, "m.onnx: ") || strings.ContainsAny(msg, "\n\r\x1b") || len(msg) > 400 {
				t.Errorf("error is not one plain line beginning with the file: %q", msg)
			}
			if serr == nil {
				t.Error("accepted as a stream")
			}
			// A name or a node may be kept several times over; a claim must never be.
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20+32*uint64(len(c.File)) || len(c.File) < 1000 && n > 1<<20 {
				t.Errorf("%d bytes allocated for %d of input", n, len(c.File))
			}
		})
	}
}

func TestNotes(t *testing.T) {
	cases := []struct {
		name string
		m    Model
		want string
	}{
		{"future version", Model{IR: 15, Graph: Relu()}, "IR version 15 is newer than 14"},
		{"unknown fields", Model{Graph: Relu(), Extra: Str(Varint(nil, 99, 5), 98, "future")},
			"12 bytes are of fields that ONNX does not define"},
		{"order", GraphOf(Op("Neg", "p", "q"), Op("Neg", "x", "p")), "not in topological order"},
		{"location", WithInit(Tensor{Name: "w", DType: onnxload.Float32, Dims: []int64{1},
			External: []string{"location", "../w"}}), `location leaves the model folder: "../w"`},
	}
	for _, c := range cases {
		m := read(t, c.m)
		if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], c.want) {
			t.Errorf("%s: notes %q, want one with %q", c.name, m.Notes, c.want)
		}
	}
	var many []Tensor
	for i := range 5000 {
		many = append(many, Tensor{Name: strconv.Itoa(i), DType: onnxload.Float32, Dims: []int64{1},
			External: []string{"location", "../" + strconv.Itoa(i)}})
	}
	if m := read(t, WithInit(many...)); len(m.Notes) > 30 {
		t.Errorf("%d notes", len(m.Notes))
	}
}

// Work is in proportion to the file, however alike its names are and however much a call returns.
func TestManyAlike(t *testing.T) {
	const n = 50_000
	f := Function{Name: "F", Domain: "d", In: []string{"a"}, Opsets: []Import{Domain("", 21)}}
	one, all := f, f
	one.Out, one.Nodes = []string{"b"}, []Node{Op("Relu", "a", "b")}
	calls := Graph{In: []Value{Float("x", 1)}}
	for i := range n {
		out := "o" + strconv.Itoa(i)
		calls.Nodes = append(calls.Nodes, Op("F", "x", out).Named("f").Of("d"))
		all.Out = append(all.Out, out)
		all.Nodes = append(all.Nodes, Op("Relu", "a", out))
	}
	call := Graph{In: []Value{Float("x", 1)}, Nodes: []Node{Op("F", "x", strings.Join(all.Out, " ")).Of("d")}}
	for name, m := range map[string]Model{
		"calls of one name": {Graph: calls, Functions: []Function{one}},
		"results of a call": {Graph: call, Functions: []Function{all}},
	} {
		m.Opsets = []Import{Domain("d", 1)}
		b := m.Bytes()
		start := time.Now()
		got, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{})
		if err != nil || len(got.Graph.Nodes) != n {
			t.Errorf("%s: %v, want %d nodes", name, err, n)
			continue
		}
		if d := time.Since(start); d > 20*time.Second { // it takes a tenth of one
			t.Errorf("%s: %v", name, d)
		}
		if last := got.Graph.Nodes[n-1]; name == "calls of one name" && last.More.Scope != "f#"+strconv.Itoa(n) {
			t.Errorf("the last call is in %q, want %q", last.More.Scope, "f#"+strconv.Itoa(n))
		}
	}
}
