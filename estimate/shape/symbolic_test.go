package shape

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// TestSymbolsAgreeWithNumbers puts a symbol in the place of every size in the inputs of the
// lines of testdata/ops. What comes out, once the symbols have their numbers, is what
// the line says; a dimension that is unknown with symbols is no mistake.
func TestSymbolsAgreeWithNumbers(t *testing.T) {
	files, err := filepath.Glob("testdata/ops/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/ops has no files: %v", err)
	}
	known, unknown := 0, 0
	for _, file := range files {
		data := must.Read(t, file)
		for no, line := range strings.Split(string(data), "\n") {
			words, err := splitLine(strings.TrimSpace(line))
			if err != nil || len(words) < 3 || words[0][0] == '#' || words[1] == "see" || strings.Contains(line, "-> error") {
				continue
			}
			numbers, err := inferLine(words)
			if err != nil {
				t.Errorf("%s:%d: %s\n\t%v", file, no+1, line, err)
				continue
			}
			for i, w := range words {
				if w == "->" {
					break
				}
				words[i] = symbolic(w)
			}
			symbols, err := inferLine(words)
			if err != nil {
				t.Errorf("%s:%d: with symbols: %s\n\t%v", file, no+1, strings.Join(words, " "), err)
				continue
			}
			for i, want := range numbers {
				got := symbols[i]
				if len(got.Shape.Dims) != len(want.Shape.Dims) || got.Elem != want.Elem {
					if got.Shape.Ranked {
						t.Errorf("%s:%d: with symbols: %s\n\toutput %d is %v, without %v", file, no+1, strings.Join(words, " "), i,
							got.Shape, want.Shape)
					}
					continue
				}
				for j, d := range got.Shape.Dims {
					if d.Unnamed() || want.Shape.Dims[j].Unnamed() {
						unknown++
						continue
					}
					d = d.Bind(func(name string) (Dim, bool) {
						n, err := strconv.ParseInt(strings.TrimPrefix(name, "size"), 10, 64)
						return N(n), err == nil
					})
					_, isNumber := want.Shape.Dims[j].Int()
					if _, ok := d.Int(); isNumber && !ok { // 2 broadcasts with n to 2, but a symbol does not
						unknown++
						continue
					}
					known++
					if !d.Equal(want.Shape.Dims[j]) {
						t.Errorf("%s:%d: with symbols: %s\n\tdimension %d of output %d is %v, which comes to %v, not %v",
							file, no+1, strings.Join(words, " "), j, i, got.Shape.Dims[j], d, want.Shape.Dims[j])
					}
				}
			}
		}
	}
	t.Logf("%d dimensions agree, %d are unknown with symbols", known, unknown)
	if known < 10*unknown {
		t.Errorf("%d dimensions are known with symbols, %d are not: too few", known, unknown)
	}
}

// symbolic replaces the sizes above 1 in a word that is an input without a value.
func symbolic(word string) string {
	name, text, ok := strings.Cut(word, ":")
	if !ok || strings.Contains(text, "=") || strings.Contains(name, "=") || strings.Contains(text, "(") {
		return word
	}
	elem, dims, ok := strings.Cut(text, ":")
	if !ok {
		elem, dims = "", text
	}
	sizes := strings.Split(dims, ",")
	for i, s := range sizes {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 1 {
			sizes[i] = "size" + s
		}
	}
	dims = strings.Join(sizes, ",")
	if elem != "" {
		dims = elem + ":" + dims
	}
	return name + ":" + dims
}
