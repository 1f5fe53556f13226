package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Ways to get a model that grows past the check, none of which leads there.
func TestByTheFiles(t *testing.T) {
	holdOff(t, byTheFiles)
}

var byTheFiles = []attempt{
	{"none: growth as it is", func(y *yard) []string { y.put("nets/net.onnx", "inserted"); return nil }, exitNo,
		"over +5%"},
	{"a file that is moved and changed", func(y *yard) []string {
		y.git("mv", "nets/net.onnx", "nets/new.onnx")
		y.put("nets/new.onnx", "inserted")
		return nil
	}, exitNo, "`nets/new.onnx` was `nets/net.onnx`"},
	{"a file that is moved to another folder and committed", func(y *yard) []string {
		y.write("memestimate.yaml", strings.Replace(growthBudget, "nets/*.onnx", "'**/*.onnx'", 1))
		y.commit()
		y.git("mv", "nets/net.onnx", "other.onnx")
		y.put("other.onnx", "inserted")
		y.commit()
		return []string{"--base", "HEAD~1"}
	}, exitNo, "over +5%"},
	{"a copy that takes the place of the model", func(y *yard) []string {
		y.put("nets/big.onnx",
			"inserted")
		return nil
	}, exitNo, "list it under new"},
	{"a model that the entry says is new, which is not", func(y *yard) []string {
		y.write("memestimate.yaml",
			"settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {growth: 5%}, new: nets/*.onnx}\n")
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"a dimension that is renamed", func(y *yard) []string {
		y.write("memestimate.yaml", strings.Replace(growthBudget, "batch: 256", "batch: 64, dim: {edge: 64}", 1))
		y.write("nets/net.onnx", string(sided("x", "side", "n", 64)))
		y.commit()
		y.write("nets/net.onnx", string(sided("x", "edge", "batch", 256)))
		return nil
	}, exitNo, "over +5%"},
	{"an input that is renamed", func(y *yard) []string {
		y.write("memestimate.yaml", strings.Replace(growthBudget, "batch: 256", "input: {picture: 64x3x64x64}", 1))
		y.write("nets/net.onnx", string(sided("x", "side", "n", 64)))
		y.commit()
		y.write("nets/net.onnx", string(sided("picture", "edge", "batch", 256)))
		return nil
	}, exitNo, "over +5%"},
	{"a batch that is written into the model", func(y *yard) []string {
		y.write("nets/net.onnx", string(sided("x", "side", 1, 64)))
		return nil
	}, exitInput, "batch"},
	{"a pipe among the models", func(y *yard) []string {
		makePipe(y.T, y.path("nets/pipe.onnx"))
		return nil
	}, exitInput, "nets/pipe.onnx is a pipe"},
	{"a device among the models", func(y *yard) []string { y.link("/dev/zero", "nets/zero.onnx"); return nil },
		exitInput, "nets/zero.onnx is a device"},
	{"a folder in the place of the model", func(y *yard) []string {
		y.write("memestimate.yaml", strings.Replace(growthBudget, "nets/*.onnx", "nets/net.onnx", 1))
		y.remove("nets/net.onnx")
		y.must(os.Mkdir(y.path("nets/net.onnx"), 0o777))
		return nil
	}, exitInput, "is a folder"},
	{"a link to nothing", func(y *yard) []string { y.link("gone", "nets/gone.onnx"); return nil }, exitInput,
		"nets/*.onnx"},
	{"a link out of the repository", func(y *yard) []string {
		outside := filepath.Join(y.TempDir(), "net.onnx")
		write(y.T, outside, string(y.nets["base"]))
		y.link(outside, "nets/outside.onnx")
		return nil
	}, exitInput, "leads out of the repository"},
	{"a link that stays while what it leads to grows", func(y *yard) []string {
		y.remove("nets/net.onnx")
		y.put("kept/v1.bin", "base")
		y.link("../kept/v1.bin", "nets/net.onnx")
		y.commit()
		y.put("kept/v1.bin", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"a file that git is told not to look at", func(y *yard) []string {
		y.git("update-index", "--assume-unchanged", "nets/net.onnx")
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"attributes that make different bytes the same", func(y *yard) []string {
		y.write(".gitattributes", "*.onnx -diff ident text eol=crlf\n")
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"operators that nobody knows", func(y *yard) []string { y.write("nets/net.onnx", string(strange())); return nil },
		exitNo, "a lower bound: Mystery is not modelled"},
	{"a GPU on which the run ends before its peak", func(y *yard) []string {
		y.write("memestimate.yaml", strings.Replace(growthBudget, "batch: 256", "batch: 4096, gpu: t4", 1))
		y.put("nets/net.onnx", "widened")
		return nil
	}, exitNo, "out of memory in the "},
	{"a name with a line feed", func(y *yard) []string {
		y.put("nets/a\nb.onnx", "base")
		y.commit()
		y.put("nets/a\nb.onnx", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"a model that moves to where no path leads", func(y *yard) []string {
		y.put("nets/other.onnx", "widened")
		y.commit()
		y.must(os.Mkdir(y.path("archive"), 0o777))
		y.git("mv", "nets/net.onnx", "archive/net.onnx")
		return nil
	}, exitInput, "nets/net.onnx moved to archive/net.onnx, which no path of memestimate.yaml matches"},
	{"a model that goes, and comes again with another extension", func(y *yard) []string {
		y.put("nets/other.onnx", "widened")
		y.commit()
		y.remove("nets/net.onnx")
		y.put("nets/net.bin", "inserted")
		return nil
	}, exitInput, "nets/net.onnx moved to nets/net.bin, which no path"},
	{"an extension in capital letters", func(y *yard) []string {
		y.put("nets/other.onnx", "widened")
		y.commit()
		y.git("mv", "nets/net.onnx", "nets/net.ONNX")
		y.put("nets/net.ONNX", "inserted")
		y.commit()
		return []string{"--base", "HEAD~1"}
	}, exitInput, "nets/net.onnx moved to nets/net.ONNX, which no path"},
	{"a folder with a dot, into which globs do not look", func(y *yard) []string {
		y.put("nets/other.onnx", "widened")
		y.commit()
		y.must(os.Mkdir(y.path("nets/.old"), 0o777))
		y.git("mv", "nets/net.onnx", "nets/.old/net.onnx")
		return nil
	}, exitInput, "nets/net.onnx moved to nets/.old/net.onnx, which no path"},
	{"a name that differs in a capital letter", func(y *yard) []string {
		y.git("mv", "nets/net.onnx", "nets/Net.onnx")
		y.put("nets/Net.onnx", "inserted")
		return nil
	}, exitNo, "`nets/Net.onnx` was `nets/net.onnx`"},
	{"a name that looks the same", func(y *yard) []string {
		y.git("mv", "nets/net.onnx", "nets/n\u0435t.onnx")
		y.put("nets/n\u0435t.onnx", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"a name that looks the same, beside the model", func(y *yard) []string {
		y.put("nets/n\u0435t.onnx", "inserted")
		return nil
	}, exitNo, "list it under new"},
	{"an accent that is a letter of its own", func(y *yard) []string {
		y.write("memestimate.yaml", strings.Replace(growthBudget, "nets/*.onnx", "[nets/net.onnx, nets/\u00e9.onnx]", 1))
		y.put("nets/\u00e9.onnx", "base")
		y.commit()
		y.write("memestimate.yaml", growthBudget)
		y.git("mv", "nets/\u00e9.onnx", "nets/e\u0301.onnx")
		y.put("nets/e\u0301.onnx", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"two models that change places", func(y *yard) []string {
		y.put("nets/large.onnx", "inserted")
		y.commit()
		y.put("nets/large.onnx", "base")
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitNo, "`nets/net.onnx`<br>batch 256"},
	{"a pointer of git-lfs in the place of the model", func(y *yard) []string {
		y.write("nets/net.onnx", lfsPointer)
		return nil
	}, exitInput, "git-lfs"},
	{"the same pointer as in the base", func(y *yard) []string {
		y.write("nets/net.onnx", lfsPointer)
		y.commit()
		return nil
	}, exitInput, "git-lfs"},
	{"an empty file in the place of the model", func(y *yard) []string { y.write("nets/net.onnx", ""); return nil },
		exitInput, "nets/net.onnx"},
	{"a link in the place of the model", func(y *yard) []string {
		y.put("kept/large.bin", "inserted")
		y.remove("nets/net.onnx")
		y.link("../kept/large.bin", "nets/net.onnx")
		return nil
	}, exitNo, "over +5%"},
	{"a link into git's own folder", func(y *yard) []string {
		y.link("../.git/config", "nets/config.onnx")
		return nil
	}, exitInput, "leads into git's own folder"},
	{"attributes that name filters and encodings", func(y *yard) []string {
		y.write(".gitattributes", "*.onnx filter=kept merge=ours export-ignore working-tree-encoding=UTF-16\n")
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitNo, "over +5%"},
	{"values in a file beside the model, which alone changes", func(y *yard) []string {
		y.write("nets/net.onnx", string(expanded()))
		y.write("nets/shape.bin", int64s(1, 256, 8, 8))
		y.commit()
		y.write("nets/shape.bin", int64s(1, 256, 64, 64))
		return nil
	}, exitNo, "not known in the base"},
}
