//go:build linux && cgo

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// TestManyUsers runs launchers of several users, with the strictest umask, in one state directory.
func TestManyUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can act as several users")
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	s := newSite(t, eightGPUs())
	// written under that umask
	for _, name := range []string{"job", "machine", "gpus", "memestimate", "driver/libnvidia-ml.so.1"} {
		must.OK(t, os.Chmod(s.path(name), 0o755))
	}
	for i := range 8 {
		for _, part := range []string{"", ".1", ".2"} {
			must.OK(t, os.Chmod(s.path("gpus", fmt.Sprintf("GPU-%d%s", i, part)), 0o644))
		}
	}
	must.OK(t, os.Mkdir(s.path("shared"), 0o777))
	must.OK(t, os.Chmod(s.path("shared"), 0o777|os.ModeSticky))
	s.env = append(s.env, "MEMESTIMATE_STATE_DIR="+s.path("shared", "state"))
	as := func(c *exec.Cmd, user int) *exec.Cmd {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		return c
	}
	var wg sync.WaitGroup
	for i := range 80 {
		wg.Go(func() {
			c := as(s.job(50), 20000+i%5)
			if i%5 == 4 {
				c = s.job(50) // root among them
			}
			kill := i%10 == 3
			var out strings.Builder
			c.Stdout, c.Stderr = &out, &out
			if err := c.Start(); err != nil {
				t.Error(err)
				return
			}
			if kill {
				time.AfterFunc(time.Duration(i)*5*time.Millisecond, func() { c.Process.Kill() })
			}
			c.Wait()
			if code := exitCode(c); code != 0 && !(kill && code == -int(syscall.SIGKILL)) {
				t.Errorf("user %d: exit code %d: %s", i%5, code, out.String())
			}
		})
	}
	wg.Wait()
	if n := s.reserved(t); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
	// One user's stale files are no other's trouble, and one's reservation is seen by all.
	held := as(s.job(5000), 20000)
	must.OK(t, held.Start())
	defer held.Wait()
	defer held.Process.Kill()
	if !waitFor(func() bool { return s.reserved(t) == 1 }) {
		t.Fatal("the reservation does not show")
	}
	out, err := as(s.command("run", "--print", "--policy", "first", "--need", "1GiB"), 20001).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "GPU-1\n") {
		t.Errorf("another user got %v\n%s", err, out)
	}
}

// TestSignalsAtAnyTime ends launchers with signals at random moments of their way from start to command:
// they end with the signal's code, and nothing is left held.
func TestSignalsAtAnyTime(t *testing.T) {
	s := newSite(t, eightGPUs())
	r := rand.New(rand.NewPCG(7, 7))
	for i, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		var wg sync.WaitGroup
		for range 30 {
			delay := time.Duration(r.IntN(60_000)) * time.Microsecond
			wg.Go(func() {
				c := s.job(10_000)
				if err := c.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(delay)
				c.Process.Signal(sig)
				c.Wait()
				if code := exitCode(c); code != -int(sig) && code != exitSignal+int(sig) {
					t.Errorf("%v after %v: exit code %d", sig, delay, code)
				}
			})
			if r.IntN(4) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		wg.Wait()
		if n := s.reserved(t); n != 0 {
			t.Errorf("round %d: %d reservations are left", i, n)
		}
	}
}

// TestWaitingCosts measures the processor time of launchers that wait, the first in the queue and one behind it.
func TestWaitingCosts(t *testing.T) {
	s := newSite(t, strings.Join(strings.SplitAfter(eightGPUs(), "\n")[:2], "")) // one GPU
	holder := s.job(60_000)
	must.OK(t, holder.Start())
	defer holder.Wait()
	defer holder.Process.Kill()
	if !waitFor(func() bool { return s.reserved(t) == 1 }) {
		t.Fatal("the GPU is not held")
	}
	var waiters []*exec.Cmd
	for range 2 {
		c := s.job(1)
		must.OK(t, c.Start())
		defer c.Wait()
		defer c.Process.Kill()
		waiters = append(waiters, c)
		if !waitFor(func() bool { l, _ := filepath.Glob(s.path("state", "wait-*")); return len(l) == len(waiters) }) {
			t.Fatal("the launcher does not wait")
		}
	}
	time.Sleep(1500 * time.Millisecond) // past the quick first looks
	before := []time.Duration{runTime(t, waiters[0]), runTime(t, waiters[1])}
	const window = 4 * time.Second
	time.Sleep(window)
	for i, c := range waiters {
		share := float64(runTime(t, c)-before[i]) / float64(window)
		t.Logf("waiter %d in the queue takes %.3f %% of a core", i+1, 100*share)
		if share > 0.01 {
			t.Errorf("waiter %d takes %.2f %% of a core, want less than 1", i+1, 100*share)
		}
	}
}

// runTime returns the processor time that all threads of a process have had.
func runTime(t *testing.T, c *exec.Cmd) (sum time.Duration) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.Process.Pid))
	if err != nil || len(tasks) == 0 {
		t.Skip("the kernel does not tell processor times in /proc/PID/schedstat")
	}
	for _, name := range tasks {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		var ns int64
		fmt.Sscan(string(b), &ns)
		sum += time.Duration(ns)
	}
	return sum
}
