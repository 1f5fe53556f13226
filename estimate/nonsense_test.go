package estimate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// nodesOfTests returns every node of ONNX's operator tests that has no body, once for each set of attributes,
// with the types of its inputs.
func nodesOfTests(t testing.TB) (nodes []onnxtest.Node, types [][]onnxtest.Type, opsets []int64) {
	t.Helper()
	err := onnxtest.Archives("shape/testdata/onnx-nodes*.tar.gz", func(name string, raw []byte) {
		m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{Path: name})
		if err != nil {
			return
		}
		known := map[onnxload.ValueID]onnxtest.Type{}
		for _, id := range m.Graph.Inputs {
			v := m.Values[id].Type()
			if v.Kind != onnxload.TensorType {
				continue
			}
			typ := onnxtest.Type{Kind: v.Kind, Elem: v.Elem, Dims: []any{}}
			for _, d := range v.Dims {
				typ.Dims = append(typ.Dims, max(d.Size, 0))
			}
			known[id] = typ
		}
	each:
		for i := range m.Graph.Nodes {
			n := &m.Graph.Nodes[i]
			out := onnxtest.Node{Op: n.Op, Domain: n.Domain}
			var ins []onnxtest.Type
			for k, id := range n.In {
				typ, ok := known[id]
				if !ok && id != onnxload.NoValue {
					continue each
				}
				out.In = append(out.In, fmt.Sprint("x", k))
				if id == onnxload.NoValue {
					out.In[k] = ""
				}
				ins = append(ins, typ)
			}
			for k := range n.Out {
				out.Out = append(out.Out, fmt.Sprint("y", k))
			}
			for _, a := range n.Attrs {
				switch a.Type {
				case onnxload.AttrInt:
					out.Attrs = append(out.Attrs, onnxtest.A(a.Name, a.Int))
				case onnxload.AttrFloat:
					out.Attrs = append(out.Attrs, onnxtest.A(a.Name, float32(a.Float)))
				case onnxload.AttrString:
					out.Attrs = append(out.Attrs, onnxtest.A(a.Name, a.Str))
				case onnxload.AttrInts:
					out.Attrs = append(out.Attrs, onnxtest.A(a.Name, a.Ints))
				default:
					continue each
				}
			}
			nodes, types, opsets = append(nodes, out), append(types, ins), append(opsets, m.Opsets[""])
		}
	})
	must.OK(t, err)
	return nodes, types, opsets
}

// nonsense writes a model of two such nodes, the second on the first's result, with some of their sizes, ranks,
// types, attributes and arguments changed at random.
func nonsense(rng *rand.Rand, nodes []onnxtest.Node, types [][]onnxtest.Type, opsets []int64) []byte {
	var g onnxtest.Graph
	k := rng.IntN(len(nodes))
	opset := opsets[k]
	for level := range 2 {
		if level == 1 {
			k = rng.IntN(len(nodes))
		}
		n := nodes[k]
		n.In, n.Out, n.Attrs = slices.Clone(n.In), slices.Clone(n.Out), slices.Clone(n.Attrs)
		for i := range n.In {
			if n.In[i] == "" {
				continue
			}
			n.In[i] = fmt.Sprint("v", level, "x", i)
			if level == 1 && i == 0 {
				n.In[i] = "v0y0"
				continue
			}
			if rng.IntN(20) == 0 {
				n.In[i] = ""
				continue
			}
			typ := types[k][i]
			typ.Dims = slices.Clone(typ.Dims)
			if rng.IntN(3) == 0 {
				odd := []int64{0, 1, 2, 3, 7, 1 << 33, 1 << 62}
				switch at := rng.IntN(len(typ.Dims) + 1); {
				case at < len(typ.Dims) && rng.IntN(3) > 0:
					typ.Dims[at] = odd[rng.IntN(len(odd))]
				case at < len(typ.Dims):
					typ.Dims = slices.Delete(typ.Dims, at, at+1)
				default:
					typ.Dims = append(typ.Dims, odd[rng.IntN(5)])
				}
			}
			size := int64(1)
			for _, d := range typ.Dims {
				size *= min(max(d.(int64), 0), 99)
			}
			switch {
			case typ.Elem == onnxload.Int64 && size < 9 && rng.IntN(4) > 0: // Reshape and the like read it
				t := onnxtest.Int64s(n.In[i], make([]int64, size)...)
				for j := range size {
					t.Raw[8*j] = byte(rng.IntN(4))
				}
				t.Dims = nil
				for _, d := range typ.Dims {
					t.Dims = append(t.Dims, d.(int64))
				}
				g.Inits = append(g.Inits, t)
			case rng.IntN(3) == 0 && typ.Elem == onnxload.Float32:
				t := onnxtest.Bare(n.In[i], typ.Elem)
				for _, d := range typ.Dims {
					t.Dims = append(t.Dims, d.(int64))
				}
				g.Inits = append(g.Inits, t)
			default:
				g.In = append(g.In, onnxtest.Typed(n.In[i], typ))
			}
		}
		for i := range n.Out {
			n.Out[i] = fmt.Sprint("v", level, "y", i)
			if rng.IntN(20) == 0 && i > 0 {
				n.Out[i] = ""
			}
			g.Out = append(g.Out, onnxtest.Value{Name: n.Out[i]})
		}
		for i, a := range n.Attrs {
			if rng.IntN(8) > 0 {
				continue
			}
			switch v := a.Value.(type) {
			case int64:
				n.Attrs[i].Value = int64(rng.IntN(6) - 2)
			case []int64:
				v = slices.Clone(v)
				if len(v) > 0 {
					v[rng.IntN(len(v))] = int64(rng.IntN(6) - 1)
				}
				n.Attrs[i].Value = v
			default:
				n.Attrs = slices.Delete(n.Attrs, i, i+1)
			}
			break
		}
		g.Nodes = append(g.Nodes, n)
	}
	g.Out = slices.DeleteFunc(g.Out, func(v onnxtest.Value) bool { return v.Name == "" })
	slices.Reverse(g.Out)
	return onnxtest.Model{Opset: opset, Graph: g}.Bytes()
}

// Nodes on arguments that they were not made for are run or refused, like any others.
func TestNonsenseRuns(t *testing.T) {
	nodes, types, opsets := nodesOfTests(t)
	runs, n := 0, 1000
	if testing.Short() {
		n = 300
	}
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		raw := nonsense(rng, nodes, types, opsets)
		runs += simulateAll(t, fmt.Sprintf("seed %d", seed), raw)
	}
	t.Logf("%d nodes, %d runs", len(nodes), runs)
	if runs < n {
		t.Errorf("%d models gave only %d runs", n, runs)
	}
}
