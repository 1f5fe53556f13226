package shape

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// TestLessIsNeverWrong takes what the operator tests say of their inputs away, one statement at a time: a rank, a
// size, a value. Inference then says less, or the same, but nothing else and no error.
func TestLessIsNeverWrong(t *testing.T) {
	tests, err := nodeTests()
	must.OK(t, err)
	variants, said, unsaid := 0, 0, 0
	for _, test := range tests {
		read := func() *onnxload.Model {
			m, err := onnxload.Read(bytes.NewReader(test.data), int64(len(test.data)), onnxload.Options{})
			must.OK(t, err)
			return m
		}
		m := read()
		if len(m.Graph.Nodes) > 100 {
			continue
		}
		if r, err := Infer(m, Options{}); err != nil || len(r.Unknown) > 0 { // of operators without a row nothing is said
			continue
		}
		try := func(what string, change func(m *onnxload.Model)) {
			less := read()
			change(less)
			variants++
			k, n, err := compareLess(less, test.outputs)
			if err != nil {
				t.Errorf("%s, %s: %v", test.name, what, err)
			}
			said, unsaid = said+k, unsaid+n
		}
		for _, id := range m.Graph.Inputs {
			name, typ := m.Values[id].Name, m.Values[id].Type()
			if typ.Kind != onnxload.TensorType || !typ.HasRank {
				continue
			}
			try("no rank of "+name, func(m *onnxload.Model) {
				m.Values[id].Declared = &onnxload.Type{Kind: typ.Kind, Elem: typ.Elem}
			})
			for i, d := range typ.Dims {
				if d.Known {
					try(fmt.Sprintf("a symbol for dimension %d of %s", i, name), func(m *onnxload.Model) {
						t := typ
						t.Dims = slices.Clone(typ.Dims)
						t.Dims[i] = onnxload.Dim{Param: fmt.Sprint("size", d.Size)}
						m.Values[id].Declared = &t
					})
				}
			}
		}
		for _, id := range m.Graph.Inits {
			x := m.Values[id].Init
			try("no value of "+m.Values[id].Name, func(m *onnxload.Model) {
				v := &m.Values[id]
				v.Init = nil
				v.Declared = &onnxload.Type{Kind: onnxload.TensorType, Elem: x.DType, HasRank: true}
				for _, d := range x.Dims {
					v.Declared.Dims = append(v.Declared.Dims, onnxload.Dim{Known: true, Size: d})
				}
				m.Graph.Inits = slices.DeleteFunc(m.Graph.Inits, func(i onnxload.ValueID) bool { return i == id })
				m.Graph.Inputs = append(m.Graph.Inputs, id)
			})
		}
	}
	t.Logf("%d variants: %d dimensions are said, %d are not", variants, said, unsaid)
	if variants < 10_000 || said < 5*unsaid {
		t.Errorf("%d variants, in which %d dimensions are said and %d are not: want more of both", variants, said, unsaid)
	}
}

// compareLess counts the dimensions of the outputs that inference knows and those that it does not.
func compareLess(m *onnxload.Model, outputs []trueOutput) (said, unsaid int, err error) {
	r, err := Infer(m, Options{})
	if err != nil {
		return 0, 0, err
	}
	for _, want := range outputs {
		i := slices.IndexFunc(m.Graph.Outputs, func(id onnxload.ValueID) bool { return m.Values[id].Name == want.name })
		got := r.Type(m.Graph.Outputs[i])
		if want.other {
			continue
		}
		if got.Elem != want.elem && got.Elem != onnxload.Undefined {
			return 0, 0, fmt.Errorf("output %q is %v, want %v", want.name, got, want.elem)
		}
		if !got.Shape.Ranked {
			unsaid += len(want.dims)
			continue
		}
		if len(got.Shape.Dims) != len(want.dims) {
			return 0, 0, fmt.Errorf("output %q is %v, want %v", want.name, got, want.dims)
		}
		for j, d := range got.Shape.Dims {
			if limit, ok := r.Limit(d); ok {
				if n, ok := bindSizes(limit).Int(); ok && n < want.dims[j] {
					return 0, 0, fmt.Errorf("dimension %d of output %q is at most %d, want %d", j, want.name, n, want.dims[j])
				}
				unsaid++
				continue
			}
			n, ok := bindSizes(d).Int()
			if !ok {
				unsaid++
				continue
			}
			said++
			if n != want.dims[j] {
				return 0, 0, fmt.Errorf("output %q is %v, want %v", want.name, got, want.dims)
			}
		}
	}
	return said, unsaid, nil
}

