package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

const modulePath = "github.com/memestimate/memestimate"

// arrows says which packages of this module a package may import, * for all; those below it
// follow the same rule unless they have one of their own. The drawing is in
// docs/architecture.md.
const arrows = `
onnxload:
onnxload/onnxgo: onnxload
estimate/shape: onnxload
simulate/timeline:
simulate/gpu: spelling
simulate/kernels: simulate/gpu
estimate/program:
estimate/recover/module: onnxload estimate/shape
estimate/recover: onnxload estimate/shape estimate/recover/module estimate/program
estimate/recover/recovertest: estimate/recover onnxload estimate/shape estimate/recover/module estimate/program
estimate/torch: estimate/program simulate/timeline simulate/gpu simulate/kernels
simulate/caching: simulate/timeline
estimate: onnxload estimate/shape estimate/recover/module estimate/program estimate/recover simulate/timeline estimate/torch simulate/caching simulate/gpu simulate/kernels recording
snapshot: simulate/timeline simulate/caching
snapshot/replay: snapshot simulate/timeline simulate/caching
snapshot/compare: estimate simulate/timeline simulate/gpu snapshot
snapshot/oom: snapshot snapshot/replay simulate/timeline simulate/caching
recording: simulate/timeline simulate/gpu simulate/kernels
devices:
cluster: simulate/gpu
cluster/slurm: cluster spelling
cluster/prometheus:
cluster/kubernetes:
models:
python:
spelling:
gate/diff: estimate estimate/recover/module
report: estimate estimate/recover/module gate/diff snapshot/compare
report/page: report estimate estimate/recover/module snapshot simulate/timeline simulate/caching
gate: estimate models onnxload recording report gate/budget gate/diff gate/forge gate/git simulate/gpu
gate/git:
gate/forge:
gate/budget: estimate estimate/recover/module report gate/diff gate/git spelling
report/web: report/page
test:
cmd: *
`

// keepers says which packages alone may import a module of somebody else's; several are separated by spaces.
var keepers = map[string]string{
	"github.com/spf13/cobra":        "cmd",
	"github.com/spf13/pflag":        "cmd",
	"github.com/owulveryck/onnx-go": "onnxload/onnxgo",
	"gonum.org/v1/gonum":            "onnxload/onnxgo",
	"gorgonia.org":                  "onnxload/onnxgo",
	"go.yaml.in/yaml/v3":            "gate/budget cluster",
	"github.com/tidwall/btree":      "snapshot",
}

// TestImportArrows keeps the packages' imports pointing one way.
func TestImportArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, modulePath+"/...").Output()
	must.OK(t, err)
	rules := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(arrows)) {
		pkg, may, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("%q is no rule", line)
		}
		rules[pkg] = strings.Fields(may)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], modulePath+"/")
		rule, ok := ruleOf(rules, pkg)
		if !ok {
			t.Errorf("%s has no place in the map: say what it may import", pkg)
			continue
		}
		for _, imp := range fields[1:] {
			if in, ours := strings.CutPrefix(imp, modulePath+"/"); ours {
				if target, _ := ruleOf(rules, in); target != rule && !slices.Contains(rules[rule], target) &&
					!slices.Contains(rules[rule], "*") {
					t.Errorf("%s imports %s, against the arrows", pkg, in)
				}
			}
			for prefix, keep := range keepers {
				if within(imp, prefix) && !slices.ContainsFunc(strings.Fields(keep),
					func(k string) bool { return within(pkg, k) }) {
					t.Errorf("%s imports %s, which is for %s alone", pkg, imp, keep)
				}
			}
		}
	}
}

// TestProgramStaysSmall has nobody who builds the program compile the adapter for onnx-go and what it needs.
func TestProgramStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	must.OK(t, err)
	for pkg := range strings.Lines(string(out)) {
		for _, not := range []string{modulePath + "/onnxload/onnxgo", "github.com/owulveryck", "gonum.org", "gorgonia.org"} {
			if within(strings.TrimSpace(pkg), not) {
				t.Errorf("the program is linked with %s", pkg)
			}
		}
	}
}

// TestArchitectureNamesEveryPackage holds the table of docs/architecture.md to the packages that there are, those that
// only tests use left out.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	page := must.Read(t, "../../docs/architecture.md")
	table, _, ok := strings.Cut(string(page), "\n## Finding things\n")
	if !ok {
		t.Fatal("docs/architecture.md has no section that ends the table of packages")
	}
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows[name] = true
			if info, err := os.Stat("../../" + name); err != nil || !info.IsDir() {
				t.Errorf("docs/architecture.md has a row of %s, which is no folder", name)
			}
		}
	}
	out, err := exec.Command("go", "list", modulePath+"/...").Output()
	must.OK(t, err)
	for path := range strings.Lines(string(out)) {
		pkg := strings.TrimPrefix(strings.TrimSpace(path), modulePath+"/")
		if within(pkg, "test") || strings.HasSuffix(pkg, "test") || pkg == "devices/fakenvml" || within(pkg, "report/web") {
			continue
		}
		if !rows[pkg] {
			t.Errorf("docs/architecture.md has no row that says what %s knows", pkg)
		}
	}
	if len(rows) < 30 {
		t.Errorf("%d rows", len(rows))
	}
}

// ruleOf returns the package whose rule pkg follows: the innermost one that has a rule.
func ruleOf(rules map[string][]string, pkg string) (string, bool) {
	for p := pkg; p != ""; p = p[:max(0, strings.LastIndexByte(p, '/'))] {
		if _, ok := rules[p]; ok {
			return p, true
		}
	}
	return "", false
}

func within(pkg, prefix string) bool {
	return pkg == prefix || strings.HasPrefix(pkg, prefix+"/")
}

// Every test that test/catalogue.md names is there, every row of its catalogue has one.
func TestReliabilityPage(t *testing.T) {
	page := must.Read(t, filepath.Join(repository, "test", "catalogue.md"))
	there := map[string]bool{} // tests by name, and by package and name; scripts by file
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != repository:
			return fs.SkipDir
		case strings.HasSuffix(path, ".txtar"):
			there[d.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllStringSubmatch(string(data), -1) {
				there[m[1]] = true
				there[filepath.Base(filepath.Dir(path))+"."+m[1]] = true
			}
		}
		return nil
	})
	must.OK(t, err)
	named := regexp.MustCompile("`((?:\\w+\\.)?(?:Test|Fuzz)\\w+|[\\w-]+\\.txtar)`")
	rows := map[int]bool{}
	for line := range strings.Lines(string(page)) {
		tests := named.FindAllStringSubmatch(line, -1)
		for _, m := range tests {
			if !there[m[1]] {
				t.Errorf("%s is no test", m[1])
			}
		}
		number, ok := strings.CutPrefix(line, "| A")
		if n, err := strconv.Atoi(strings.TrimSpace(strings.Split(number, "|")[0])); ok && err == nil {
			rows[n] = true
			if len(tests) == 0 {
				t.Errorf("A%d has no test", n)
			}
		}
	}
	if len(rows) < 100 {
		t.Errorf("%d rows", len(rows))
	}
}
