package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// TestMain lets the test binary be a launcher: with HOLD_STATE set it holds one of $HOLD_GPUS
// GPUs and becomes the command of its arguments.
func TestMain(m *testing.M) {
	dir := os.Getenv("HOLD_STATE")
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := OpenState(dir)
	if err != nil {
		panic(err)
	}
	var n int
	fmt.Sscan(os.Getenv("HOLD_GPUS"), &n)
	h, err := s.Hold(context.Background(), func() ([]Device, error) { return cards(n), nil },
		HoldRequest{Request: Request{Bytes: gib}, Wait: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(125)
	}
	if err := h.Inherit(); err != nil {
		panic(err)
	}
	panic(syscall.Exec("/bin/sh", append([]string{"sh", "-c"}, os.Args[1:]...),
		append(os.Environ(), Environment(h.Devices)...)))
}

// launcher returns the command that holds one of n GPUs and then runs a shell line.
func launcher(dir string, n int, line string) *exec.Cmd {
	c := exec.Command(os.Args[0], line)
	c.Env = append(os.Environ(), "HOLD_STATE="+dir, fmt.Sprintf("HOLD_GPUS=%d", n))
	c.Stderr = os.Stderr
	return c
}

// cards returns n free GPUs of 80 GiB.
func cards(n int) []Device {
	var ds []Device
	for i := range n {
		ds = append(ds, Device{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: "A100", GPUInstance: -1, ComputeInstance: -1,
			HasMemory: true, Total: 80 * gib, Free: 80 * gib, KnowsProcesses: true})
	}
	return ds
}

func state(t *testing.T) *State {
	t.Helper()
	s, err := OpenState(filepath.Join(t.TempDir(), "state"))
	must.OK(t, err)
	return s
}

// records returns the live reservations.
func records(s *State) ([]record, error) {
	b, err := s.book()
	if err != nil {
		return nil, err
	}
	return b.records, nil
}

// files returns what a launcher that comes and goes finds and leaves in the state directory beside the host lock.
func files(t *testing.T, s *State) []string {
	t.Helper()
	if h, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(8), nil }, HoldRequest{}); err == nil {
		h.Release()
	}
	entries, err := os.ReadDir(s.Dir())
	must.OK(t, err)
	var names []string
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// hold is a Hold of n GPUs that must not fail.
func hold(t *testing.T, s *State, n int, r HoldRequest) *Hold {
	t.Helper()
	h, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(n), nil }, r)
	must.OK(t, err)
	return h
}

func TestHoldAndRelease(t *testing.T) {
	s := state(t)
	a := hold(t, s, 2, HoldRequest{Request: Request{Bytes: 10 * gib}})
	b := hold(t, s, 2, HoldRequest{Request: Request{Bytes: 10 * gib}})
	if a.Devices[0].UUID != "GPU-0" || b.Devices[0].UUID != "GPU-1" {
		t.Fatalf("held %s and %s", a.Devices[0].UUID, b.Devices[0].UUID)
	}
	var no *NoFit
	if _, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(2), nil }, HoldRequest{}); !errors.As(err,
		&no) || !strings.Contains(err.Error(), "is held by process") {
		t.Errorf("a third launcher got %v", err)
	}
	ds := cards(2)
	must.OK(t, s.Attach(ds))
	if r := ds[0].Reservations; len(r) != 1 || r[0].ID != a.ID || r[0].Bytes != 10*gib || r[0].Outstanding != 10*gib ||
		r[0].PID != os.Getpid() || r[0].User == "" {
		t.Errorf("reservations %+v", r)
	}
	if out, err := json.Marshal(ds); err != nil || !strings.Contains(string(out), `"outstanding_bytes":10737418240`) {
		t.Errorf("JSON %s, %v", out, err)
	}
	a.Release()
	c := hold(t, s, 2, HoldRequest{Request: Request{Bytes: 10 * gib, Count: 1}})
	if c.Devices[0].UUID != "GPU-0" {
		t.Errorf("held %s, want the one released", c.Devices[0].UUID)
	}
	nested := hold(t, s, 2, HoldRequest{Request: Request{Bytes: gib, Held: c.ID}})
	if nested.Devices[0].UUID != "GPU-0" {
		t.Errorf("within a reservation: held %s, want GPU-0", nested.Devices[0].UUID)
	}
	for _, h := range []*Hold{b, c, nested} {
		h.Release()
	}
	if left := files(t, s); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestShare(t *testing.T) {
	s := state(t)
	share := func(bytes uint64) (*Hold, error) {
		return s.Hold(t.Context(), func() ([]Device, error) { return cards(1), nil },
			HoldRequest{Request: Request{Bytes: bytes, Share: true}})
	}
	a, err := share(50 * gib)
	must.OK(t, err)
	b, err := share(30 * gib)
	must.OK(t, err)
	if _, err := share(1); err == nil || !strings.Contains(err.Error(), "comes closest with 0 B, 1 B short") {
		t.Errorf("a third that does not fit got %v", err)
	}
	a.Release()
	c, err := share(50 * gib)
	must.OK(t, err)
	b.Release()
	c.Release()
}

