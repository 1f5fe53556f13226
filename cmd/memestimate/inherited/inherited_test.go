package inherited

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// This program, started with closed streams, knows which.
func TestClosed(t *testing.T) {
	if os.Getenv("INHERITED_TEST") != "" {
		file, err := os.Create(os.Getenv("INHERITED_TEST"))
		must.OK(t, err)
		for fd := range 3 {
			if Closed(fd) {
				file.WriteString(string(rune('0' + fd)))
			}
		}
		file.Close()
		return
	}
	if _, err := exec.LookPath("sh"); err != nil || !Known {
		t.Skip("no shell, or built without C")
	}
	self, err := os.Executable()
	must.OK(t, err)
	for redirection, want := range map[string]string{"": "", ">&-": "1", "<&- >&-": "01", "2>&-": "2", ">/dev/null": "",
		"<>/dev/null 1>&0": ""} {
		out := t.TempDir() + "/closed"
		cmd := exec.Command("sh", "-c", `"$0" -test.run TestClosed `+redirection, self)
		cmd.Env = append(os.Environ(), "INHERITED_TEST="+out)
		cmd.Run() // a test that cannot write its result fails
		if got, err := os.ReadFile(out); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%q: closed are %q, want %q: %v", redirection, got, want, err)
		}
	}
}

// This program, started by a shell that ignores signals, knows which.
func TestIgnored(t *testing.T) {
	if out := os.Getenv("INHERITED_TEST"); out != "" {
		var names []string
		for s := range 40 {
			if Ignored(s) {
				names = append(names, strconv.Itoa(s))
			}
		}
		os.WriteFile(out, []byte(strings.Join(names, " ")), 0o666)
		return
	}
	if _, err := exec.LookPath("sh"); err != nil || !Known {
		t.Skip("no shell, or built without C")
	}
	self, err := os.Executable()
	must.OK(t, err)
	for trap, ignored := range map[string][]int{"": nil, "trap '' TERM QUIT": {3, 15}, "trap '' HUP": {1}} {
		var names []string
		for s := range 40 { // no shell heeds again what it was started to ignore, as nohup does of 1
			if Ignored(s) || slices.Contains(ignored, s) {
				names = append(names, strconv.Itoa(s))
			}
		}
		want := strings.Join(names, " ")
		out := t.TempDir() + "/ignored"
		cmd := exec.Command("sh", "-c", trap+`
exec "$0" -test.run TestIgnored`, self)
		cmd.Env = append(os.Environ(), "INHERITED_TEST="+out)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if got, err := os.ReadFile(out); err != nil || string(got) != want {
			t.Errorf("%q: ignored are %q, want %q: %v", trap, got, want, err)
		}
	}
}
