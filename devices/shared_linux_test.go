package devices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

func listing(n int) func() ([]Device, error) {
	return func() ([]Device, error) { return cards(n), nil }
}

// TestInnerLauncher: a launcher within a command uses what that one holds, also when others wait for its end.
func TestInnerLauncher(t *testing.T) {
	s := state(t)
	outer := hold(t, s, 1, HoldRequest{})
	got := make(chan *Hold)
	go func() {
		h, err := s.Hold(t.Context(), listing(1), HoldRequest{Request: Request{Bytes: gib}, Wait: true})
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	waitFor(t, "a ticket", func() bool { return len(tickets(t, s)) == 1 })
	within := HoldRequest{Request: Request{Bytes: gib, Held: outer.ID}, Wait: true, Timeout: 5 * time.Second}
	inner := hold(t, s, 1, within)
	within.Held = inner.ID
	innermost := hold(t, s, 1, within)
	// What they reserved is part of the outermost reservation.
	ds := cards(1)
	must.OK(t, s.Attach(ds))
	if got := ds[0].Available(); got != 79*gib {
		t.Errorf("%s available beside three reservations one within the other, want 79 GiB", FormatBytes(got))
	}
	for _, h := range []*Hold{innermost, inner, outer} {
		h.Release()
	}
	(<-got).Release()
	// It has no claim to anything else.
	outer = hold(t, s, 2, HoldRequest{})
	defer outer.Release()
	if _, err := s.Hold(t.Context(), listing(2), HoldRequest{Request: Request{Count: 2, Held: outer.ID},
		Wait: true}); err == nil ||
		!strings.Contains(err.Error(), "GPU 1 is not part of the reservation that this runs under") {
		t.Errorf("two GPUs within a reservation of one: %v", err)
	}
}

// TestInnerSharers: two commands that share a GPU may each start one that does not ask to share.
func TestInnerSharers(t *testing.T) {
	s := state(t)
	var outer, inner []*Hold
	for range 2 {
		outer = append(outer, hold(t, s, 1, HoldRequest{Request: Request{Bytes: 30 * gib, Share: true}}))
	}
	for _, o := range outer {
		inner = append(inner, hold(t, s, 1, HoldRequest{Request: Request{Bytes: 20 * gib, Held: o.ID}, Wait: true,
			Timeout: 5 * time.Second}))
	}
	var never *Never
	_, err := s.Hold(t.Context(), listing(1), HoldRequest{Request: Request{Bytes: 40 * gib, Held: outer[0].ID},
		Wait: true})
	if !errors.As(err, &never) || !strings.Contains(err.Error(), "has 30.00 GiB of it") {
		t.Errorf("more than the share that it runs under: %v", err)
	}
	for _, h := range append(inner, outer...) {
		h.Release()
	}
}

// TestOldTicket: a waiter keeps its place however long it was silent, and whatever the clock says.
func TestOldTicket(t *testing.T) {
	s := state(t)
	h := hold(t, s, 1, HoldRequest{})
	slow := make(chan struct{})
	var once sync.Once
	got := make(chan *Hold)
	go func() {
		first := true
		h, err := s.Hold(t.Context(), func() ([]Device, error) {
			if !first {
				<-slow // its listing takes as long as we like
			}
			first = false
			return cards(1), nil
		}, HoldRequest{Wait: true})
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	defer once.Do(func() { close(slow) })
	waitFor(t, "a ticket", func() bool { return len(tickets(t, s)) == 1 })
	past := time.Now().Add(-time.Hour)
	must.OK(t, os.Chtimes(s.path(tickets(t, s)[0]), past, past))
	h.Release()
	time.Sleep(50 * time.Millisecond)
	if h, err := s.Hold(t.Context(), listing(1), HoldRequest{}); err == nil {
		t.Errorf("a newcomer got %s before the one that waits", h.Devices[0].UUID)
	}
	once.Do(func() { close(slow) })
	(<-got).Release()
}

// TestRemovedState: reservations and places in the queue outlive the removal of their files.
func TestRemovedState(t *testing.T) {
	s := state(t)
	h := hold(t, s, 2, HoldRequest{})
	must.OK(t, os.Remove(s.path(holdPrefix+h.ID)))
	second := hold(t, s, 2, HoldRequest{})
	if second.Devices[0].UUID != "GPU-1" {
		t.Errorf("a launcher got %s, whose reservation somebody deleted", second.Devices[0].UUID)
	}
	must.OK(t, os.RemoveAll(s.Dir()))
	_, err := s.Hold(t.Context(), listing(2), HoldRequest{})
	if err == nil || strings.Count(err.Error(), "is held by a process whose reservation somebody deleted") != 2 {
		t.Errorf("after the directory was removed: %v", err)
	}
	inner := hold(t, s, 2, HoldRequest{Request: Request{Held: h.ID}})
	if inner.Devices[0].UUID != "GPU-0" {
		t.Errorf("within a deleted reservation of GPU-0: %s", inner.Devices[0].UUID)
	}
	inner.Release()
	other := state(t)
	hold(t, other, 1, HoldRequest{}).Release() // another directory knows nothing of it
	h.Release()
	second.Release()
	hold(t, s, 2, HoldRequest{Request: Request{Count: 2}}).Release()
}

// TestRemovedTickets: waiters whose tickets are removed keep their order, and nobody gets in front of them.
func TestRemovedTickets(t *testing.T) {
	s := state(t)
	h := hold(t, s, 1, HoldRequest{})
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	wait := func(i int) {
		wg.Go(func() {
			h, err := s.Hold(t.Context(), listing(1), HoldRequest{Wait: true})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			h.Release()
		})
	}
	for i := range 3 {
		wait(i)
		waitFor(t, "a ticket", func() bool { return len(tickets(t, s)) == i+1 })
	}
	unlock, err := s.lock(t.Context())
	must.OK(t, err)
	for _, name := range tickets(t, s) {
		os.Remove(s.path(name))
	}
	h.Release()
	unlock()
	wait(3)
	wg.Wait()
	if fmt.Sprint(order) != "[0 1 2 3]" {
		t.Errorf("order %v", order)
	}
}

func TestDriverFailsForAWhile(t *testing.T) {
	s := state(t)
	n := 0
	h, err := s.Hold(t.Context(), func() ([]Device, error) {
		if n++; n < 5 {
			return nil, codeUnknown
		}
		return cards(1), nil
	}, HoldRequest{Wait: true})
	must.OK(t, err)
	h.Release()
	if _, err := s.Hold(t.Context(), func() ([]Device, error) { return nil, codeUnknown }, HoldRequest{}); !errors.Is(err,
		codeUnknown) {
		t.Errorf("without waiting: %v", err)
	}
}

// TestForeignLocks: locks that others may take on what they can read keep nobody out.
func TestForeignLocks(t *testing.T) {
	s := state(t)
	hold(t, s, 1, HoldRequest{}).Release()
	foreign, err := os.Open(s.path(lockName))
	must.OK(t, err)
	defer foreign.Close()
	must.OK(t, syscall.Flock(int(foreign.Fd()), syscall.LOCK_SH))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	h, err := s.Hold(ctx, listing(1), HoldRequest{})
	must.OK(t, err)
	// A stale reservation does not live because a reader has it locked.
	name := s.path(holdPrefix + "stale")
	must.Write(t, name, []byte(`{"grants":[{"uuid":"GPU-0"}]}`))
	h.Release()
	reader, err := os.Open(name)
	must.OK(t, err)
	defer reader.Close()
	must.OK(t, syscall.Flock(int(reader.Fd()), syscall.LOCK_EX))
	hold(t, s, 1, HoldRequest{}).Release()
}

// TestLeftBehind: what a command leaves behind is named as the holder.
func TestLeftBehind(t *testing.T) {
	s := state(t)
	c := launcher(s.Dir(), 1, "sleep 61 & exit 0")
	must.OK(t, c.Run())
	// The shell is gone at once, its child may not yet have become sleep.
	var out []byte
	waitFor(t, "the program left behind", func() bool {
		out, _ = exec.Command("pgrep", "-f", "^sleep 61$").Output()
		return len(out) > 0
	})
	var pid int
	fmt.Sscan(string(out), &pid)
	defer syscall.Kill(pid, syscall.SIGKILL)
	want := fmt.Sprintf("GPU 0 is held by process %d (%s, sleep), which process %d (", pid, userName(), c.Process.Pid)
	waitFor(t, "the program's name", func() bool { return commandOf(pid) == "sleep" })
	if _, err := s.Hold(t.Context(), listing(1), HoldRequest{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	ds := cards(1)
	if err := s.Attach(ds); err != nil || len(ds[0].Reservations) != 1 {
		t.Fatalf("%v, %+v", err, ds[0].Reservations)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	waitFor(t, "a clean directory", func() bool { return len(files(t, s)) == 0 })
}

// TestOwner: whose the state directory is.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	s := state(t)
	hold(t, s, 1, HoldRequest{}).Release()
	must.OK(t, os.Chown(s.Dir(), 20000, 20000))
	if got := s.Owner(); got != "20000" {
		t.Errorf("the directory of user 20000 belongs to %q", got)
	}
}

// TestContainers follows the memory of commands in containers, whose processes are not among those that this namespace
// numbers alike.
func TestContainers(t *testing.T) {
	boxed := record{ID: "b", Grants: []grant{{UUID: "GPU-0", Bytes: 30 * gib, Base: 10 * gib,
		Before: map[int]uint64{7: 10 * gib}}}, PID: 5, PIDNamespace: 99, Start: 1234}
	for _, tt := range []struct {
		name  string
		procs []Process
		tree  func(int, *record) bool
		want  uint64
	}{
		{"its process is known by number and start", []Process{{PID: 7, Bytes: 10 * gib, Known: true},
			{PID: 900, Bytes: 20 * gib, Known: true}},
			func(pid int, of *record) bool { return pid == 900 && of.Start == 1234 }, 10 * gib},
		{"a stranger's growth is not its own", []Process{{PID: 7, Bytes: 30 * gib, Known: true}}, nil, 30 * gib},
		{"from within, what came since is its own", []Process{{PID: 7, Bytes: 10 * gib, Known: true},
			{PID: 900, Bytes: 20 * gib, Known: true}}, nil, 10 * gib},
	} {
		ds := cards(1)
		ds[0].Processes, ds[0].Used = tt.procs, 30*gib
		attach(ds, []record{boxed}, tt.tree)
		if got := ds[0].Reservations[0].Outstanding; got != tt.want {
			t.Errorf("%s: outstanding %s, want %s", tt.name, FormatBytes(got), FormatBytes(tt.want))
		}
	}
}

// TestOtherNamespace: a process in a namespace of its own is known by the number that it has there.
func TestOtherNamespace(t *testing.T) {
	if pidNamespace() != initialNamespace {
		t.Skip("process numbers here are not the host's")
	}
	c := exec.Command("sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := c.Start(); err != nil {
		t.Skip("no new process-number namespace here: ", err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	st, err := statOf(c.Process.Pid)
	must.OK(t, err)
	tree := ownTree()
	if !tree(c.Process.Pid, &record{PID: 1, PIDNamespace: 99, Start: st.start}) {
		t.Error("the process is not the one that is number 1 in its namespace")
	}
	if tree(c.Process.Pid, &record{PID: 1, PIDNamespace: 99, Start: st.start + 1}) ||
		tree(c.Process.Pid, &record{PID: 2, PIDNamespace: 99, Start: st.start}) {
		t.Error("the process is taken for another")
	}
}
