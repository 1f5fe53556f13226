package recover_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// An export has one name for a weight that an embedding and a layer share. Module._apply moves it, and
// Module.parameters lists it, where it meets it first.
func TestStateOrder(t *testing.T) {
	table := func(name string) onnx.Tensor { return onnx.Bare(name, onnxload.Float32, 16, 8) }
	square := func(name string) onnx.Tensor { return onnx.Bare(name, onnxload.Float32, 8, 8) }
	in := func(module string, n onnx.Node) onnx.Node {
		n.Name = module + ":" + n.Op
		return n
	}
	matmul := func(x, w, y string) onnx.Node { return onnx.Op("MatMul", x+" "+w, y) }
	head := func(x string) []onnx.Node {
		return []onnx.Node{in("head", onnx.Op("Transpose", "head.weight", "turned", onnx.A("perm", []int64{1, 0}))),
			in("head", matmul(x, "turned", "y"))}
	}
	for _, c := range []struct {
		name  string
		inits []onnx.Tensor
		nodes []onnx.Node
		want  []string
	}{
		{"tied", []onnx.Tensor{square("body.0.own.w"), square("body.0.norm.w"), table("head.weight")},
			append([]onnx.Node{in("body.tokens", onnx.Op("Gather", "head.weight ids", "a")),
				in("body.0.norm", matmul("a", "body.0.norm.w", "b")), in("body.0.own", matmul("b", "body.0.own.w", "c"))},
				head("c")...),
			[]string{"head.weight", "body.0.own.w", "body.0.norm.w"}},
		{"its own", []onnx.Tensor{square("body.w"), table("tokens.weight")},
			[]onnx.Node{in("tokens", onnx.Op("Gather", "tokens.weight ids", "a")), in("body", matmul("a", "body.w", "y"))},
			[]string{"body.w", "tokens.weight"}},
		{"read as a matrix first", []onnx.Tensor{square("body.w"), table("head.weight")},
			append([]onnx.Node{in("body", onnx.Op("Gather", "head.weight ids", "a")),
				in("body", matmul("a", "body.w", "b"))}, head("b")...),
			[]string{"body.w", "head.weight"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := recovertest.Recovered(onnx.Graph{Inits: c.inits, Nodes: c.nodes,
				In: []onnx.Value{onnx.Val("ids", onnxload.Int64, 2, 4)}, Out: []onnx.Value{{Name: "y"}}})
			must.OK(t, err)
			names := func(ids []program.ValueID) (list []string) {
				for _, v := range ids {
					list = append(list, p.Values[v].Name)
				}
				return list
			}
			if got := names(p.State); !slices.Equal(got, c.want) {
				t.Errorf("moved %v, want %v", got, c.want)
			}
			if got := names(p.Params); !slices.Equal(got, c.want) {
				t.Errorf("parameters %v, want %v", got, c.want)
			}
		})
	}
}

// A row names the inputs that ONNX gives its operator, in any of its versions. testdata/onnx-inputs.txt has them, as
// scripts/onnx_inputs.py wrote them with ONNX 1.23.2: ! for an input that every node has, ? for one that may be left
// out, + and * for any number of them from there on.
func TestRowsNameONNXInputs(t *testing.T) {
	data := must.Read(t, "testdata/onnx-inputs.txt")
	seen := 0
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		f := recover.Facts("", words[0])
		if f == nil {
			continue
		}
		seen++
		least, most, required := 0, len(words)-1, uint32(0)
		for slot, sign := range words[1:] {
			if sign == "!" || sign == "+" {
				least, required = slot+1, required|1<<slot
			}
			if sign == "+" || sign == "*" {
				most = math.MaxInt
			}
		}
		if f.Least != least || f.Most != most || f.Required != required {
			t.Errorf("%s: %d to %d inputs of which %b are required; ONNX has %d to %d, and requires %b", words[0], f.Least,
				f.Most, f.Required, least, most, required)
		}
	}
	if seen < 150 {
		t.Errorf("only %d operators of ONNX have a row", seen)
	}
}
