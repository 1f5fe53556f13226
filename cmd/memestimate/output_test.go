package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/memestimate/memestimate/cmd/memestimate/inherited"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/test/must"
)

func TestWriteFileKeepsMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no modes")
	}
	file := filepath.Join(t.TempDir(), "f")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	must.OK(t, writeFile(file, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }))
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", st.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// A link stays a link, whether what it leads to is there or not.
func TestWriteFileThroughLinks(t *testing.T) {
	dir := t.TempDir()
	for _, l := range [][2]string{{"gone", "folder/new"}, {"folder/back", "../gone"}, {"loop", "loop"}} {
		must.OK(t, os.MkdirAll(filepath.Join(dir, "folder"), 0o777))
		if err := os.Symlink(l[1], filepath.Join(dir, l[0])); err != nil {
			t.Skip(err)
		}
	}
	for _, text := range []string{"first", "second"} {
		err := writeFile(filepath.Join(dir, "folder", "back"), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		must.OK(t, err)
		if data, err := os.ReadFile(filepath.Join(dir, "folder", "new")); err != nil || string(data) != text {
			t.Errorf("%q, %v, want %q", data, err, text)
		}
	}
	if st, err := os.Lstat(filepath.Join(dir, "gone")); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if err := writeFile(filepath.Join(dir, "loop"), func(io.Writer) error { return nil }); err == nil {
		t.Error("a link to itself is written to")
	}
	if left, err := os.ReadDir(filepath.Join(dir, "folder")); err != nil || len(left) != 2 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// The null device is no terminal, to which a page would not be written.
func TestPageToNowhere(t *testing.T) {
	program, err := exec.LookPath("memestimate")
	must.OK(t, err)
	must.OK(t, exec.Command(program, "conv_example", "--format", "html").Run())
}

// A result that nobody gets is no success, and one that is not written to stdout needs none.
func TestClosedStdout(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil || !inherited.Known {
		t.Skip("no shell, or built without C")
	}
	for command, want := range map[string]int{
		"memestimate conv_example >&-":                       exitOutput,
		"memestimate --help >&-":                             exitOutput,
		"memestimate completion bash >&-":                    exitOutput,
		"memestimate devices --format json --nvml none >&-":  exitDevice, // there is no result
		"memestimate conv_example --output out.txt >&-":      exitOK,
		"memestimate conv_example >/dev/null":                exitOK,
		"memestimate conv_example <>/dev/null >&0":           exitOK,
		"memestimate conv_example --output - --strict <&-":   exitOK,
		"memestimate conv_example --format nonesuch >&- <&-": exitUsage,
	} {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = t.TempDir()
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want || want == exitOutput &&
			string(out) != "memestimate: stdout: file already closed\n" {
			t.Errorf("%s: exit code %d, want %d: %s", command, code, want, out)
		}
	}
}

// What nohup(1) has the program ignore stays ignored while a file is written.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no SIGTERM")
	}
	signal.Ignore(syscall.SIGTERM)
	defer func() { // signal.Reset leaves it ignored, and every program that later tests start
		came := make(chan os.Signal, 1)
		signal.Notify(came, syscall.SIGTERM)
		signal.Stop(came)
	}()
	came := make(chan os.Signal, 1)
	notifyEnding(came)
	defer signal.Stop(came)
	if !signal.Ignored(syscall.SIGTERM) || signal.Ignored(syscall.SIGINT) {
		t.Error("SIGTERM is not ignored any more")
	}
}

// failAt is a writer that fails after n bytes.
type failAt struct{ n int }

func (f *failAt) Write(p []byte) (int, error) {
	if len(p) > f.n {
		n := f.n
		f.n = 0
		return n, errors.New("disk full")
	}
	f.n -= len(p)
	return len(p), nil
}

// Wherever writing fails, the exit code says so.
func TestEveryWriteIsChecked(t *testing.T) {
	for _, args := range []string{"conv_example", "table conv_example --format csv", "table conv_example --format json",
		"models", "--help", "help table", "completion bash", "completion zsh", "gpus --format markdown", "version"} {
		full, _, code := try(t, strings.Fields(args)...)
		if code != exitOK {
			t.Fatalf("%s: exit code %d", args, code)
		}
		for n := 0; n < len(full); n += 1 + len(full)/50 {
			e := &env{stdin: strings.NewReader(""), stdout: &failAt{n}, stderr: io.Discard,
				getenv: func(string) string { return "" }}
			if code := run(context.Background(), e, strings.Fields(args)); code != exitOutput {
				t.Errorf("%s: exit code %d when writing fails after %d bytes, want %d", args, code, n, exitOutput)
			}
		}
	}
}

