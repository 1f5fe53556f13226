//go:build linux && cgo

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/memestimate/memestimate/test/must"
)

// A terminal is a pseudo-terminal and what was written to it.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	output        bytes.Buffer
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { master.Close() })
	var unlock, number int32
	ioctl(t, master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlock))
	ioctl(t, master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must.OK(t, err)
	t.Cleanup(func() { slave.Close() })
	term := &terminal{master: master, slave: slave}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			term.mu.Lock()
			term.output.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return term
}

func ioctl(t *testing.T, f *os.File, request uintptr, arg unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
		t.Fatal(errno)
	}
}

func (m *terminal) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.output.String()
}

// modes returns the terminal's settings.
func (m *terminal) modes(t *testing.T) (v syscall.Termios) {
	ioctl(t, m.slave, syscall.TCGETS, unsafe.Pointer(&v))
	return v
}

// start runs a command as the leader of a session on the terminal.
func (m *terminal) start(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Stdin, c.Stdout, c.Stderr = m.slave, m.slave, m.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.Env = append(c.Env, "TERM=xterm", "COLUMNS=")
	must.OK(t, c.Start())
}

// TestWaitOnTerminal: the status is one line that goes away, ^C ends the wait, and the terminal
// is as it was.
func TestWaitOnTerminal(t *testing.T) {
	s := newSite(t, strings.SplitAfter(eightGPUs(), "\n")[1])
	holder := s.job(60_000)
	must.OK(t, holder.Start())
	defer holder.Wait()
	defer holder.Process.Kill()
	if !waitFor(func() bool { return s.reserved(t) == 1 }) {
		t.Fatal("the GPU is not held")
	}
	term := newTerminal(t)
	before := term.modes(t)
	waiter := s.job(1)
	term.start(t, waiter)
	if !waitFor(func() bool { return strings.Contains(term.text(), "so far: no GPU has") }) {
		t.Fatalf("no status: %q", term.text())
	}
	_, err := term.master.Write([]byte{3})
	must.OK(t, err)
	waiter.Wait()
	if code := exitCode(waiter); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if !waitFor(func() bool { return strings.Contains(term.text(), "ended by signal 2") }) {
		t.Errorf("terminal shows %q", term.text())
	}
	text := term.text()
	status, end, _ := strings.Cut(text, "\r\x1b[K")
	if strings.Contains(status, "\n") || strings.Count(end, "\n") != 1 ||
		!strings.Contains(end, "memestimate: run: ended by signal 2 after waiting") {
		t.Errorf("terminal shows %q", text)
	}
	if after := term.modes(t); after != before {
		t.Errorf("the terminal's modes are %+v, were %+v", after, before)
	}
}

// TestTraceOnTerminal: ^C reaches the command once, and trace goes on until the command ends.
func TestTraceOnTerminal(t *testing.T) {
	s := newSite(t, eightGPUs())
	term := newTerminal(t)
	c := s.command("trace", "--", "sh", "-c",
		`n=0; trap 'n=$((n+1))' INT; echo ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.03; done; echo count=$n; exit 6`)
	term.start(t, c)
	if !waitFor(func() bool { return strings.Contains(term.text(), "ready") }) {
		t.Fatalf("terminal shows %q", term.text())
	}
	_, err := term.master.Write([]byte{3})
	must.OK(t, err)
	c.Wait()
	if code := exitCode(c); code != 6 {
		t.Errorf("exit code %d, want 6", code)
	}
	if !waitFor(func() bool { return strings.Contains(term.text(), "exit code 6") }) ||
		!strings.Contains(term.text(), "count=1") {
		t.Errorf("terminal shows %q", term.text())
	}
}

// TestNamespaces: a launcher with process numbers of its own, as in a container, and one outside see
// each other's reservations.
func TestNamespaces(t *testing.T) {
	s := newSite(t, strings.SplitAfter(eightGPUs(), "\n")[1])
	inside := s.job(60_000)
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := inside.Start(); err != nil {
		t.Skip("no new process-number namespace here: ", err)
	}
	defer inside.Wait()
	defer inside.Process.Kill()
	if !waitFor(func() bool { return s.reserved(t) == 1 }) {
		t.Fatal("the reservation does not show outside")
	}
	out, err := s.command("run", "--need", "1GiB", "--", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "GPU 0 is held by process 1 (") {
		t.Errorf("outside: %v, %s", err, out)
	}
	inside.Process.Kill()
	inside.Wait()
	outside := s.job(60_000)
	must.OK(t, outside.Start())
	defer outside.Wait()
	defer outside.Process.Kill()
	if !waitFor(func() bool { return s.reserved(t) == 1 }) {
		t.Fatal("the outer launcher does not get the GPU")
	}
	second := s.command("run", "--need", "1GiB", "--", "true")
	second.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err = second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprintf("GPU 0 is held by process %d (", outside.Process.Pid)) {
		t.Errorf("inside: %v, %s", err, out)
	}
}

// TestWidthOfTerminal: without COLUMNS the width is the terminal's own.
func TestWidthOfTerminal(t *testing.T) {
	program, err := exec.LookPath("memestimate")
	must.OK(t, err)
	term := newTerminal(t)
	size := [4]uint16{24, 52, 0, 0} // struct winsize: rows, columns
	ioctl(t, term.slave, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	c := exec.Command(program, "resnet18", "--batch", "2", "--full")
	c.Env = os.Environ()
	term.start(t, c)
	must.OK(t, c.Wait())
	if !waitFor(func() bool { return strings.Contains(term.text(), "\r\nsafe ") }) {
		t.Fatalf("terminal shows %q", term.text())
	}
	for line := range strings.SplitSeq(term.text(), "\r\n") {
		if len(line) > 52 {
			t.Errorf("a line of %d characters in a terminal of 52: %q", len(line), line)
		}
	}
}
