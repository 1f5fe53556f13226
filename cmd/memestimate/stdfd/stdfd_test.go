package stdfd

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// This program, started with closed streams, knows which.
func TestClosed(t *testing.T) {
	if os.Getenv("STDFD_TEST") != "" {
		file, err := os.Create(os.Getenv("STDFD_TEST"))
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	for redirection, want := range map[string]string{"": "", ">&-": "1", "<&- >&-": "01", "2>&-": "2", ">/dev/null": "", "<>/dev/null 1>&0": ""} {
		out := t.TempDir() + "/closed"
		cmd := exec.Command("sh", "-c", `"$0" -test.run TestClosed `+redirection, self)
		cmd.Env = append(os.Environ(), "STDFD_TEST="+out)
		cmd.Run() // a test that cannot write its result fails
		if got, err := os.ReadFile(out); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%q: closed are %q, want %q: %v", redirection, got, want, err)
		}
	}
}
