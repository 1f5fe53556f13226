//go:build builds

package estimate

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// TestAddingAnOperator follows docs/contributing.md in a copy of the module: the rows and the lines of tests that
// it shows for a made-up operator of ONNX and one of ATen are put where it says, and the tests of these tables pass.
// Without a line they fail.
func TestAddingAnOperator(t *testing.T) {
	shown := must.Read(t, "../docs/contributing.md")
	var rows []string // one line each
	for _, m := range regexp.MustCompile("(?m)^```(?:go|text)\n(.*)\n```$").FindAllStringSubmatch(string(shown), -1) {
		rows = append(rows, m[1])
	}
	const anotherKind = `{"squash", 1, 1, TakesNumbers | Nonlinearity, nil},` // of a call that takes something else
	if !slices.Contains(rows, anotherKind) || len(rows) != 6 {
		t.Fatalf("docs/contributing.md shows other rows: %q", rows)
	}
	rows = slices.DeleteFunc(rows, func(row string) bool { return row == anotherKind })
	to := t.TempDir()
	copyModule(t, "..", to)
	put := func(file, behind, row string) {
		t.Helper()
		path := filepath.Join(to, "estimate", file)
		data, err := os.ReadFile(path)
		before, after, ok := strings.Cut(string(data), behind)
		if err != nil || !ok {
			t.Fatalf("%s has no %q: %v", file, behind, err)
		}
		must.Write(t, path, []byte(before+behind+row+"\n"+after))
	}
	tests := func() (string, error) {
		cmd := exec.Command("go", "test", "./estimate/shape", "./estimate/torch", "-run", "^(TestLines|TestUnaryNodes)$")
		cmd.Dir = to
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	put("shape/activation.go", "var activationFamily = family{\"\", []op{\n", rows[0])
	put("recover/nodes.go", "var nodeRows = []nodeRow{\n", rows[2])
	put("torch/ops_pointwise.go", "var pointwiseOps = []op{\n", rows[3])
	out, err := tests()
	if err == nil || strings.Count(out, "Squash") != 2 {
		t.Errorf("rows without lines: %v, wanted a failure of each table\n%s", err, out)
	}
	put("shape/testdata/ops/activation.txt", "", rows[1])
	put("torch/testdata/unary.txt", "", rows[4])
	if out, err := tests(); err != nil {
		t.Errorf("rows with their lines: %v\n%s", err, out)
	}
}

// copyModule copies what the packages of shapes and of PyTorch's runs are built of, and the data of their tests.
func copyModule(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		top, rest, _ := strings.Cut(filepath.ToSlash(rel), "/")
		in := slices.Contains([]string{"estimate", "models", "onnxload", "simulate", "spelling", "test"}, top)
		if d.IsDir() {
			ours := strings.HasPrefix(rest, "shape") || strings.HasPrefix(rest, "torch")
			if rel != "." && !in || d.Name() == "testdata" && !ours {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if !in && rel != "go.mod" && rel != "go.sum" || !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
	must.OK(t, err)
}
