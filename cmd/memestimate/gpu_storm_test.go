//go:build linux && cgo

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestStorm starts MEMESTIMATE_STORM launchers (120 otherwise), some within others, while listings are slow, launchers
// get signals, and somebody removes reservations, tickets, the host lock and the whole directory. The jobs themselves
// lock their GPU: two on one would show. None may be left waiting, and nothing may be left held.
func TestStorm(t *testing.T) {
	launches, _ := strconv.Atoi(os.Getenv("MEMESTIMATE_STORM"))
	if launches == 0 {
		launches = 120
	}
	s := newSite(t, eightGPUs())
	r := rand.New(rand.NewPCG(20, 26))
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
			delay := []int{0, 0, 5, 40}[r.IntN(4)] // of each of 8 GPUs, which are asked at once
			os.WriteFile(s.path("machine.new"), []byte("delay "+strconv.Itoa(delay)+"\n"+eightGPUs()), 0o644)
			os.Rename(s.path("machine.new"), s.path("machine"))
		}
	})
	var doubles, failed, signalled, late atomic.Int64
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
			if kind < 2 { // a launcher within a launcher's command
				c = s.command("run", "--wait", "--need", "40GiB", "--", s.program, "run", "--wait", "--need", "30GiB", "--",
					s.path("job"), s.path("gpus"), strconv.Itoa(ms))
			}
			var text strings.Builder
			c.Stderr = &text
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
				t.Errorf("exit code %d: %s", code, text.String())
			}
		})
	}
	wg.Wait()
	close(stop)
	vandals.Wait()
	t.Logf("%d launches in %v: %d doubles, %d failed, %d ended by signals, %d waited more than 3 minutes", launches,
		time.Since(start).Round(time.Second), doubles.Load(), failed.Load(), signalled.Load(), late.Load())
	if doubles.Load()+late.Load() > 0 {
		t.Error("two jobs had one GPU, or a launcher was stuck")
	}
	if n := s.reserved(t); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}
