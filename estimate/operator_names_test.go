package estimate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/fromonnx"
	"github.com/memestimate/memestimate/estimate/shape"
)

// rowFiles hold the rows of ONNX's operators.
var rowFiles = []string{"fromonnx/nodes.go", "fromonnx/math.go", "fromonnx/rare.go", "fromonnx/lists.go",
	"fromonnx/contrib.go"}

// matchers are the files that know operators by what lies around them, and those that put the graph in order.
var matchers = []string{
	"fromonnx/patterns.go", "fromonnx/arith.go", "fromonnx/attention.go", "fromonnx/baddbmm.go", "fromonnx/bias.go",
	"fromonnx/chains.go", "fromonnx/fft.go", "fromonnx/fill.go", "fromonnx/index.go", "fromonnx/inplace.go",
	"fromonnx/layers.go", "fromonnx/linear_attention.go", "fromonnx/lost.go", "fromonnx/noise.go", "fromonnx/norm.go",
	"fromonnx/rnn.go", "fromonnx/roll.go", "fromonnx/shapes.go", "fromonnx/softmax.go", "fromonnx/split.go",
	"fromonnx/tied.go", "fromonnx/variance.go", "fromonnx/graph.go", "fromonnx/host.go", "fromonnx/loop.go",
	"module/analysis.go", "module/batchnorm.go", "module/filled.go", "module/layers.go", "module/lost.go",
	"module/tensors.go", "module/uses.go", "module/way.go",
}

// An operator is named by its rows, that of its shapes and that of its calls, and by files that know it by its
// neighbours: exporters' spellings of one call, guesses, and what folding left. Nothing else says anything of an
// operator by its name: no map and no switch, and no file that is not about what lies around a node.
func TestOperatorsAreNamedByTheirRows(t *testing.T) {
	files := literals(t)
	known, alone := 0, 0
	for _, op := range shape.Operators() {
		if op.Domain != "" || fromonnx.Facts("", op.Name) == nil {
			continue
		}
		known++
		neighbours := false
		for file, names := range files {
			switch {
			case !names[op.Name], strings.HasPrefix(file, "shape/"), slices.Contains(rowFiles, file):
			case strings.HasPrefix(file, "eager/"): // what autograd calls its functions: "Relu" is ReluBackward
			case slices.Contains(matchers, file):
				neighbours = true
			default:
				t.Errorf("%s names the operator %q, of which its row says all", file, op.Name)
			}
		}
		if !neighbours {
			alone++
		}
	}
	t.Logf("%d of %d operators are named by their rows alone", alone, known)
	if known < 150 || alone < known/2 {
		t.Errorf("only %d of %d operators are named by their rows alone", alone, known)
	}
	for _, file := range slices.Concat(rowFiles, matchers) {
		if files[file] == nil {
			t.Errorf("%s is not there", file)
		}
	}
}

// An operator of ATen is named by its rows, that of what it is given (package aten) and that of what it costs
// (package eager); by the rows of package workspace, which are for recorded calls; and by whoever makes a call of it
// or knows it by its neighbours.
func TestATenOperatorsAreNamedByTheirRows(t *testing.T) {
	files := literals(t)
	var ops []string
	for _, row := range rowsOf(t, "eager/ops_", 3) {
		ops = append(ops, literal(row.Elts[0]))
	}
	alone := 0
	for _, op := range ops {
		named := 0
		for file, names := range files {
			switch {
			case !names[op], strings.HasPrefix(file, "eager/ops_"), strings.HasPrefix(file, "shape/"),
				strings.HasPrefix(file, "workspace/"),
				file == "aten/schema.go", slices.Contains(rowFiles, file), file == "module/names.go": // what exporters call values
			case strings.HasPrefix(file, "fromonnx/"), strings.HasPrefix(file, "lifetime/"),
				strings.HasPrefix(file, "parallel/"), file == "eager/loss.go", file == "doubts_training.go":
				named++
			case strings.HasPrefix(file, "pysource/"), strings.HasPrefix(file, "timeline/"), strings.HasPrefix(file, "module/"),
				strings.HasPrefix(file, "eager/"):
				// words of Python, names of events and modules that are spelt alike
			default:
				t.Errorf("%s names the operator %q, of which its rows say all", file, op)
			}
		}
		if named == 0 {
			alone++
		}
	}
	t.Logf("%d of %d operators are named by their rows alone", alone, len(ops))
	if len(ops) < 120 || alone < len(ops)/3 {
		t.Errorf("only %d of %d operators are named by their rows alone", alone, len(ops))
	}
}

