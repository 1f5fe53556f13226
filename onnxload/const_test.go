package onnxload_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// tensorModel is a graph of initializers alone.
func tensorModel(ts ...Tensor) Model {
	g := Graph{Inits: ts}
	for i := range g.Inits {
		if g.Inits[i].Name == "" {
			g.Inits[i].Name = string(rune('a' + i))
		}
	}
	return Model{Graph: g}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestInts(t *testing.T) {
	dt := func(d onnxload.DType, dims []int64, raw ...byte) Tensor {
		return Tensor{DType: d, Dims: dims, Raw: raw}
	}
	typed := func(d onnxload.DType, n int64, v any) Tensor { return Tensor{DType: d, Dims: []int64{n}, Typed: v} }
	cases := []struct {
		name string
		t    Tensor
		want []int64
	}{
		{"int64 raw", Int64s("", 1, -2, 1<<62), []int64{1, -2, 1 << 62}},
		{"scalar", Int64s("", 5).Scalar(), []int64{5}},
		{"int64 typed", typed(onnxload.Int64, 3, []int64{1, -2, 1 << 62}), []int64{1, -2, 1 << 62}},
		{"int32 raw", dt(onnxload.Int32, []int64{2}, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff), []int64{1, -1}},
		{"int32 typed", typed(onnxload.Int32, 2, []int32{7, -7}), []int64{7, -7}},
		{"uint32 typed", typed(onnxload.Uint32, 2, []uint64{1 << 31, 1}), []int64{1 << 31, 1}},
		{"uint64 typed", typed(onnxload.Uint64, 1, []uint64{1 << 63}), []int64{math.MinInt64}},
		{"uint32 raw", dt(onnxload.Uint32, []int64{1}, 0, 0, 0, 0x80), []int64{1 << 31}},
		{"int16", dt(onnxload.Int16, []int64{1}, 0xfe, 0xff), []int64{-2}},
		{"uint16", dt(onnxload.Uint16, []int64{1}, 0xfe, 0xff), []int64{0xfffe}},
		{"int8", dt(onnxload.Int8, []int64{2}, 0x80, 1), []int64{-128, 1}},
		{"int8 typed", typed(onnxload.Int8, 2, []int32{-128, 255}), []int64{-128, -1}},
		{"uint8", dt(onnxload.Uint8, []int64{1}, 0x80), []int64{128}},
		{"bool", dt(onnxload.Bool, []int64{3}, 0, 1, 2), []int64{0, 1, 1}},
		{"bool typed", typed(onnxload.Bool, 2, []int32{0, 1}), []int64{0, 1}},
		{"no elements", Int64s(""), []int64{}},
		{"no elements, no data", Bare("", onnxload.Int64, 0, 7), []int64{}},
		{"long", Int64s("", slices.Repeat([]int64{1, 2, 3}, 1000)...), slices.Repeat([]int64{1, 2, 3}, 1000)},
	}
	for _, c := range cases {
		forms := []Tensor{c.t}
		if c.t.Typed != nil {
			c.t.Unpacked = true
			forms = append(forms, c.t)
		}
		for _, f := range forms {
			m := read(t, tensorModel(f))
			x := m.Values[m.Graph.Inits[0]].Init
			got, err := m.Ints(x)
			if err != nil || !slices.Equal(got, c.want) || got == nil {
				t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
			}
			if _, err := m.Floats(x); err == nil {
				t.Errorf("%s: Floats of integers gives no error", c.name)
			}
		}
	}
}

func TestFloats(t *testing.T) {
	dt := func(d onnxload.DType, raw ...byte) Tensor {
		return Tensor{DType: d, Dims: []int64{int64(len(raw)) * 8 / d.Bits()}, Raw: raw}
	}
	inf, nan := math.Inf(1), math.NaN()
	cases := []struct {
		name string
		t    Tensor
		want []float64
	}{
		{"float32", Float32s("", 1.5, -2), []float64{1.5, -2}},
		{"float32 typed", Tensor{DType: onnxload.Float32, Dims: []int64{2}, Typed: []float32{1.5, -2}}, []float64{1.5, -2}},
		{"float64", dt(onnxload.Float64, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f), []float64{1.5}},
		{"float64 typed", Tensor{DType: onnxload.Float64, Dims: []int64{2}, Typed: []float64{1.5, -2}}, []float64{1.5, -2}},
		{"float16", dt(onnxload.Float16, 0, 0x3e, 0, 0xc0, 0xff, 0x7b, 1, 0, 0, 0x7c, 0, 0xfc, 1, 0x7c),
			[]float64{1.5, -2, 65504, math.Ldexp(1, -24), inf, -inf, nan}},
		{"float16 typed", Tensor{DType: onnxload.Float16, Dims: []int64{2}, Typed: []int32{0x3e00, 0xc000}},
			[]float64{1.5, -2}},
		{"bfloat16", dt(onnxload.BFloat16, 0xc0, 0x3f, 0, 0xc0, 0x80, 0x7f), []float64{1.5, -2, inf}},
	}
	for _, c := range cases {
		m := read(t, tensorModel(c.t))
		got, err := m.Floats(m.Values[m.Graph.Inits[0]].Init)
		if err != nil || !slices.EqualFunc(got, c.want, same) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

// What decides no shape is not read.
func TestNotRead(t *testing.T) {
	m := read(t, Model{Graph: Graph{Sparse: []Sparse{SparseOf(Float32s("s", 5, 6), Int64s("", 1, 5), 2, 3)},
		Inits: []Tensor{{Name: "n", DType: onnxload.Int4, Dims: []int64{3}, Raw: []byte{0x8f, 7}},
			{Name: "f", DType: onnxload.Float8E5M2, Dims: []int64{1}, Raw: []byte{1}}}}})
	for _, id := range m.Graph.Inits {
		x := m.Values[id].Init
		if v, err := m.Ints(x); err == nil || x.HasInts() {
			t.Errorf("%s: integers %v", x.Name, v)
		}
		if v, err := m.Floats(x); err == nil || x.HasFloats() {
			t.Errorf("%s: floating-point numbers %v", x.Name, v)
		}
	}
	if len(m.Graph.Inits) != 3 {
		t.Errorf("%d initializers", len(m.Graph.Inits))
	}
}

func TestNoData(t *testing.T) {
	big := Zeros("big", onnxload.Float32, 20_000)
	m := read(t, tensorModel(Bare("stripped", onnxload.Float32, 4),
		Tensor{Name: "empty", DType: onnxload.Int64, Dims: []int64{2}, HasRaw: true}, big,
		Tensor{Name: "ext", DType: onnxload.Int64, Dims: []int64{1}, External: []string{"location", "x.bin"}}))
	for i, want := range []error{onnxload.ErrNoData, onnxload.ErrNoData, onnxload.ErrTooLarge, onnxload.ErrNoData} {
		x := m.Values[i+1].Init
		var err error
		if x.DType == onnxload.Int64 {
			_, err = m.Ints(x)
		} else {
			_, err = m.Floats(x)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", x.Name, err, want)
		}
	}
	b := tensorModel(big).Bytes()
	for _, limit := range []int64{80_000, 1 << 40} {
		m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{Limits: onnxload.Limits{Const: limit}})
		must.OK(t, err)
		if f, err := m.Floats(m.Values[1].Init); err != nil || len(f) != 20_000 {
			t.Errorf("limit %d: %d elements, %v", limit, len(f), err)
		}
	}
}

func TestSizes(t *testing.T) {
	cases := []struct {
		t     onnxload.Tensor
		elems int64
		bytes int64
		err   bool
	}{
		{onnxload.Tensor{DType: onnxload.Float32}, 1, 4, false},
		{onnxload.Tensor{DType: onnxload.Int4, Dims: []int64{3}}, 3, 2, false},
		{onnxload.Tensor{DType: onnxload.Int2, Dims: []int64{5}}, 5, 2, false},
		{onnxload.Tensor{DType: onnxload.Float4E2M1, Dims: []int64{1}}, 1, 1, false},
		{onnxload.Tensor{DType: onnxload.Complex128, Dims: []int64{2, 2}}, 4, 64, false},
		{onnxload.Tensor{DType: onnxload.String, Dims: []int64{7}}, 7, 0, false},
		{onnxload.Tensor{DType: onnxload.Float32, Dims: []int64{0, 1 << 62, 1 << 62}}, 0, 0, false},
		{onnxload.Tensor{DType: onnxload.Float32, Dims: []int64{1 << 62, 1 << 62, 0}}, 0, 0, false},
		{onnxload.Tensor{DType: onnxload.Int8, Dims: []int64{1<<63 - 1}}, 1<<63 - 1, 1<<63 - 1, false},
		{onnxload.Tensor{DType: onnxload.Float32, Dims: []int64{1 << 62}}, 1 << 62, 0, true},
		{onnxload.Tensor{DType: onnxload.Float32, Dims: []int64{1 << 32, 1 << 31}}, 0, 0, true},
		{onnxload.Tensor{DType: onnxload.Float32, Dims: []int64{-1, 0}}, 0, 0, true},
	}
	for _, c := range cases {
		n, err := c.t.Bytes()
		if c.err != (err != nil) || err == nil && n != c.bytes {
			t.Errorf("%v %v: %d bytes, %v, want %d", c.t.DType, c.t.Dims, n, err, c.bytes)
		}
		if n, err := c.t.Elements(); err == nil && n != c.elems {
			t.Errorf("%v: %d elements, want %d", c.t.Dims, n, c.elems)
		}
	}
}

// External data is read from inside the model's folder, and from nowhere else.
func TestExternal(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "model")
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	must(os.MkdirAll(filepath.Join(sub, "data"), 0o755))
	data := append(make([]byte, 4), Int64s("", 7, 8).Raw...)
	must(os.WriteFile(filepath.Join(sub, "data", "w.bin"), data, 0o644))
	must(os.WriteFile(filepath.Join(dir, "secret"), data, 0o644))
	must(os.Symlink(filepath.Join("data", "w.bin"), filepath.Join(sub, "inside")))
	must(os.Symlink(filepath.Join(dir, "secret"), filepath.Join(sub, "outside")))
	must(os.Symlink(dir, filepath.Join(sub, "up")))
	ext := func(loc string, more ...string) Tensor {
		return Tensor{Name: "t", DType: onnxload.Int64, Dims: []int64{2},
			External: append([]string{"location", loc}, more...)}
	}
	cases := []struct {
		name string
		t    Tensor
		want string // of the error; "" when it must be read
		is   error
		note bool
	}{
		{"good", ext("data/w.bin", "offset", "4", "length", "16"), "", nil, false},
		{"good, no length", ext("data/w.bin", "offset", "4", "checksum", "abc", "__class__", "x"), "", nil, false},
		{"link inside", ext("inside", "offset", "4"), "", nil, false},
		{"dots inside", ext("data/../data/./w.bin", "offset", "4"), "", nil, false},
		{"absent", ext("nothing"), "not there", onnxload.ErrNoData, false},
		{"parent", ext("../secret"), "leaves the model folder", nil, true},
		{"parent inside", ext("data/../../secret"), "leaves the model folder", nil, true},
		{"absolute", ext("/etc/passwd"), "leaves the model folder", nil, true},
		{"drive", ext(`C:\x`), "leaves the model folder", nil, true},
		{"share", ext(`\\host\share`), "leaves the model folder", nil, true},
		{"NUL", ext("a\x00b"), "not a file name", nil, true},
		{"empty", ext(""), "without a location", nil, true},
		{"dot", ext("."), "without a location", nil, true},
		{"link outside", ext("outside"), "escapes", nil, false},
		{"folder link outside", ext("up/secret"), "escapes", nil, false},
		{"folder", ext("data"), "not a regular file", nil, false},
		{"offset beyond", ext("data/w.bin", "offset", "5"), "has 20 bytes", nil, false},
		{"offset far beyond", ext("data/w.bin", "offset", "9223372036854775807"), "has 20 bytes", nil, false},
		{"negative offset", ext("data/w.bin", "offset", "-4"), "external data of", nil, true},
		{"not a number", ext("data/w.bin", "length", "abc"), "external data of", nil, true},
		{"length differs", ext("data/w.bin", "length", "8"), "want 16 bytes", nil, true},
	}
	for _, c := range cases {
		path := filepath.Join(sub, "m.onnx")
		must(os.WriteFile(path, tensorModel(c.t).Bytes(), 0o644))
		m, err := onnxload.Open(path)
		if err != nil {
			t.Errorf("%s: %v: external data must not keep a model from loading", c.name, err)
			continue
		}
		got, err := m.Ints(m.Values[1].Init)
		switch {
		case c.want == "" && (err != nil || !slices.Equal(got, []int64{7, 8})):
			t.Errorf("%s: %v, %v", c.name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		case c.is != nil && !errors.Is(err, c.is):
			t.Errorf("%s: error %v is not %v", c.name, err, c.is)
		}
		if c.note != (len(m.Notes) > 0) {
			t.Errorf("%s: notes %q", c.name, m.Notes)
		}
		must(m.Close())
	}
}
