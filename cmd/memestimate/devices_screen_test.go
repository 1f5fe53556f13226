//go:build linux && cgo

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// TestDevicesOnTerminal looks at the list in terminals of several widths: one line a GPU, within the width, with a bar
// of its memory and the processes by user.
func TestDevicesOnTerminal(t *testing.T) {
	self := os.Getpid()
	s := newSite(t, fmt.Sprintf(`driver 580.95.05
gpu uuid=GPU-0 total=85899345920 reserved=679477248 used=60000000000 util=97 temp=71 power=389400 name=NVIDIA A100-SXM4-80GB
gpu uuid=GPU-1 total=25769803776 reserved=415236096 used=2000000000 util=3 temp=41 power=20500 name=NVIDIA GeForce RTX 4090
gpu uuid=GPU-2 total=85899345920 reserved=679477248 mig=1 name=NVIDIA A100-SXM4-80GB
mig parent=2 uuid=MIG-1 gi=1 ci=0 total=42144366592 reserved=66000000 used=1000000000
gpu uuid=GPU-3 total=85899345920 reserved=679477248 fail=memory:15 name=NVIDIA A100-SXM4-80GB
gpu uuid=GPU-4 total=85899345920 reserved=679477248 used=84000000000 mode=3 name=NVIDIA A100-SXM4-80GB
proc gpu=0 pid=%d bytes=59000000000
proc gpu=4 pid=%d bytes=83000000000
proc gpu=1 pid=4194304 bytes=1000000000
`, self, self))
	holder := s.command("run", "--need", "20GiB", "--exclude", "0", "--exclude", "1", "--", "sleep", "60")
	check(t, holder.Start())
	defer holder.Wait()
	defer holder.Process.Kill()
	if !waitFor(func() bool { return s.reserved(t) == 1 }) {
		t.Fatal("the GPU is not held")
	}
	me, err := user.Current()
	check(t, err)
	show := func(columns uint16, environ ...string) string {
		term := newTerminal(t)
		size := [4]uint16{24, columns, 0, 0} // struct winsize: rows, columns
		ioctl(t, term.slave, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
		c := s.command("devices")
		c.Env = append(c.Env, append([]string{"LC_ALL=C.UTF-8", "NO_COLOR=", "FORCE_COLOR="}, environ...)...)
		term.start(t, c)
		check(t, c.Wait())
		if !waitFor(func() bool { return strings.Contains(term.text(), "\r\n?  ") }) {
			t.Fatalf("a terminal of %d columns shows %q", columns, term.text())
		}
		return term.text()
	}
	for _, columns := range []int{40, 60, 80, 200} {
		text := show(uint16(columns))
		if !strings.Contains(text, "\x1b[31m█") || !strings.Contains(text, "\x1b[33m█") ||
			!strings.Contains(text, "\x1b[34m▒") {
			t.Errorf("%d columns: no coloured bars in\n%s", columns, text)
		}
		lines := strings.Split(escapes.ReplaceAllString(text, ""), "\r\n")
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > columns {
				t.Errorf("a line of %d characters in a terminal of %d: %q", n, columns, line)
			}
		}
		for i, want := range []string{"GPU ", "0 ", "1 ", "2 ", "2 MIG 1/0 ", "3 ", "4 ", "GPU 4 cannot be used: ex", "",
			"GPU 2 MIG 1/0 is held by "} {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%d columns: line %d is %q, want %q", columns, i, lines[i], want)
			}
		}
	}
	wanted := []string{
		"GPU        name              memory                used/total  busy  temp  power",
		"0          A100-SXM4-80GB    ████████████░░░░░  55.9/80.0 GiB   97%  71°C   389W",
		"1          GeForce RTX 4090  █░░░░░░░░░░░░░░░░   1.9/24.0 GiB    3%  41°C    21W",
		"2          A100-SXM4-80GB    MIG is on: only its instances can be used",
		"2 MIG 1/0  A100-SXM4-80GB    █▒▒▒▒▒▒▒▒▒░░░░░░░   0.9/39.2 GiB",
		"3          A100-SXM4-80GB    memory: GPU is lost",
		"4          A100-SXM4-80GB    █████████████████  78.2/80.0 GiB",
		"GPU 4 cannot be used: exclusive-process mode, and a process has it",
	}
	text := show(80)
	if got := strings.Split(escapes.ReplaceAllString(text, ""), "\r\n")[:len(wanted)]; !slices.Equal(got, wanted) {
		t.Errorf("80 columns:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
	// the driver's numbers are ours
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns == "pid:[4026531836]" {
		row := regexp.MustCompile(fmt.Sprintf(`\r\n%s +132\.25 GiB +4 +%d +77\.30 GiB +\S+\r\n +0 +%d +54\.95 GiB`,
			regexp.QuoteMeta(me.Username), self, self))
		if !row.MatchString(text) {
			t.Errorf("no processes by user, %v, in\n%s", row, text)
		}
	}
	if text := show(80, "NO_COLOR=1", "LC_ALL=C"); strings.Contains(text, "\x1b") ||
		!strings.Contains(text, "############.....") ||
		!strings.Contains(text, "71C") {
		t.Errorf("without colours and UTF-8:\n%q", text)
	}
	c := s.command("devices")
	c.Env = append(c.Env, "COLUMNS=80", "LC_ALL=C.UTF-8")
	out, err := c.Output()
	check(t, err)
	if !strings.HasPrefix(string(out), strings.Join(wanted, "\n")) {
		t.Errorf("a pipe with COLUMNS=80 gets\n%s", out)
	}
	full := exec.Command(c.Path, "devices", "--full")
	full.Env = c.Env
	if out, err := full.Output(); err != nil || !strings.Contains(string(out), "usable") {
		t.Errorf("--full: %v\n%s", err, out)
	}
}
