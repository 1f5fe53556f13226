package shape

import (
	"strings"
	"testing"
)

// What a rule knows wins; what it leaves open comes from the file.
func TestDeclaredTypes(t *testing.T) {
	for _, c := range []struct {
		name, rule, declared string // of one value
		want                 string
		contradicts          bool
	}{
		{"nothing inferred", "_", "4,3", "4,3", false},
		{"nothing declared", "4,3", "_", "4,3", false},
		{"agreement", "4,3", "4,3", "4,3", false},
		{"a rank against none", "*", "4,n", "4,?", false},
		{"a number for an unknown", "?,3", "4,3", "4,3", false},
		{"a symbol against a number", "4,3", "n,3", "4,3", false},
		{"two sizes", "4,3", "5,3", "4,3", true},
		{"two ranks", "4,3", "4,3,1", "4,3", true},
		{"two element types", "4,3", "int64:4,3", "4,3", true},
		{"two kinds", "4,3", "seq(4,3)", "4,3", true},
		{"an impossible size", "?,3", "-4,3", "?,3", false},
		{"the element of a sequence", "seq(?,3)", "seq(4,3)", "seq(4,3)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parseModel(t, "info y:"+strings.Replace(c.declared, "_", "*", 1))
			if c.declared == "_" {
				m.Values[1].Declared = nil
			}
			f := newInferer(m, Options{})
			rule := Type{}
			if c.rule != "_" {
				var err error
				if rule, _, err = parseType(c.rule); err != nil {
					t.Fatal(err)
				}
			}
			got := f.settle(1, rule)
			if text := strings.ReplaceAll(formatType(got), "float32:", ""); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			if (len(f.contradictions) > 0) != c.contradicts {
				t.Errorf("contradictions are %v", f.contradictions)
			}
		})
	}
}

func TestContradictionsAreReported(t *testing.T) {
	r := mustInfer(t, `
		in x:2,3
		info y:2,4
		y = Identity x
		out y`, Options{})
	if len(r.Contradictions) != 1 {
		t.Fatalf("%d contradictions, want 1", len(r.Contradictions))
	}
	got := r.Contradictions[0].String("y")
	if want := `value "y" is float32[2, 3], the file declares float32[2, 4]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantTypes(t, r, "y:2,3")
}

// A size that depends on data is bounded; a number in the file is better, a
// symbol is not.
func TestDeclaredSizeOfBoundedDimension(t *testing.T) {
	for declared, want := range map[string]string{"6,3": "6,3", "n,3": "<=10,3"} {
		m := parseModel(t, "info y:"+declared)
		f := newInferer(m, Options{})
		got := f.settle(1, Tensor(1, Of(bounded(N(10)), N(3))))
		if text := strings.TrimPrefix(formatType(got), "float32:"); text != want {
			t.Errorf("declared %s: got %s, want %s", declared, text, want)
		}
	}
}

// What a mask has set is no more than it has elements, and its sum as a number the same.
func TestCountOfMask(t *testing.T) {
	r := mustInfer(t, `
		in m:bool:12 x:int64:12
		c = Cast m to=7
		n = ReduceSum c
		y = ConstantOfShape n
		k = ReduceSum x
		z = ConstantOfShape k
		out y z`, Options{})
	wantTypes(t, r, "y:<=12 z:?")
}
