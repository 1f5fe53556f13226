package estimate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A sized is a thing of the code and how large it is: the fields of a struct, the lines of a file or a function.
type sized struct {
	name string
	size int
}

// largestOf returns the n largest, the largest first.
func largestOf(all []sized, n int) []sized {
	slices.SortFunc(all, func(a, b sized) int { return cmp.Or(b.size-a.size, strings.Compare(a.name, b.name)) })
	return all[:min(n, len(all))]
}

// A function of more lines than this has a sentence, whether it is among the ten largest or not.
const longFunction = 60

// TestLargestAreExplained holds docs/architecture.md to the ten largest structs, files and functions of estimate, and
// to all functions that are long: it has a sentence for each, which says why it is one thing. What it explains besides
// is nearly as large, so that a line more or less changes nothing, and what was taken apart goes from the list.
func TestLargestAreExplained(t *testing.T) {
	var structs, files, functions []sized
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		lines := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }
		at := strings.TrimSuffix(filepath.ToSlash(path), ".go")
		files = append(files, sized{at + ".go", set.File(f.Pos()).LineCount() - 1})
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				functions = append(functions, sized{inside(dir) + receiver(decl) + decl.Name.Name, lines(decl)})
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						if s, ok := spec.Type.(*ast.StructType); ok {
							structs = append(structs, sized{inside(dir) + spec.Name.Name, s.Fields.NumFields()})
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(b), "\n## The largest things\n")
	if !ok {
		t.Fatal("docs/architecture.md has no section of the largest things")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var want, large, got []string
	for _, all := range [][]sized{structs, files, functions} {
		for i, s := range largestOf(all, 15) {
			large = append(large, s.name)
			if i < 10 {
				want = append(want, s.name)
				t.Logf("%d %s", s.size, s.name)
			}
		}
	}
	for _, f := range functions {
		if f.size > longFunction {
			want = append(want, f.name)
		}
		if f.size > longFunction-5 {
			large = append(large, f.name)
		}
	}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		got = append(got, name)
		if sentence := strings.TrimSpace(cells[2]); len(sentence) < 20 {
			t.Errorf("%s: %q is no sentence that says why it is one thing", name, sentence)
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("docs/architecture.md does not say why %s is one thing", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(large, name) {
			t.Errorf("docs/architecture.md explains %s, which is not large", name)
		}
	}
}

// receiver returns "(T)." for a method of T or *T.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if index, ok := of.(*ast.IndexExpr); ok {
		of = index.X
	}
	return fmt.Sprintf("%s.", of)
}

// inside returns what names of a package begin with: "eager.", and "estimate." for the package of the test.
func inside(dir string) string {
	if dir == "." {
		dir = "estimate"
	}
	return dir + "."
}
