package estimate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/shape"
)

// rowFiles hold the rows of ONNX's operators.
var rowFiles = []string{"fromonnx/nodes.go", "fromonnx/math.go", "fromonnx/rare.go", "fromonnx/lists.go",
	"fromonnx/contrib.go"}

// matchers are the files that know operators by what lies around them, and those that put the graph in order.
var matchers = []string{
	"fromonnx/activations.go", "fromonnx/bags.go", "fromonnx/unrolled.go", "fromonnx/written_out.go",
	"fromonnx/patterns.go", "fromonnx/arith.go", "fromonnx/attention.go", "fromonnx/baddbmm.go",
	"fromonnx/bias.go", "fromonnx/chains.go", "fromonnx/copies.go",
	"fromonnx/dropout.go", "fromonnx/fft.go", "fromonnx/fill.go",
	"fromonnx/index.go", "fromonnx/inplace.go", "fromonnx/layers.go", "fromonnx/linear_attention.go",
	"fromonnx/lost.go", "fromonnx/narrow.go", "fromonnx/noise.go", "fromonnx/norm.go", "fromonnx/padding.go",
	"fromonnx/promoted.go",
	"fromonnx/rms_norm.go", "fromonnx/rnn.go", "fromonnx/roll.go",
	"fromonnx/shapes.go", "fromonnx/softmax.go", "fromonnx/split.go", "fromonnx/straight.go",
	"fromonnx/tied.go", "fromonnx/unpool.go",
	"fromonnx/variance.go", "fromonnx/graph.go", "fromonnx/host.go", "fromonnx/identity.go",
	"fromonnx/loop.go",
	"module/analysis.go", "module/batchnorm.go", "module/computed.go", "module/dropped.go",
	"module/filled.go", "module/layers.go", "module/lost.go",
	"module/tensors.go", "module/uses.go", "module/way.go",
}

// An operator is named by its rows, that of its shapes and that of its calls, and by files that know it by its
// neighbours: exporters' spellings of one call, guesses, and what folding left. Nothing else says anything of an
// operator by its name: no map and no switch, and no file that is not about what lies around a node.
func TestOperatorsAreNamedByTheirRows(t *testing.T) {
	files := literals(t)
	known, alone := 0, 0
	for _, op := range shape.Operators() {
		if op.Domain != "" || recover.Facts("", op.Name) == nil {
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

// An operator of ATen is named by its rows, that of what it is given (package aten) and that of what it costs (package
// eager); by the rows of package workspace, which are for recorded calls; by whoever makes a call of it; and by rules
// that know one operator by its neighbours or arguments, as attention is known by its softmax. What is so of several
// operators is a trait of their rows: no list has their names, so that a new operator needs its rows alone.
func TestATenOperatorsAreNamedByTheirRows(t *testing.T) {
	ops := map[string]bool{}
	for _, row := range rowsOf(t, "eager/ops_", 3) {
		ops[literal(row.Elts[0])] = true
	}
	made, known := map[string]bool{}, map[string]bool{}
	lists := map[string]bool{}
	sources(t, func(path string, file *ast.File) {
		switch dir, _, _ := strings.Cut(path, "/"); {
		case strings.HasPrefix(path, "eager/ops_"), path == "aten/schema.go", slices.Contains(rowFiles, path):
			return
		case dir == "shape", dir == "workspace", dir == "timeline", dir == "pysource", dir == "module":
			return // names of events, words of Python, and what exporters call values
		}
		m := mentions{ops: ops, made: made, known: known, seen: map[ast.Node]bool{}}
		m.walk(file)
		for _, list := range m.lists {
			lists[path+": "+list] = true
		}
	})
	rows := 0
	for op := range ops {
		if !made[op] && !known[op] {
			rows++
		}
	}
	t.Logf("of %d operators %d are named by their rows alone, %d by rules that make calls of them, and %d by rules that "+
		"know them by what lies around a call", len(ops), rows, len(made), len(known))
	if len(ops) < 150 || rows < rowsAlone || len(known) > knownByNeighbours {
		t.Errorf("%d operators are named by their rows alone and %d known to rules; there were %d and %d: what is so of an "+
			"operator is a trait of its row", rows, len(known), rowsAlone, knownByNeighbours)
	}
	for list := range lists {
		if compositions[list] == "" {
			t.Errorf("a list of operators, which is a trait of their rows: %s", list)
		}
	}
	for list := range compositions {
		if !lists[list] {
			t.Errorf("the list is no more: %s", list)
		}
	}
}

// How many operators of ATen nothing but rows names, at least, and how many rules know, at most.
const (
	rowsAlone         = 67
	knownByNeighbours = 30
)

// compositions are the lists of operators of ATen that are one piece of Python each, as it is exported: not what
// operators have alike.
var compositions = map[string]string{
	"eager/generate.go: cache repeat_kv":                              "the cache that package parallel gives attention",
	"eager/loss.go: add div mul tanh":                                 "logits that are dropped, capped or adapted",
	"fromonnx/attention.go: expand reshape":                           "repeat_kv of transformers",
	"fromonnx/patterns.go: sigmoid tanh":                              "x * sigmoid(x)",
	"parallel/generate.go: clone contiguous expand reshape unsqueeze": "repeat_kv of transformers",
}

// mentions are the operators that a file names.
type mentions struct {
	ops, made, known map[string]bool
	lists            []string // of several in one comparison, case or literal, each sorted
	seen             map[ast.Node]bool
}

func (m *mentions) walk(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if !m.seen[n] {
				m.knows(compared(n))
			}
			m.seen[n.X], m.seen[n.Y] = true, true
		case *ast.CaseClause:
			var names []ast.Expr
			for _, e := range n.List {
				names = append(append(names, e), compared(e)...)
			}
			m.knows(names)
		case *ast.CompositeLit:
			var keys []ast.Expr
			for _, e := range n.Elts {
				switch kv, ok := e.(*ast.KeyValueExpr); {
				case !ok:
					keys = append(keys, e)
				case fmt.Sprint(kv.Key) == "Op":
					m.makes(kv.Value)
				default:
					keys = append(keys, kv.Key)
				}
			}
			m.knows(keys)
		case *ast.AssignStmt:
			m.makes(n.Rhs...)
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr:
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "strings" {
					return true // of what exporters call values
				}
				m.makes(n.Args...)
			case *ast.Ident:
				if f.Name == "user" { // the one call of an operator that reads a value
					m.knows(n.Args)
				} else {
					m.makes(n.Args...)
				}
			}
		}
		return true
	})
}

func (m *mentions) makes(list ...ast.Expr) {
	for _, e := range list {
		if m.ops[literal(e)] {
			m.made[literal(e)] = true
		}
	}
}

func (m *mentions) knows(list []ast.Expr) {
	names := map[string]bool{}
	for _, e := range list {
		if op := literal(e); m.ops[op] {
			m.known[op], names[op] = true, true
		}
	}
	if len(names) > 1 {
		m.lists = append(m.lists, strings.Join(slices.Sorted(maps.Keys(names)), " "))
	}
}

// compared returns what an expression compares with: a == "x" || b == "y".
func compared(e ast.Expr) []ast.Expr {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return compared(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LOR, token.LAND:
			return append(compared(e.X), compared(e.Y)...)
		case token.EQL, token.NEQ:
			return []ast.Expr{e.Y}
		}
	}
	return nil
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
			if op := literal(row.Elts[0]); !program.Of(op).Is(program.KeepsResult) {
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
		known[op.Name] = known[op.Name] || op.Domain == "" && recover.Facts("", op.Name) != nil
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
