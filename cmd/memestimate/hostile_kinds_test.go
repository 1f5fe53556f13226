package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// hostileNames are kinds of characters that act on who reads them, hide, or make text look like another.
var hostileNames = map[string]string{
	"zero width": "a\u200bb\u200cc\u200dd\u2060e\ufefff", "soft hyphen": "a\u00adb", "Arabic mark": "a\u061cb",
	"tags": "a\U000e0041\U000e0042b", "line separators": "a\u2028b\u2029c\u0085d",
	"C1":        "a\u009b31mb",
	"combining": "a" + strings.Repeat("\u0301", 300), "right to left": "\u05d0\u05d1/\u05d2",
	"bidi":        "a\u202eb\u2066c\u206ad",
	"private use": "\ue000\U000f0000", "variations": "a\ufe0f\U000e0100b", "a link of a terminal": "\x1b]8;;http://e\x07x",
	"end of a comment": "--><script>x</script>]]>", "a command of a CI log": "::set-output name=x::y\n##vso[x]",
	"a secret":  "${{ secrets.X }}",
	"a mention": "@everyone #1 :tada: https://e.example", "spaces": "   ",
	"a link of Markdown": "[x](javascript:alert(1))|b`c``d\n\n# e",
	"a formula":          "\t=HYPERLINK(\"http://e\")",
	"a path":             "../../../etc/passwd", "a shell": "'\"\\`$(id)", "Mongolian": "a\u180eb",
	"Hangul fillers": "a\u3164\u115fb",
	"interlinear":    "a\ufff9b\ufffa\ufffb", "no characters": "\uffff\U0010ffff",
	"invisible signs": "a\u2061\u2062\u2063\u2064b",
}

// runHere runs a command in this process, in an environment and a folder of its own.
func runHere(environment map[string]string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		getenv: func(name string) string { return environment[name] }}
	code = run(context.Background(), e, args)
	return out.String(), errs.String(), code
}

// unseen returns where a text has a character that acts on terminals or that nobody sees, -1 for nowhere.
func unseen(s string) int {
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '\n' && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs))
	})
}

// Whatever kind of characters names have, wherever a file has names and in arguments, no form shows one that is unseen
// or acts.
func TestHostileNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.onnx")
	for kind, n := range hostileNames {
		g := Graph{Name: n, In: []Value{Float("x"+n, 2, 4)}, Out: []Value{{Name: "y" + n}},
			Inits: []Tensor{Bare("w"+n, onnxload.Float32, 4)},
			Nodes: []Node{{Op: "Mul", In: []string{"x" + n, "w" + n}, Out: []string{"h" + n}, Name: n},
				{Op: "Op" + n, In: []string{"h" + n}, Out: []string{"y" + n}, Name: n, Domain: n}}}
		write(t, file, string(Model{Opset: 17, Producer: n, Graph: g}.Bytes()))
		for _, args := range [][]string{{file, "--full", "--stats"}, {file, "--format", "markdown"},
			{file, "--format", "csv"}, {file, "--format", "html"}, {file, "--strict"}, {"table", file},
			{"table", file, "--format", "markdown"},
			{"conv_example", "--precision", n}, {"conv_example", "--dim", n + "=3"}, {n},
			{"conv_example", "--freeze", n}, {"conv_example", "--gpu", n}} {
			out, errs, code := runHere(nil, args...)
			if code > exitOutput {
				t.Errorf("%s: %q: code %d: %.300q", kind, args, code, errs)
			}
			for _, said := range []string{out, errs} {
				if at := unseen(said); at >= 0 {
					t.Errorf("%s: %q: says %q", kind, args, said[max(0, at-40):min(len(said), at+40)])
				}
			}
		}
	}
}

// hostileBudgets are budget files beside a model m.onnx: what YAML has to offer, and what entries may ask for.
func hostileBudgets() map[string]string {
	laughs := "a0: &a0 [x, x, x]\n"
	for i := range 24 {
		laughs += strings.NewReplacer("NEW", string(rune('b'+i)), "OLD", "a0").Replace("NEW: [*OLD, *OLD, *OLD]\n")
	}
	const one, limits = "models: [m.onnx]\n", "models: [m.onnx]\nlimits: "
	return map[string]string{
		"laughs": laughs + "models: *a0\n", "a circle": "models: &a [*a]\n", "empty": "", "null": "null\n",
		"deep": "models: " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "twice": one + one,
		"merged": "x: &x {batch: 1}\nmodels: [{path: m.onnx, <<: *x}]\n", "binary": "models: !!binary aGk=\n",
		"a tag": "models: !!python/object/apply:os.system ['id']\n", "a mark": "\ufeff" + one,
		"documents": one + "---\n" + one,
		"a tab":     "models:\n\t- m.onnx\n", "a number": "models: 5\n", "below zero": limits + "{parameters: -1GiB}\n",
		"no number": limits + "{parameters: .nan}\n", "without end": limits + "{parameters: .inf}\n",
		"huge":     limits + "{parameters: 99999999999999999999999GiB}\n",
		"outside":  "models: [../../../etc/passwd]\n",
		"a device": "models: [/dev/zero]\n", "the input": "models: ['-']\n", "not a class": "models: ['[']\n",
		"stars":    "models: ['" + strings.Repeat("**/", 2000) + "*.onnx']\n",
		"UTF-16":   "m\x00o\x00d\x00e\x00l\x00s\x00",
		"no UTF-8": one + "\xff", "a directive": "%YAML 9.9\n%TAG ! x\n---\n" + one,
		"a key of a list":   "? [a, b]\n: models\n",
		"an escape":         "models: [\"\\x1b[31m\\u202e\"]\n",
		"30,000 models":     "models:\n" + strings.Repeat("- m.onnx\n", 30_000),
		"30,000 built in":   "models:\n" + strings.Repeat("- conv_example\n", 30_000),
		"settings":          one + "settings:\n" + strings.Repeat("- {precision: fp32}\n", 2001),
		"a pipeline":        "models: [gpt2]\nsettings: {batch: 1, gpus: 2, parallel: pp}\n",
		"a long expression": one + "settings: {freeze: '" + strings.Repeat(".*", 5000) + "'}\n",
	}
}

