package recover_test

import (
	"math"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// The fast path is nn.MultiheadAttention's, which takes queries, keys and values out of its projection by their index.
// A module that takes them as slices is a program's own.
func TestFastPathOfIndexesAlone(t *testing.T) {
	const n, l, e, heads = 4, 16, 64, 2 // heads of 32
	for _, own := range []bool{false, true} {
		g := onnx.Graph{In: []onnx.Value{onnx.Float("x", n, l, e)}, Out: []onnx.Value{{Name: "y"}},
			Inits: []onnx.Tensor{onnx.Bare("in.weight", onnxload.Float32, e, 3*e), onnx.Bare("in.bias", onnxload.Float32, 3*e),
				onnx.Bare("out.weight", onnxload.Float32, e, e), onnx.Bare("out.bias", onnxload.Float32, e),
				onnx.Int64s("heads", l, n, heads, e/heads), onnx.Int64s("flat", l, n, e), onnx.Int64s("last", 2),
				onnx.Int64s("apart", l, n, 3, e), onnx.Int64s("step", 1)}}
		add := func(nodes ...onnx.Node) { g.Nodes = append(g.Nodes, nodes...) }
		turned := func(from, to string, perm ...int64) { add(onnx.Op("Transpose", from, to, onnx.A("perm", perm))) }
		turned("x", "steps", 1, 0, 2)
		add(onnx.Op("MatMul", "steps in.weight", "product"), onnx.Op("Add", "in.bias product", "projected"),
			onnx.Op("Reshape", "projected apart", "parts"))
		turned("parts", "first", 2, 0, 1, 3)
		for i, name := range []string{"q", "k", "v"} {
			at, end := string('0'+rune(i)), int64(i+1)*e
			if end == 3*e {
				end = math.MaxInt64 // x[a:]
			}
			g.Inits = append(g.Inits, onnx.Tensor{Name: "at" + at, DType: onnxload.Int64, Typed: []int64{int64(i)}},
				onnx.Int64s("from"+at, int64(i)*e), onnx.Int64s("to"+at, end))
			if own {
				add(onnx.Op("Slice", "projected from"+at+" to"+at+" last step", name))
			} else {
				add(onnx.Op("Gather", "first at"+at, name, onnx.A("axis", int64(0))))
			}
			add(onnx.Op("Reshape", name+" heads", name+"h"))
			turned(name+"h", name+"t", 1, 2, 0, 3)
		}
		add(onnx.Op("Attention", "qt kt vt", "attended"))
		turned("attended", "joined", 2, 0, 1, 3)
		add(onnx.Op("Reshape", "joined flat", "f"), onnx.Op("MatMul", "f out.weight", "o"), onnx.Op("Add", "out.bias o", "s"))
		turned("s", "y", 1, 0, 2)
		p, err := recovertest.RecoveredAt(23, g, false)
		must.OK(t, err)
		calls := recovertest.CallsOf(p)
		if fast := strings.Contains(calls, "linear(x, in.weight"); fast == own {
			t.Errorf("a program's own: %v; runs on the fast path: %v\n%s", own, fast, calls)
		}
	}
}