// JSON is ASCII: no name of a file acts on a terminal, and every reader gets it back.
func TestAsciiJSON(t *testing.T) {
	for _, name := range []string{"plain", "del\x7f", "csi\u009b31m", "turned \u202e text", "层 𝛼", "a\\b\"c\n"} {
		raw, err := json.Marshal(name)
		must.OK(t, err)
		escaped := asciiJSON(string(raw))
		var back string
		if err := json.Unmarshal([]byte(escaped), &back); err != nil || back != name {
			t.Errorf("%q became %s, which is %q: %v", name, escaped, back, err)
		}
		for _, r := range escaped {
			if r < ' ' || r > '~' {
				t.Errorf("%q became %q", name, escaped)
			}
		}
	}
}

// However long a name in a file is, what is told of it is a line that can be read.
func TestLongMessages(t *testing.T) {
	name := strings.Repeat("名", 100_000)
	got := oneLine("model.onnx: equation \"" + name + "\"\nhas 1 term for 2 inputs")
	if len(got) > report.MaxMessage+5 || !strings.HasPrefix(got, "model.onnx: equation") ||
		!strings.HasSuffix(got, "; has 1 term for 2 inputs") || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %.60s", len(got), got)
	}
}

// An error shows the symbols that a file gives sizes, and none of these acts on a terminal.
func TestErrorsDoNotAct(t *testing.T) {
	const symbol = "\x1b[31mred\u202edear\u009b1m"
	b := onnxtest.Model{Graph: onnxtest.Graph{
		In:    []onnxtest.Value{onnxtest.Float("x", 3, symbol)},
		Nodes: []onnxtest.Node{onnxtest.Op("Relu", "x", "y")},
		Out:   []onnxtest.Value{{Name: "y"}},
	}}.Bytes()
	var stdout, stderr bytes.Buffer
	e := &env{stdin: bytes.NewReader(b), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
	if code := run(context.Background(), e, []string{"table", "-"}); code != exitUsage {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	line, _, _ := strings.Cut(stderr.String(), "\n")
	if !strings.Contains(line, `\x1b[31mred\u202edear\u009b1m`) ||
		strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q", line)
	}
}

// What a driver calls its GPU acts in no table, terminal or page.
func TestNamesOfDevicesDoNotAct(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB": "NVIDIA A100-SXM4-80GB", "": "?", "a|b`c\x1b[2J": "a?b?c?[2J",
		"<img src=x>&amp;": "?img src=x??amp;", "\u202ex": "?x",
		"=cmd(1)!A0": "?cmd(1)!A0", "@octocat": "?octocat", "-2+3": "?2+3", "+x": "?x",
	} {
		if got := printable(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
}

// What a Prometheus server says of hosts and GPUs acts in no Markdown and no spreadsheet.
func TestNamesOfHostsDoNotAct(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, kind, sample := time.Now().Unix(), "vector", `"value":[%[1]d,"80000"]`
		switch r.ParseForm(); {
		case strings.HasSuffix(r.URL.Path, "query_range"):
			kind, sample = "matrix", `"values":[[%[1]d,"80000"]]`
		case strings.HasPrefix(r.FormValue("query"), "timestamp("):
			sample = `"value":[%[1]d,"%[1]d"]`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":%q,"result":[{"metric":{"gpu":"=cmd()","UUID":"u",`+
			`"modelName":"@octocat\u3164","Hostname":"<img src=//a.b>"},`, kind)
		fmt.Fprintf(w, sample+`}]}}`, now)
	}))
	defer server.Close()
	ask := func(format string) string {
		stdout, stderr, code := try(t, "where", "--need", "1GiB", "--prometheus", server.URL, "--format", format)
		if code != exitOK {
			t.Fatalf("%s: exit code %d: %s", format, code, stderr)
		}
		return stdout
	}
	if got := ask("markdown"); !strings.Contains(got, "| `\"<img src=//a.b>\"` | `?cmd()` | `?octocat?` |") {
		t.Errorf("Markdown:\n%s", got)
	}
	if got := ask("csv"); !strings.Contains(got, `"""<img src=//a.b>""",?cmd(),?octocat?,`) {
		t.Errorf("CSV:\n%s", got)
	}
	if got := report.Clean("a\u3164b\u115f"); got != `a\u3164b\u115f` {
		t.Errorf("letters that nobody sees: %q", got)
	}
}

// Where a result is cut into blocks makes no difference to its JSON.
func TestASCIIJSONOfBlocks(t *testing.T) {
	for _, text := range []string{"\"\\u00e9 …🙂 \u202e\"", "é…🙂", "\"\xff\xe2\x80 \xf0\x9f\"", "🙂🙂", "\x7f"} {
		want := asciiJSON(text)
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				for _, most := range []int{0, mostHeld} {
					var got bytes.Buffer
					h := &held{to: &got, most: most, ascii: true}
					for _, part := range []string{text[:i], text[i:j], text[j:]} {
						if _, err := io.WriteString(h, part); err != nil {
							t.Fatal(err)
						}
					}
					if err := h.end(); err != nil || got.String() != want {
						t.Fatalf("%q cut at %d and %d: %q, want %q: %v", text, i, j, got.String(), want, err)
					}
				}
			}
		}
	}
}