// A budget file is judged or refused in lines that do not act, and what it asks for is bounded: nobody has to have
// read it before it is checked.
func TestHostileBudgets(t *testing.T) {
	dir := t.TempDir()
	g := Graph{In: []Value{Float("x", 2, 4)}, Out: []Value{{Name: "y"}}, Nodes: []Node{Op("Relu", "x", "y")}}
	write(t, filepath.Join(dir, "m.onnx"), string(Model{Opset: 17, Graph: g}.Bytes()))
	const many = "more than 2000 estimates"
	refused := map[string]string{"30,000 models": many, "30,000 built in": many, "settings": many,
		"a pipeline": "parallel: pp is not simulated from a graph; record the step", "a long expression": "states, want 8192 at most"}
	file := filepath.Join(dir, "b.yaml")
	for kind, text := range hostileBudgets() {
		write(t, file, text)
		for _, form := range []string{"text", "json", "markdown"} {
			out, errs, code := runHere(nil, "check", "--config", file, "--format", form)
			if code > exitInput {
				t.Errorf("%s, %s: code %d: %.300q", kind, form, code, errs)
			}
			if want := refused[kind]; want != "" && (code != exitInput || !strings.Contains(errs+out, want)) {
				t.Errorf("%s, %s: code %d, %.300q, want %q", kind, form, code, errs+out, want)
			}
			if unseen(out) >= 0 || unseen(errs) >= 0 {
				t.Errorf("%s, %s: says %.300q", kind, form, out+errs)
			}
		}
	}
}

// bombs are small files that claim, or unfold to, far more than they are.
func bombs(t *testing.T) map[string][]byte {
	t.Helper()
	packed := func(head string, fill byte, n int) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(append([]byte(head), bytes.Repeat([]byte{fill}, n)...))
		must.OK(t, err)
		must.OK(t, z.Close())
		return b.Bytes()
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create("archive/data.pkl")
	must.OK(t, err)
	_, err = w.Write(append([]byte("\x80\x02"), bytes.Repeat([]byte("]"), 32<<20)...))
	must.OK(t, err)
	must.OK(t, z.Close())
	return map[string][]byte{
		"lists.pickle":       []byte("\x80\x02" + strings.Repeat("]", 3_000_000) + "."),
		"tuples.pickle":      []byte("\x80\x02)" + strings.Repeat("\x85", 3_000_000) + "."),
		"text.pickle":        append(binary.LittleEndian.AppendUint64([]byte("\x80\x02\x8e"), 1<<60), "x."...),
		"zeros.pickle.gz":    packed("", 0, 64<<20),
		"lists.pickle.gz":    packed("\x80\x02", ']', 32<<20),
		"lines.mrec.gz":      packed("memestimate recording 1\n", '\n', 32<<20),
		"archive.pickle.zip": archive.Bytes(),
	}
}

// A file that never ends, nests or unfolds is refused in one line, soon, by every command that reads files.
func TestBombs(t *testing.T) {
	dir := t.TempDir()
	honest := filepath.Join(dir, "honest.onnx")
	model, err := models.Open("conv_example")
	must.OK(t, err)
	write(t, honest, string(model))
	files := []string{honest + ".missing"}
	if _, err := os.Stat("/dev/zero"); err == nil {
		files = append(files, "/dev/zero")
	}
	for name, data := range bombs(t) {
		path := filepath.Join(dir, name)
		write(t, path, string(data))
		files = append(files, path)
	}
	commands := []string{"X", "table X", "fit X --gpu t4", "diff HONEST X", "diff X HONEST",
		"compare X HONEST", "compare HONEST X", "snapshot show X", "check --config X"}
	for _, file := range files {
		for _, command := range commands {
			refused(t, strings.NewReplacer("X", file, "HONEST", honest).Replace(command))
		}
	}
}

// What is never a stream is not waited for either: nobody writes to this pipe.
func TestPipesNobodyWrites(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	makePipe(t, pipe)
	refused(t, "check --config "+pipe)
}

// refused fails the test unless a command says in one line what is wrong with a file, and a hint at most.
func refused(t *testing.T, command string) {
	t.Helper()
	const soon = 10 * time.Second // where other programs keep the processors busy; it is a tenth of a second
	begin := time.Now()
	stdout, stderr, code := try(t, strings.Fields(command)...)
	lines := strings.Count(stderr, "\n")
	if code != exitInput || stdout != "" || lines < 1 || lines > 2 || len(stderr) > 1000 {
		t.Errorf("%s: code %d, stdout %.100q, stderr %.300q", command, code, stdout, stderr)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("%s: took %v", command, took)
	}
}
