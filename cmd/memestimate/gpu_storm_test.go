//go:build linux && cgo

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A stormLaunch is one launcher of a storm, as it is seen from outside.
type stormLaunch struct {
	started time.Time
	waiting time.Time // when it said that it waits; zero when it never did
	got     time.Time // when its job had the GPU
	words   bytes.Buffer
}

// Write takes what the launcher says on stderr.
func (l *stormLaunch) Write(p []byte) (int, error) {
	if l.waiting.IsZero() && bytes.Contains(p, []byte("waiting for a GPU")) {
		l.waiting = time.Now()
	}
	return l.words.Write(p)
}

// overtaken returns how many of the launches, all after any GPU for itself alone, got one more than a second later
// than one that was started only when they had said that they wait, and how many waited. A second is what a process may
// take to get going.
func overtaken(all []*stormLaunch) (n, waited int) {
	slices.SortFunc(all, func(a, b *stormLaunch) int { return a.started.Compare(b.started) })
	for _, a := range all {
		if a.waiting.IsZero() {
			continue
		}
		waited++
		later, _ := slices.BinarySearchFunc(all, a.waiting, func(b *stormLaunch, t time.Time) int {
			return b.started.Compare(t)
		})
		if slices.ContainsFunc(all[later:], func(b *stormLaunch) bool { return b.got.Add(time.Second).Before(a.got) }) {
			n++
		}
	}
	return n, waited
}

// TestOvertaken: a launcher that said that it waits may not see one that came afterwards go first.
func TestOvertaken(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	launch := func(started, waiting, got float64) *stormLaunch {
		l := &stormLaunch{started: at(started), got: at(got)}
		if waiting > 0 {
			l.waiting = at(waiting)
		}
		return l
	}
	for _, tt := range []struct {
		name      string
		all       []*stormLaunch
		n, waited int
	}{
		{"in order", []*stormLaunch{launch(0, 1, 5), launch(2, 3, 6), launch(4, 0, 7)}, 0, 2},
		{"one that came later goes first", []*stormLaunch{launch(2, 0, 4), launch(0, 1, 6)}, 1, 1},
		{"one that came before it said that it waits", []*stormLaunch{launch(0, 1, 6), launch(0.5, 0, 4)}, 0, 1},
		{"at about the same time", []*stormLaunch{launch(0, 1, 6), launch(2, 0, 5.5)}, 0, 1},
	} {
		if n, waited := overtaken(tt.all); n != tt.n || waited != tt.waited {
			t.Errorf("%s: %d of %d, want %d of %d", tt.name, n, waited, tt.n, tt.waited)
		}
	}
}

// TestStorm starts MEMESTIMATE_STORM launchers (120 otherwise; MEMESTIMATE_SEED says which, for storms side by side),
// some within others and some that share, while listings take 0 to 300 ms, launchers get signals, and somebody removes
// reservations, tickets, the host lock and the whole directory. The jobs themselves lock their GPU: two on one would
// show. None may be left waiting, none be overtaken by one that came after it, and nothing may be left held.
func TestStorm(t *testing.T) {
	launches, _ := strconv.Atoi(os.Getenv("MEMESTIMATE_STORM"))
	if launches == 0 {
		launches = 120
	}
	seed, _ := strconv.ParseUint(os.Getenv("MEMESTIMATE_SEED"), 10, 64)
	s := newSite(t, eightGPUs())
	r := rand.New(rand.NewPCG(20, 26+seed))
	stop := make(chan struct{})
	var vandals sync.WaitGroup
	vandals.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(200+r.IntN(600)) * time.Millisecond):
			}
			switch r.IntN(5) {
			case 0:
				os.RemoveAll(s.path("state"))
			case 1:
				os.Remove(s.path("state", "lock"))
			default:
				if names, _ := filepath.Glob(s.path("state", "*-*")); len(names) > 0 {
					os.Remove(names[r.IntN(len(names))])
				}
			}
			delay := []int{0, 0, 0, 5, 40, 300}[r.IntN(6)] // of each of 8 GPUs, which are asked at once
			os.WriteFile(s.path("machine.new"), []byte("delay "+strconv.Itoa(delay)+"\n"+eightGPUs()), 0o644)
			os.Rename(s.path("machine.new"), s.path("machine"))
		}
	})
	var doubles, failed, signalled, late, shared, nested atomic.Int64
	var mu sync.Mutex
	var alone []*stormLaunch
	slots := make(chan struct{}, 40)
	var wg sync.WaitGroup
	start := time.Now()
	for range launches {
		slots <- struct{}{}
		kind, ms, delay := r.IntN(10), 1+r.IntN(40), time.Duration(r.IntN(800))*time.Millisecond
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}[r.IntN(3)]
		wg.Go(func() {
			defer func() { <-slots }()
			c := s.job(ms)
			switch kind {
			case 0, 1: // a launcher within a launcher's command
				c = s.command("run", "--wait", "--need", "40GiB", "--", s.program, "run", "--wait", "--need", "30GiB", "--",
					s.path("job"), s.path("gpus"), strconv.Itoa(ms))
				nested.Add(1)
			case 2, 3:
				c = s.command("run", "--wait", "--share", "--need", "35GiB", "--", s.path("job"), s.path("gpus"),
					strconv.Itoa(ms), "share")
				shared.Add(1)
			}
			l := &stormLaunch{started: time.Now()}
			var out strings.Builder
			c.Stdout, c.Stderr = &out, l
			if err := c.Start(); err != nil {
				t.Error(err)
				return
			}
			sent := kind >= 7
			if sent {
				time.AfterFunc(delay, func() { c.Process.Signal(sig) })
			}
			patience := time.AfterFunc(3*time.Minute, func() { late.Add(1); c.Process.Kill() })
			c.Wait()
			patience.Stop()
			switch code := exitCode(c); {
			case code == 99:
				doubles.Add(1)
			case sent && code != 0:
				signalled.Add(1)
			case code != 0:
				failed.Add(1)
				t.Errorf("exit code %d: %s", code, l.words.String())
			case kind > 3:
				var ns int64
				if _, err := fmt.Sscan(out.String(), &ns); err != nil {
					t.Errorf("the job says %q", out.String())
				}
				l.got = time.Unix(0, ns)
				mu.Lock()
				alone = append(alone, l)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(stop)
	vandals.Wait()
	unfair, waited := overtaken(alone)
	t.Logf("%d launches in %v, %d nested and %d that share: %d doubles, %d failed, %d ended by signals, "+
		"%d waited more than 3 minutes, %d of %d were overtaken", launches, time.Since(start).Round(time.Second),
		nested.Load(), shared.Load(), doubles.Load(), failed.Load(), signalled.Load(), late.Load(), unfair, waited)
	if doubles.Load()+late.Load() > 0 || unfair > 0 {
		t.Error("jobs had one GPU together, a launcher was stuck, or one was overtaken")
	}
	if n := s.reserved(t); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}
