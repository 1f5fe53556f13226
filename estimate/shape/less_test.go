package shape

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// TestLessOfLines takes away what the lines of testdata/ops say of an input: its rank, or its value. Inference then
// says less, or the same, but nothing else and no error.
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
	typ, _, hasValue := strings.Cut(strings.ReplaceAll(text, "<=", "≤"), "=")
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