// bindSizes gives the symbols size2, size3 and so on their numbers.
func bindSizes(d Dim) Dim {
	return d.Bind(func(name string) (Dim, bool) {
		n, err := strconv.ParseInt(strings.TrimPrefix(name, "size"), 10, 64)
		return N(n), err == nil && strings.HasPrefix(name, "size")
	})
}

// TestLessOfLines does the same to the lines of testdata/ops, which have every operator: an input without a rank, one
// without its value, an input whose type is unknown altogether.
func TestLessOfLines(t *testing.T) {
	files, err := filepath.Glob("testdata/ops/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/ops has no files: %v", err)
	}
	variants := 0
	for _, file := range files {
		data := must.Read(t, file)
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			words, err := splitLine(line)
			if err != nil || len(words) < 3 || words[0][0] == '#' || words[1] == "see" || strings.Contains(line, "-> error") {
				continue
			}
			full, err := inferLine(words)
			if err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
				continue
			}
			for i, w := range words {
				if w == "->" {
					break
				}
				if i == 0 {
					continue
				}
				for _, less := range saysLess(w) {
					changed := slices.Clone(words)
					changed[i] = less
					variants++
					got, err := inferLine(changed)
					if err != nil {
						t.Errorf("%s: %s\n\t%v", file, strings.Join(changed, " "), err)
						continue
					}
					for j := range full {
						if err := compatible(got[j], full[j]); err != nil {
							t.Errorf("%s: %s\n\toutput %d: %v", file, strings.Join(changed, " "), j, err)
						}
					}
				}
			}
		}
	}
	t.Logf("%d variants", variants)
	if variants < 1000 {
		t.Errorf("%d variants, want many more", variants)
	}
}

// saysLess returns the words that say less of an input than w does; none where w is no tensor.
func saysLess(w string) (out []string) {
	name, text, ok := strings.Cut(w, ":")
	if !ok || strings.Contains(name, "=") || strings.Contains(text, "(") || text == "_" {
		return nil
	}
	typ, _, hasValue := strings.Cut(text, "=")
	elem, dims, ok := strings.Cut(typ, ":")
	if !ok {
		elem, dims = defaultElem(text), typ
	}
	if dims == "*" {
		return nil
	}
	if hasValue {
		out = append(out, name+":"+elem+":"+dims)
	}
	return append(out, name+":"+elem+":*")
}

// compatible reports what got says otherwise than want, which knows more.
func compatible(got, want Type) error {
	if got.Kind != want.Kind || got.Elem != want.Elem && got.Elem != onnxload.Undefined {
		return fmt.Errorf("%v, want %v", got, want)
	}
	if got.Of != nil && want.Of != nil {
		return compatible(*got.Of, *want.Of)
	}
	if !got.Shape.Ranked || !want.Shape.Ranked {
		return nil
	}
	if len(got.Shape.Dims) != len(want.Shape.Dims) {
		return fmt.Errorf("%v, want %v", got, want)
	}
	for i, d := range got.Shape.Dims {
		n, ok := d.Int()
		m, okWant := want.Shape.Dims[i].Int()
		if ok && okWant && n < m {
			return fmt.Errorf("%v, want %v", got, want)
		}
	}
	return nil
}
