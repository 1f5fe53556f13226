package shape

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// exports calls f with every built-in model in every form.
func exports(t *testing.T, f func(t *testing.T, name string, m *onnxload.Model)) {
	for _, base := range models.Names() {
		info, err := models.Info(base)
		must.OK(t, err)
		for _, form := range info.Forms {
			name := base + ":" + form
			t.Run(name, func(t *testing.T) { f(t, name, openModel(t, name)) })
		}
	}
}

func openModel(t testing.TB, name string) *onnxload.Model {
	t.Helper()
	data, err := models.Open(name)
	must.OK(t, err)
	m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{Path: name})
	must.OK(t, err)
	return m
}

// With the batch given and nothing else, every value of every export has a type whose
// dimensions are all numbers, and nothing that the file says of it is needed.
func TestExportsWithBatchAlone(t *testing.T) {
	exports(t, func(t *testing.T, name string, m *onnxload.Model) {
		opt := Options{Batch: 3}
		if name == "conv_example:ts-train" {
			opt.Batch = 0 // its sizes are all fixed
		}
		r, err := Infer(undeclared(m), opt)
		must.OK(t, err)
		open := 0
		for i := 1; i < len(m.Values); i++ {
			typ := r.Type(onnxload.ValueID(i))
			if err := closed(typ); err != nil {
				if open++; open < 10 {
					t.Errorf("value %q: %v", m.Values[i].Name, err)
				}
			}
		}
		if open > 0 {
			t.Errorf("%d of %d values are not known", open, len(m.Values))
		}
		if len(r.Unknown) > 0 || len(r.Unbound) > 0 || r.Bounded > 0 {
			t.Errorf("unknown %v, unbound %v, bounded %v", r.Unknown, r.Unbound, r.Bounded)
		}
	})
}

// undeclared is the same model without the types that the file declares for values other than the inputs.
func undeclared(m *onnxload.Model) *onnxload.Model {
	out := *m
	out.Values = slices.Clone(m.Values)
	for i := range out.Values {
		if !slices.Contains(m.Graph.Inputs, onnxload.ValueID(i)) {
			out.Values[i].Declared = nil
		}
	}
	return &out
}

// closed reports what a type leaves open.
func closed(t Type) error {
	switch {
	case t.Kind == onnxload.SequenceType && t.Of != nil:
		return closed(*t.Of)
	case t.Kind != onnxload.TensorType || t.Elem == onnxload.Undefined:
		return fmt.Errorf("its type is %v", t)
	}
	if _, ok := t.Shape.Ints(); !ok {
		return fmt.Errorf("its type is %v", t)
	}
	return nil
}

// matches reports whether a type is what the file says, dimensions that the file
// leaves open aside.
func matches(got, want Type) bool {
	for i, d := range want.Shape.Dims {
		if d.Open() && i < len(got.Shape.Dims) {
			want.Shape.Dims[i] = got.Shape.Dims[i]
		}
	}
	return sameType(got, want)
}

// The dynamo exporter writes the shape of every value, as PyTorch's own tracing had it.
func TestExportsAgreeWithTheirValueInfo(t *testing.T) {
	compared := 0
	exports(t, func(t *testing.T, name string, m *onnxload.Model) {
		if !strings.Contains(name, ":dynamo") {
			return
		}
		for _, batch := range []int64{2, 3} {
			r, err := Infer(undeclared(m), Options{Batch: batch})
			must.OK(t, err)
			bad := 0
			for i := range m.Values {
				decl := m.Values[i].Type()
				if decl.Kind == onnxload.NoType || !decl.HasRank {
					continue
				}
				want := r.f.fromDeclared(decl)
				got := r.Type(onnxload.ValueID(i))
				compared++
				if !matches(got, want) {
					if bad++; bad < 10 {
						t.Errorf("batch %d: value %q is %v, the file has %v", batch, m.Values[i].Name, got, want)
					}
				}
			}
			if bad > 0 {
				t.Errorf("batch %d: %d values differ", batch, bad)
			}
		}
	})
	t.Logf("%d values compared", compared)
	if compared < 10000 {
		t.Errorf("only %d values have a declared shape to compare with", compared)
	}
}
