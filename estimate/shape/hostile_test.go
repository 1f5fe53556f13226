package shape

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
)

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
