package shape

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// tryInfer infers m and turns a panic into an error that says where it came from.
func tryInfer(m *onnxload.Model, opt Options) (r *Result, panicked string, err error) {
	defer func() {
		if p := recover(); p != nil {
			frames := strings.SplitAfterN(string(debug.Stack()), "panic(", 2)
			panicked = fmt.Sprintf("%v: %s", p, frames[len(frames)-1])
		}
	}()
	r, err = Infer(m, opt)
	return r, "", err
}

// FuzzInfer: whatever loads is inferred or refused, without a panic and in time.
func FuzzInfer(f *testing.F) {
	tests, err := nodeTests()
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(tests); i += 8 {
		f.Add(tests[i].data, int64(i%3))
	}
	f.Fuzz(func(t *testing.T, data []byte, batch int64) {
		m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{})
		if err != nil {
			return
		}
		start := time.Now()
		r, err := Infer(m, Options{Batch: batch})
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%d bytes took %v", len(data), d)
		}
		if err == nil {
			for _, wrong := range checkResult(r) {
				t.Error(wrong)
			}
		}
	})
}

// checkResult looks for what no result may contain.
func checkResult(r *Result) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for i := range r.f.types {
		typ := r.Type(onnxload.ValueID(i))
		if err := checkType(typ); err != nil {
			add("value %d: %v", i, err)
		}
		v := r.f.consts[i]
		if v != nil && v.pending != nil {
			v = r.f.constant(onnxload.ValueID(i))
		}
		if v == nil || v == unreadable || v.stored != nil {
			continue
		}
		n := int64(1)
		for _, d := range v.Shape {
			n *= d
		}
		if int64(v.Len()) != n {
			add("value %d has %d elements, its shape is %v", i, v.Len(), v.Shape)
		}
		if typ.Kind == onnxload.TensorType && (!sameType(typ, Tensor(v.Elem, OfInts(v.Shape...)))) {
			add("value %d is %v, its value %v%v", i, typ, v.Elem, v.Shape)
		}
		if (v.Elem.IsFloat() != (v.Floats != nil)) || v.Ints != nil && v.Floats != nil {
			add("value %d of %v has the wrong kind of elements", i, v.Elem)
		}
	}
	return wrong
}

// TestHostileGraphs changes one or two things in ONNX's operator tests, as broken exporters
// and bored people do, and infers what comes out.
func TestHostileGraphs(t *testing.T) {
	tests, err := nodeTests()
	must.OK(t, err)
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	refused, total := 0, 0
	seen := map[string]bool{} // where panics came from
	for i, test := range tests {
		for round := range rounds {
			m, err := onnxload.Read(bytes.NewReader(test.data), int64(len(test.data)), onnxload.Options{})
			must.OK(t, err)
			rng := rand.New(rand.NewPCG(uint64(i), uint64(round)))
			what := ""
			for range 1 + round%2 {
				what += mutateModel(rng, m) + "; "
			}
			start := time.Now()
			r, panicked, err := tryInfer(m, Options{Batch: int64(round % 3)})
			if panicked != "" {
				if at := strings.Join(strings.SplitN(panicked, "\n", 7)[3:6], ""); !seen[at] {
					seen[at] = true
					t.Errorf("%s, round %d: %s\n%s", test.name, round, what, panicked)
				}
				continue
			}
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("%s, round %d: %s took %v", test.name, round, what, d)
			}
			total++
			if err != nil {
				refused++
				continue
			}
			for _, wrong := range checkResult(r) {
				t.Errorf("%s, round %d: %s%s", test.name, round, what, wrong)
			}
		}
	}
	t.Logf("%d of %d changed models refused", refused, total)
}

var hostileInts = []int64{0, -1, 1, 2, -2, 7, 64, 1 << 31, 1 << 40, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1,
	-1 << 40}

// declared returns an input of m and its type, which no other value shares then.
func declared(m *onnxload.Model, rng *rand.Rand) (*onnxload.Value, *onnxload.Type) {
	v := &m.Values[m.Graph.Inputs[rng.IntN(len(m.Graph.Inputs))]]
	t := v.Type()
	v.Declared = &t
	return v, v.Declared
}