// An operator of ATen that is given one tensor, of any shape, and is nothing to those who read a program has one row:
// what it costs. A row of what it is given says more than that, and is of an operator that can be run.
func TestATenOperatorsHaveTheRowsTheyNeed(t *testing.T) {
	ops := map[string]bool{}
	for _, row := range rowsOf(t, "eager/ops_", 3) {
		ops[literal(row.Elts[0])] = true
	}
	given := rowsOf(t, "aten/schema.go", 5)
	for _, row := range given {
		name, ordinary := literal(row.Elts[0]), true
		for i, want := range []string{"1", "1", "0", "nil"} {
			switch e := row.Elts[i+1].(type) {
			case *ast.BasicLit:
				ordinary = ordinary && e.Value == want
			case *ast.Ident:
				ordinary = ordinary && e.Name == want
			default:
				ordinary = false
			}
		}
		if ordinary {
			t.Errorf("the row of %q in aten/schema.go says what is so without it", name)
		}
		if !ops[name] {
			t.Errorf("%q of aten/schema.go has no row in eager", name)
		}
	}
	t.Logf("%d of %d operators have one row", len(ops)-len(given), len(ops))
}

// What reads a program knows of each operator whose backward reads its result that it does, as eager's row has it.
func TestBackwardReadsItsResult(t *testing.T) {
	seen := 0
	for _, row := range rowsOf(t, "eager/ops_", 3) {
		rule, ok := row.Elts[2].(*ast.CallExpr)
		if !ok || len(rule.Args) < 2 {
			continue
		}
		if kept, ok := rule.Args[1].(*ast.Ident); ok && (kept.Name == "keepsResult" || kept.Name == "keepsWritten") {
			seen++
			if op := literal(row.Elts[0]); !aten.Of(op).Is(aten.KeepsResult) {
				t.Errorf("%q keeps its result for backward, and its row in aten/schema.go does not say so", op)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d operators keep their results", seen)
	}
}

// What several operators have alike is a column of their rows: no map has them as its keys.
func TestNoMapsOfOperators(t *testing.T) {
	known := map[string]bool{}
	for _, op := range shape.Operators() {
		known[op.Name] = known[op.Name] || op.Domain == "" && fromonnx.Facts("", op.Name) != nil
	}
	sources(t, func(path string, file *ast.File) {
		if strings.HasPrefix(path, "shape/") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if _, ok := lit.Type.(*ast.MapType); !ok {
				return true
			}
			var keys []string
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if name := literal(kv.Key); known[name] {
						keys = append(keys, name)
					}
				}
			}
			if len(keys) > 0 && !slices.Contains(keys, "HardSigmoid") { // the values of an attribute: see withActivation
				t.Errorf("%s: a map of operators: %s", path, strings.Join(keys, ", "))
			}
			return true
		})
	})
}

// rowsOf returns the rows of tables of operators: what has no type of its own, begins with a name and has so many
// columns, in the files whose paths begin so.
func rowsOf(t *testing.T, prefix string, columns int) (rows []*ast.CompositeLit) {
	t.Helper()
	sources(t, func(path string, file *ast.File) {
		if !strings.HasPrefix(path, prefix) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			row, ok := n.(*ast.CompositeLit)
			if ok && row.Type == nil && len(row.Elts) == columns && literal(row.Elts[0]) != "" {
				rows = append(rows, row)
			}
			return true
		})
	})
	if len(rows) < 100 {
		t.Fatalf("%d rows in %s", len(rows), prefix)
	}
	return rows
}

// literals returns the strings of every source file in this folder and below, tests left out.
func literals(t *testing.T) map[string]map[string]bool {
	t.Helper()
	files := map[string]map[string]bool{}
	sources(t, func(path string, file *ast.File) {
		files[path] = map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && literal(e) != "" {
				files[path][literal(e)] = true
			}
			return true
		})
	})
	return files
}

func sources(t *testing.T, f func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			f(filepath.ToSlash(path), file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// literal returns the string that an expression is, "" where it is none.
func literal(e ast.Expr) string {
	b, ok := e.(*ast.BasicLit)
	if !ok || b.Kind != token.STRING {
		return ""
	}
	s, _ := strconv.Unquote(b.Value)
	return s
}
