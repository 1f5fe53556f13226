package main

import (
	"os"
	"path/filepath"
	"testing"
)

// badBudget changes the budget file along with the model.
func badBudget(text string) func(*yard) []string {
	return func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.write("memestimate.yaml", text)
		return nil
	}
}

// Ways to get growth past the check by the budget file, none of which leads there.
func TestByTheBudget(t *testing.T) {
	holdOff(t, byTheBudget)
}

var byTheBudget = []attempt{
	{"no models", func(y *yard) []string { y.remove("nets/net.onnx"); return nil }, exitInput, "no such file"},
	{"an empty list of models", func(y *yard) []string { y.write("memestimate.yaml", "models: []\n"); return nil },
		exitInput, "models is an empty list"},
	{"everything excluded", func(y *yard) []string {
		y.write("memestimate.yaml",
			"settings: {batch: 256}\nmodels:\n  - path: nets/*.onnx\n    limits: {growth: 5%}\n    exclude: '**'\n")
		return nil
	}, exitInput, "leave no model of this entry"},
	{"a limit without a unit", func(y *yard) []string {
		y.write("memestimate.yaml", "settings: {batch: 256}\nlimits: {device: 24}\nmodels: nets/*.onnx\n")
		return nil
	}, exitInput, "24 has no unit"},
	{"a limit of another mapping, merged in", func(y *yard) []string {
		y.write("memestimate.yaml", "x: &x {growth: 500%}\nlimits: {<<: *x}\nmodels: nets/*.onnx\n")
		return nil
	}, exitInput, "memestimate.yaml:1: the file has no key"},
	{"a limit given twice", func(y *yard) []string {
		y.write("memestimate.yaml", "limits: {growth: 1%}\nlimits: {growth: 500%}\nmodels: nets/*.onnx\n")
		return nil
	}, exitInput, "twice"},
	{"a budget file in another folder", func(y *yard) []string {
		y.must(os.Mkdir(y.path("ci"), 0o777))
		y.git("mv", "memestimate.yaml", "ci/memestimate.yaml")
		return nil
	}, exitInput, "no such file"},
	{"a budget file with a capital letter", func(y *yard) []string {
		y.git("mv", "memestimate.yaml", "Memestimate.yaml")
		return nil
	}, exitInput, "no such file"},
	{"a budget file that is a link out of the repository", func(y *yard) []string {
		secret := filepath.Join(y.TempDir(), "netrc")
		write(y.T, secret, "machine github.com login x password hunter2\n")
		y.remove("memestimate.yaml")
		y.link(secret, "memestimate.yaml")
		return nil
	}, exitInput, "leads out of the repository"},
	{"a budget file with tabs", badBudget("limits:\n\tgrowth: 5%\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:2: "},
	{"limits by an anchor and an alias", badBudget("x: &x {growth: 500%}\nlimits: *x\nmodels: nets/*.onnx\n"),
		exitInput,
		"memestimate.yaml:1: the file has no key"},
	{"an entry by an alias", badBudget("models: [&a {path: nets/net.onnx}, *a]\n"), exitInput, "an alias"},
	{"growth that is no number", badBudget("limits: {growth: .nan}\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:1: growth"},
	{"growth that is NaN percent", badBudget("limits: {growth: NaN%}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: growth"},
	{"growth without an end", badBudget("limits: {growth: .inf}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: growth"},
	{"negative growth", badBudget("limits: {growth: -5%}\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:1: growth"},
	{"growth beyond all numbers", badBudget("limits: {growth: 1e400%}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: growth"},
	{"a limit beyond all numbers", badBudget("limits: {device: 99999999999TiB}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: device"},
	{"a negative limit", badBudget("limits: {device: -1GiB}\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:1: device"},
	{"a batch of nothing", badBudget("settings: {batch: 0}\nlimits: {growth: 5%}\nmodels: nets/*.onnx\n"),
		exitInput,
		"memestimate.yaml:1: batch"},
	{"a key that looks the same", badBudget("lim\u0456ts: {growth: 5%}\nmodels: nets/*.onnx\n"),
		exitInput, "has no key"},
	{"a key in other letters", badBudget("limits: {growth: 5%}\nLimits: {growth: 500%}\nmodels: nets/*.onnx\n"),
		exitInput, "twice"},
	{"a second document", badBudget(growthBudget + "---\nlimits: {growth: 500%}\nmodels: nets/*.onnx\n"), exitInput,
		"a second document"},
	{"a line that people do not see", badBudget("# as agreed\u2028limits: {growth: 500%}\nmodels: nets/*.onnx\n"),
		exitInput,
		"memestimate.yaml:1: U+2028"},
	{"text that runs the other way", badBudget("models: nets/*.onnx # \u202e\nlimits: {growth: 5%}\n"), exitInput,
		"memestimate.yaml:1: U+202E"},
	{"two bytes a letter, which no review shows", badBudget("\xff\xfem\x00:\x00 \x00x\x00"), exitInput, "UTF-8"},
	{"two entries of one model", badBudget("settings: {batch: 256}\nmodels:\n" +
		"  - {path: nets/net.onnx, limits: {growth: 5%}}\n" +
		"  - {path: nets/*.onnx, limits: {device: 64GiB}}\n"), exitNo, "over +5%"},
	{"an entry that excludes itself", badBudget("settings: {batch: 256}\nlimits: {growth: 500%}\nmodels:\n" +
		"  - {path: nets/net.onnx, exclude: nets/net.onnx}\n  - nets/net.onnx\n"),
		exitInput, "leave no model of this entry"},
	{"a file that is named as a built-in model", func(y *yard) []string {
		y.put("resnet18", "inserted")
		y.write("memestimate.yaml", "settings: {batch: 2}\nmodels: [nets/net.onnx, resnet18]\n")
		return nil
	}, exitInput, "is a built-in model and a file as well"},
	{"a path that leaves the repository", badBudget("settings: {batch: 2}\nmodels: ../nets/*.onnx\n"), exitInput,
		"leaves the folder"},
}