// mutateModel changes one thing in m and says what.
func mutateModel(rng *rand.Rand, m *onnxload.Model) string {
	hostile := func() int64 { return hostileInts[rng.IntN(len(hostileInts))] }
	g := m.Graph
	switch kind := rng.IntN(10); {
	case kind < 2 && len(g.Inputs) > 0: // a dimension of an input
		v, t := declared(m, rng)
		switch dims := t.Dims; {
		case len(dims) == 0 || rng.IntN(4) == 0:
			t.Dims = append(slices.Clone(dims), onnxload.Dim{Known: true, Size: hostile()})
			return fmt.Sprintf("input %s of rank %d", v.Name, len(t.Dims))
		case rng.IntN(3) == 0:
			t.Dims = append([]onnxload.Dim(nil), dims[1:]...)
			return fmt.Sprintf("input %s of rank %d", v.Name, len(t.Dims))
		default:
			t.Dims = slices.Clone(dims)
			k := rng.IntN(len(dims))
			t.Dims[k] = [...]onnxload.Dim{{}, {Param: "n"}, {Param: "2*n - 7"}, {Known: true, Size: hostile()}}[rng.IntN(4)]
			return fmt.Sprintf("input %s with %v", v.Name, t.Dims)
		}
	case kind == 2 && len(g.Inputs) > 0: // its type
		v, t := declared(m, rng)
		switch rng.IntN(4) {
		case 0:
			t.Elem = onnxload.DType(rng.IntN(26))
		case 1:
			t.HasRank, t.Dims = false, nil
		case 2:
			*t = onnxload.Type{}
		default:
			of := *t
			*t = onnxload.Type{Kind: onnxload.SequenceType, Of: &of}
		}
		return fmt.Sprintf("input %s is %v", v.Name, *t)
	case kind == 3 && len(g.Inits) > 0: // the shape of a constant
		init := m.Values[g.Inits[rng.IntN(len(g.Inits))]].Init
		init.Dims = [][]int64{{}, {0}, {1}, {2, 2}, {1 << 40}, {3}}[rng.IntN(6)]
		return fmt.Sprintf("constant %s of %v", init.Name, init.Dims)
	}
	if len(g.Nodes) == 0 {
		return "nothing"
	}
	n := &g.Nodes[rng.IntN(len(g.Nodes))]
	if rng.IntN(3) == 0 {
		for i := range n.Attrs { // a body, when there is one
			if gs := n.Attrs[i].Graphs; len(gs) == 1 && len(gs[0].Nodes) > 0 {
				n = &gs[0].Nodes[rng.IntN(len(gs[0].Nodes))]
				break
			}
		}
	}
	switch kind := rng.IntN(8); {
	case kind < 4 && len(n.Attrs) > 0:
		a := &n.Attrs[rng.IntN(len(n.Attrs))]
		switch k := rng.IntN(6); {
		case k == 0:
			n.Attrs = slices.Delete(slices.Clone(n.Attrs), 0, 1)
			return n.Op + " lost an attribute"
		case k == 1:
			*a = onnxload.Attr{Name: a.Name, Type: onnxload.AttrType(rng.IntN(15))}
			return fmt.Sprintf("%s: %s is empty of type %d", n.Op, a.Name, a.Type)
		case len(a.Ints) > 0 && k < 5:
			a.Ints = slices.Clone(a.Ints)
			a.Ints[rng.IntN(len(a.Ints))] = hostile()
		case len(a.Ints) > 0:
			a.Ints = a.Ints[1:]
		case a.Str != "":
			a.Str = []string{"", "SAME_UPPER", "VALID", "NOTSET", "i,j->", "...i,...j->", "->->", ",,", "xyz"}[rng.IntN(9)]
		default:
			a.Int = hostile()
			a.Float = float32(hostile())
		}
		return fmt.Sprintf("%s: %s is %d %q %v %v", n.Op, a.Name, a.Int, a.Str, a.Ints, a.Float)
	case kind == 4 && len(n.In) > 0:
		n.In = slices.Clone(n.In)
		k := rng.IntN(len(n.In))
		n.In[k] = onnxload.NoValue
		return fmt.Sprintf("%s without input %d", n.Op, k)
	case kind == 5 && len(n.In) > 0:
		n.In = n.In[:rng.IntN(len(n.In))]
		return fmt.Sprintf("%s with %d inputs", n.Op, len(n.In))
	case kind == 6 && len(n.In) > 1:
		n.In = slices.Clone(n.In)
		slices.Reverse(n.In)
		return n.Op + " with its inputs turned round"
	default:
		n.Version = []int64{0, 1, 5, 7, 9, 10, 11, 12, 13, 14, 18, 99}[rng.IntN(12)]
		return fmt.Sprintf("%s of version %d", n.Op, n.Version)
	}
}
