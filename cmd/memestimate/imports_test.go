package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/memestimate/memestimate"

// arrows says which packages of this module a package may import; those below it
// follow the same rule unless they have one of their own. The drawing is in
// docs/architecture.md.
var arrows = map[string][]string{
	"onnxload":          {},
	"onnxload/onnxgo":   {"onnxload"},
	"estimate/shape":    {"onnxload"},
	"estimate/timeline": {},
	"estimate/eager":    {"onnxload", "estimate/shape", "estimate/timeline"},
	"estimate/caching":  {"estimate/timeline"},
	"estimate":          {"onnxload", "estimate/shape", "estimate/timeline", "estimate/eager", "estimate/caching"},
	"snapshot":          {"estimate/timeline"},
	"snapshot/replay":   {"snapshot", "estimate/timeline", "estimate/caching"},
	"devices":           {},
	"models":            {},
	"diff":              {"estimate"},
	"report":            {"estimate", "diff"},
	"report/page":       {"report", "estimate/timeline", "estimate/caching"},
	"github":            {},
	"budget":            {"estimate", "report", "diff"},
	"cmd":               {"onnxload", "onnxload/onnxgo", "estimate", "estimate/shape", "estimate/timeline", "estimate/eager", "estimate/caching", "snapshot", "snapshot/replay", "devices", "models", "report", "report/page", "diff", "budget", "github"},
}

// keepers says which packages alone may import a module of somebody else's.
var keepers = map[string]string{
	"github.com/spf13/cobra":        "cmd",
	"github.com/spf13/pflag":        "cmd",
	"github.com/NVIDIA/go-nvml":     "devices",
	"github.com/owulveryck/onnx-go": "onnxload/onnxgo",
	"github.com/jedib0t/go-pretty":  "report",
	"gopkg.in/yaml.v3":              "budget",
}

// TestImportArrows keeps the packages' imports pointing one way.
func TestImportArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module+"/")
		rule, ok := ruleOf(pkg)
		if !ok {
			t.Errorf("%s has no place in the map: say what it may import", pkg)
			continue
		}
		for _, imp := range fields[1:] {
			if in, ours := strings.CutPrefix(imp, module+"/"); ours {
				if target, _ := ruleOf(in); target != rule && !slices.Contains(arrows[rule], target) {
					t.Errorf("%s imports %s, against the arrows", pkg, in)
				}
			}
			for prefix, keeper := range keepers {
				if within(imp, prefix) && !within(pkg, keeper) {
					t.Errorf("%s imports %s, which is for %s alone", pkg, imp, keeper)
				}
			}
		}
	}
}

// ruleOf returns the key of arrows that pkg falls under: the longest one.
func ruleOf(pkg string) (string, bool) {
	for p := pkg; p != ""; p = p[:max(0, strings.LastIndexByte(p, '/'))] {
		if _, ok := arrows[p]; ok {
			return p, true
		}
	}
	return "", false
}

func within(pkg, prefix string) bool {
	return pkg == prefix || strings.HasPrefix(pkg, prefix+"/")
}
