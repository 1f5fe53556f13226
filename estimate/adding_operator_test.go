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

// TestAddingAnOperator follows docs/contributing.md in a copy of the module: it adds the rows and the lines that the
// page shows for a made-up operator where the page says, and the tests of these tables pass. Without the lines they
// fail.
func TestAddingAnOperator(t *testing.T) {
	_, page, _ := strings.Cut(string(must.Read(t, "../docs/contributing.md")), "\n## A new ONNX operator\n")
	page, _, _ = strings.Cut(page, "\n## ")
	rows := regexp.MustCompile(`(?m)^(\{.*\},) +// (estimate/.*\.go)$`).FindAllStringSubmatch(page, -1)
	lines := regexp.MustCompile("\n```text\n(.*)\n(.*)\n```\n").FindStringSubmatch(page)
	if len(rows) != 4 || lines == nil {
		t.Fatalf("docs/contributing.md shows other rows: %q, or other lines: %q", rows, lines)
	}
	tables := map[string]string{
		"estimate/shape/activation.go":    "var activationFamily = family{\"\", []op{\n",
		"estimate/recover/nodes.go":       "var nodeRows = []nodeRow{\n",
		"estimate/torch/ops_pointwise.go": "var pointwiseOps = []op{\n",
		"estimate/program/schema.go":      "var operators = index([]Operator{\n",
	}
	to := t.TempDir()
	copyModule(t, "..", to)
	put := func(file, behind, row string) {
		t.Helper()
		path := filepath.Join(to, file)
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
	for _, row := range rows {
		table := tables[row[2]]
		if table == "" {
			t.Fatalf("docs/contributing.md adds to %s, of which this test knows no table", row[2])
		}
		put(row[2], table, row[1])
	}
	out, err := tests()
	if err == nil || strings.Count(out, "Squash") != 2 {
		t.Errorf("rows without lines: %v, wanted a failure of each table\n%s", err, out)
	}
	put("estimate/shape/testdata/ops/activation.txt", "", lines[1])
	put("estimate/torch/testdata/unary.txt", "", lines[2])
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
