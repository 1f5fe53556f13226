package devices

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%s did not come", what)
		}
	}
}

// TestFIFO queues waiters one after the other for one GPU: they get it in their order, also
// when one in the middle is killed and one gives up.
func TestFIFO(t *testing.T) {
	s := state(t)
	first := hold(t, s, 1, HoldRequest{})
	const n, killed, givesUp = 6, 2, 4
	victim := launcher(s.Dir(), 1, "true")
	quit, giveUp := context.WithCancel(t.Context())
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range n {
		ctx := t.Context()
		if i == givesUp {
			ctx = quit
		}
		if i == killed {
			must.OK(t, victim.Start())
		} else {
			wg.Go(func() {
				h, err := s.Hold(ctx, func() ([]Device, error) { return cards(1), nil }, HoldRequest{Wait: true})
				if i == givesUp {
					var w *WaitError
					if !errors.As(err, &w) || !errors.Is(err, context.Canceled) {
						t.Errorf("the one that gave up got %v", err)
					}
					return
				}
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
		waitFor(t, "a ticket", func() bool { return len(tickets(t, s)) == i+1 })
	}
	victim.Process.Kill()
	victim.Wait()
	giveUp()
	waitFor(t, "the end of two tickets", func() bool { return len(tickets(t, s)) == n-2 })
	first.Release()
	wg.Wait()
	if want := []int{0, 1, 3, 5}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if left := files(t, s); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// tickets returns the live waiters' files, first come first.
func tickets(t *testing.T, s *State) []string {
	t.Helper()
	names, err := s.names(waitPrefix)
	must.OK(t, err)
	return slices.DeleteFunc(names, func(n string) bool { return !s.alive(n) })
}

// TestQueueIsPerDevice: a waiter for one GPU does not hold up those who want another, and one who
// wants what others wait for does not get past them.
func TestQueueIsPerDevice(t *testing.T) {
	s := state(t)
	only := func(i string) HoldRequest { return HoldRequest{Request: Request{Visible: &i}} }
	zero := hold(t, s, 2, only("0"))
	got := make(chan *Hold)
	go func() {
		r := only("0")
		r.Wait = true
		h, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(2), nil }, r)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	waitFor(t, "a ticket", func() bool { return len(tickets(t, s)) == 1 })
	one := hold(t, s, 2, HoldRequest{})
	if one.Devices[0].UUID != "GPU-1" {
		t.Errorf("held %s, want GPU-1", one.Devices[0].UUID)
	}
	// A look in the moment when GPU 0 is free and its waiter has not woken yet.
	unlock, err := s.lock(t.Context())
	must.OK(t, err)
	zero.Release()
	q := &queue{state: s, request: &HoldRequest{}}
	if h, err := q.choose(cards(2)); err == nil || !strings.Contains(err.Error(), "GPU 0 is waited for by others") {
		t.Errorf("a launcher that came later got %v, %v", h, err)
	}
	unlock()
	(<-got).Release()
	one.Release()
}

func TestTimeout(t *testing.T) {
	s := state(t)
	h := hold(t, s, 1, HoldRequest{Request: Request{Bytes: gib}, Command: "train.py"})
	start := time.Now()
	var seen []Waiting
	_, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(1), nil },
		HoldRequest{Wait: true, Timeout: 150 * time.Millisecond, Status: func(w Waiting) { seen = append(seen, w) }})
	if took := time.Since(start); !errors.Is(err, ErrTimeout) || took < 150*time.Millisecond || took > 10*time.Second {
		t.Errorf("%v after %v, want a timeout after 150ms", err, took)
	}
	if err == nil || !strings.Contains(err.Error(), "train.py)") {
		t.Errorf("error %q does not say who has the GPU", err)
	}
	if len(seen) == 0 || seen[0].Reason == nil {
		t.Errorf("status %+v", seen)
	}
	h.Release()
	if left := files(t, s); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestWaitingInVain(t *testing.T) {
	s := state(t)
	for _, r := range []HoldRequest{
		{Wait: true, Request: Request{Bytes: 81 * gib}},
		{Wait: true, Request: Request{Count: 2}},
	} {
		var never *Never
		if _, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(1), nil }, r); !errors.As(err, &never) {
			t.Errorf("%+v: got %v, want that waiting is in vain", r.Request, err)
		}
	}
	// An occupied exclusive GPU will be free again: worth the wait.
	busy := cards(1)
	busy[0].Mode, busy[0].Occupied, busy[0].Reason = ModeExclusiveProcess, true,
		"exclusive-process mode, and a process has it"
	n := 0
	h, err := s.Hold(t.Context(), func() ([]Device, error) {
		if n++; n < 3 {
			return busy, nil
		}
		return cards(1), nil
	}, HoldRequest{Wait: true})
	must.OK(t, err)
	h.Release()
	if left := files(t, s); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestStoppedWaiter: a waiter that somebody stopped loses its turn, not its place.
func TestStoppedWaiter(t *testing.T) {
	s := state(t)
	h := hold(t, s, 1, HoldRequest{})
	c := launcher(s.Dir(), 1, "true")
	must.OK(t, c.Start())
	waitFor(t, "a ticket", func() bool { return len(tickets(t, s)) == 1 })
	unlock, err := s.lock(t.Context()) // so that it is not stopped with the lock in its hand
	must.OK(t, err)
	c.Process.Signal(syscall.SIGSTOP)
	unlock()
	h.Release()
	waitFor(t, "its stop", func() bool { return stopped(c.Process.Pid, pidNamespace()) })
	hold(t, s, 1, HoldRequest{}).Release()
	c.Process.Signal(syscall.SIGCONT)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