// TestOutstanding follows a job that takes its memory: what the driver shows no longer counts twice.
func TestOutstanding(t *testing.T) {
	rec := record{ID: "r", Grants: []grant{{UUID: "GPU-0", Bytes: 30 * gib, Base: 5 * gib}}, Share: true, PID: 100,
		PIDNamespace: initialNamespace}
	later := record{ID: "s", Grants: []grant{{UUID: "GPU-0", Bytes: 10 * gib, Base: 6 * gib}}, Share: true, PID: 200,
		PIDNamespace: initialNamespace, Started: time.Unix(1, 0)}
	children := map[int]int{101: 100, 201: 200}
	tree := func(pid int, of *record) bool { return pid == of.PID || children[pid] == of.PID }
	for _, tt := range []struct {
		name  string
		used  uint64
		procs []Process
		known bool
		tree  func(int, *record) bool
		want  []uint64 // outstanding
	}{
		{"nothing yet", 5 * gib, nil, true, tree, []uint64{30 * gib, 10 * gib}},
		{"part of it", 17 * gib, []Process{{PID: 100, Bytes: 12 * gib, Known: true}}, true, tree,
			[]uint64{18 * gib, 10 * gib}},
		{"a child has it", 25 * gib, []Process{{PID: 101, Bytes: 20 * gib, Known: true}}, true, tree,
			[]uint64{10 * gib, 10 * gib}},
		{"a stranger's memory is no excuse", 45 * gib, []Process{{PID: 300, Bytes: 40 * gib, Known: true}}, true, tree,
			[]uint64{30 * gib, 10 * gib}},
		{"more than asked for", 55 * gib, []Process{{PID: 100, Bytes: 50 * gib, Known: true}}, true, tree,
			[]uint64{0, 10 * gib}},
		{"by device in a container", 17 * gib, nil, true, nil, []uint64{18 * gib, 10 * gib}},
		{"by device, both", 40 * gib, nil, true, nil, []uint64{0, 5 * gib}},
		{"by device where processes are secret", 17 * gib, nil, false, tree, []uint64{18 * gib, 10 * gib}},
		{"by device, memory freed since", 2 * gib, nil, true, nil, []uint64{30 * gib, 10 * gib}},
	} {
		ds := cards(1)
		ds[0].Used, ds[0].Free, ds[0].Processes, ds[0].KnowsProcesses = tt.used, 80*gib-tt.used, tt.procs, tt.known
		attach(ds, []record{later, rec}, tt.tree)
		var got []uint64
		for _, r := range ds[0].Reservations {
			got = append(got, r.Outstanding)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: outstanding %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestLockDiesWithCommand: the reservation passes to the command by exec and ends with it.
func TestLockDiesWithCommand(t *testing.T) {
	s := state(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		c := launcher(s.Dir(), 1, "sleep 60 & wait")
		must.OK(t, c.Start())
		waitFor(t, "the reservation", func() bool { r, _ := records(s); return len(r) == 1 && r[0].PID == c.Process.Pid })
		// The shell's child has the descriptor too; ending the shell alone frees nothing.
		child := 0
		waitFor(t, "the command's child", func() bool {
			out, _ := exec.Command("pgrep", "-P", fmt.Sprint(c.Process.Pid), "-x", "sleep").Output()
			n, _ := fmt.Sscan(string(out), &child)
			return n == 1
		})
		c.Process.Signal(sig)
		c.Wait()
		if r, _ := records(s); len(r) != 1 {
			t.Errorf("%v: %d reservations while a child of the command lives, want 1", sig, len(r))
		}
		syscall.Kill(child, syscall.SIGKILL)
		waitFor(t, "the end of the reservation", func() bool { r, _ := records(s); return len(r) == 0 })
	}
	if left := files(t, s); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestDeletedLock: a lock that a cleaner deleted while it was waited for is worth nothing.
func TestDeletedLock(t *testing.T) {
	s := state(t)
	unlock, err := s.lock(t.Context())
	must.OK(t, err)
	second := make(chan func() bool)
	go func() {
		u, err := s.lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		second <- u
	}()
	time.Sleep(20 * time.Millisecond)
	must.OK(t, os.Remove(s.path(lockName)))
	third, err := s.lock(t.Context()) // on the new file
	must.OK(t, err)
	unlock() // wakes the second, on the old file
	select {
	case <-second:
		t.Fatal("two launchers have the host lock")
	case <-time.After(50 * time.Millisecond):
	}
	third()
	(<-second)()

	must.OK(t, os.RemoveAll(s.Dir()))
	hold(t, s, 1, HoldRequest{}).Release()
}

func TestHostileState(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(dir string) error
		want string
	}{
		{"a file", func(d string) error { return os.WriteFile(d, nil, 0o644) }, "is not a directory"},
		{"a link", func(d string) error { return os.Symlink(os.TempDir(), d) }, "is a symbolic link"},
		{"others may delete", func(d string) error { return errors.Join(os.Mkdir(d, 0o777), os.Chmod(d, 0o777)) },
			"others can delete"},
		{"no parent", func(string) error { return nil }, "no such file"},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		must.OK(t, tt.make(dir))
		if tt.name == "no parent" {
			dir = filepath.Join(dir, "deeper")
		}
		if _, err := OpenState(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	// Files that are not what they seem neither hang nor hurt.
	s := state(t)
	syscall.Mkfifo(s.path(holdPrefix+"fifo"), 0o666)
	os.Symlink("/dev/zero", s.path(holdPrefix+"link"))
	os.Mkdir(s.path(waitPrefix+"dir"), 0o777)
	bad, err := s.create(holdPrefix+"garbage", strings.Repeat("x", 100))
	must.OK(t, err)
	defer bad.Close()
	liar, err := s.create(holdPrefix+"liar", record{Grants: []grant{{UUID: "GPU-1", Bytes: ^uint64(0)}}, User: "a\nb",
		Command: "$(rm)"})
	must.OK(t, err)
	defer liar.Close()
	h := hold(t, s, 2, HoldRequest{})
	if h.Devices[0].UUID != "GPU-0" {
		t.Errorf("held %s", h.Devices[0].UUID)
	}
	_, err = s.Hold(t.Context(), func() ([]Device, error) { return cards(2), nil }, HoldRequest{})
	if err == nil || !strings.Contains(err.Error(), `("a\nb", "$(rm)")`) {
		t.Errorf("error %v does not quote what others wrote", err)
	}
	h.Release()
}

func TestStateModes(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	s := state(t)
	h := hold(t, s, 1, HoldRequest{})
	defer h.Release()
	for name, want := range map[string]os.FileMode{"": os.ModeDir | os.ModeSticky | 0o777, lockName: 0o622,
		holdPrefix + h.ID: 0o644} {
		fi, err := os.Stat(s.path(name))
		must.OK(t, err)
		if fi.Mode() != want {
			t.Errorf("%q has mode %v, want %v", name, fi.Mode(), want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	if got := strings.Join(Environment(cards(2)),
		" "); got != "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=GPU-0,GPU-1" {
		t.Errorf("got %s", got)
	}
}
