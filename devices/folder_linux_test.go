package devices

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

// TestDirectoryThatBecomesALink has the owner of a state directory put a link in its place: nothing is deleted or
// written where that leads.
func TestDirectoryThatBecomesALink(t *testing.T) {
	top := t.TempDir()
	dir, elsewhere := filepath.Join(top, "state"), filepath.Join(top, "elsewhere")
	s, err := OpenState(dir)
	must.OK(t, err)
	must.OK(t, os.Mkdir(elsewhere, 0o777))
	for _, name := range []string{tempPrefix + "1", waitPrefix + "1-1", holdPrefix + "1"} {
		must.Write(t, filepath.Join(elsewhere, name), "")
	}
	d, err := s.at() // as in the middle of what a launcher does
	must.OK(t, err)
	must.OK(t, os.Rename(dir, dir+".old"))
	must.OK(t, os.Symlink(elsewhere, dir))
	if f, name, err := d.temp(); err != nil || d.rename(name, holdPrefix+"2") != nil {
		t.Errorf("%v, %v", f, err)
	}
	d.remove(holdPrefix + "1")
	for _, wait := range []bool{false, true} {
		_, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(1), nil }, HoldRequest{Wait: wait})
		if err == nil || !strings.Contains(err.Error(), "is a symbolic link, wanted a directory") {
			t.Errorf("with wait %v: %v", wait, err)
		}
	}
	left, err := os.ReadDir(elsewhere)
	if err != nil || len(left) != 3 {
		t.Errorf("behind the link are %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir+".old", holdPrefix+"2")); err != nil {
		t.Error(err)
	}
}

// TestHostLockThatIsTouched: who holds the lock and touches its file does not keep others waiting for ever.
func TestHostLockThatIsTouched(t *testing.T) {
	was := lockLimit
	lockLimit = 300 * time.Millisecond
	defer func() { lockLimit = was }()
	s := state(t)
	unlock, err := s.lock(t.Context())
	must.OK(t, err)
	defer unlock()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			os.Chtimes(s.path(lockName), time.Now(), time.Now())
			time.Sleep(10 * time.Millisecond)
		}
	}()
	begun := time.Now()
	if _, err := s.lock(t.Context()); err == nil || time.Since(begun) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
}

// TestHostLockThatIsAnotherFile: a name of somebody's file in the place of the lock is not written to.
func TestHostLockThatIsAnotherFile(t *testing.T) {
	s := state(t)
	must.Write(t, s.path(lockName), []byte("precious"))
	_, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(1), nil }, HoldRequest{})
	data, readErr := os.ReadFile(s.path(lockName))
	if err == nil || readErr != nil || string(data) != "precious" {
		t.Errorf("%v, %v, %q", err, readErr, data)
	}
}

// TestDirectoryThatIsRemoved: a directory that somebody removes while it is read holds nothing.
func TestDirectoryThatIsRemoved(t *testing.T) {
	s := state(t)
	var removed atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.RemoveAll(s.dir)
			s.ensure()
			removed.Add(1)
		}
	}()
	defer func() { close(stop); <-stopped }()
	for n := 0; n < 20_000 || removed.Load() < 100; n++ {
		if names, err := s.names(holdPrefix); err != nil || len(names) > 0 {
			t.Fatalf("%q, %v", names, err)
		}
	}
}

// Whatever happens while a reservation is written, what others see of it is whole or not there, and the next launcher
// finds the host usable and takes away what was left: errors and signals come at each system call that makes, fills,
// names and removes its files. MEMESTIMATE_MUTATIONS says how many faults; without it there are a few.
func TestStateUnderFaults(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is not installed, and faults in writing are not tested")
		}
		t.Skip("strace is not installed, and faults in writing are not tested")
	}
	most, err := strconv.Atoi(os.Getenv("MEMESTIMATE_MUTATIONS"))
	if err != nil {
		most = 60
	}
	dir := t.TempDir()
	calls := []string{"write", "renameat", "fchmod", "linkat", "openat", "fcntl", "unlinkat", "close", "pwrite64",
		"mkdirat",
		"newfstatat"}
	kinds := []string{"error=ENOSPC", "error=EIO", "error=EDQUOT", "error=EACCES", "error=EINTR", "signal=SIGTERM",
		"signal=SIGKILL"}
	faults, held := 0, 0
	for k := 0; k < 6*most && faults < most; k++ {
		state := filepath.Join(dir, fmt.Sprint(k%7), "state") // some are new, some have seen faults
		if k%21 < 7 {
			os.RemoveAll(filepath.Dir(state))
		}
		must.OK(t, os.MkdirAll(filepath.Dir(state), 0o777))
		call, kind := calls[k%len(calls)], kinds[k/len(calls)%len(kinds)]
		inject := fmt.Sprintf("%s:%s:when=%d", call, kind, 1+k%5)
		log := filepath.Join(dir, "strace")
		c := launcher(state, 2, "true")
		c.Args = append([]string{"strace", "-f", "-qq", "-o", log, "-e", "trace=" + call, "-e", "inject=" + inject,
			os.Args[0]}, c.Args[1:]...)
		if c.Path, err = exec.LookPath("strace"); err != nil {
			t.Fatal(err)
		}
		c.Stderr = nil
		ran := c.Run() == nil
		said := must.Read(t, log)
		if s := string(said); !strings.Contains(s, "(INJECTED)") && !strings.Contains(s, "--- SIGTERM") &&
			!strings.Contains(s, "killed by") {
			continue
		}
		if faults++; ran {
			held++
		}
		records, _ := filepath.Glob(filepath.Join(state, holdPrefix+"*"))
		for _, path := range records {
			if data, err := os.ReadFile(path); err != nil || !json.Valid(data) {
				t.Errorf("%s: a reservation that is not whole: %q, %v", inject, data, err)
			}
		}
		s, err := OpenState(state)
		if err != nil {
			t.Fatalf("%s: the state cannot be opened any more: %v", inject, err)
		}
		hold(t, s, 2, HoldRequest{Request: Request{Bytes: gib}}).Release()
		if left := files(t, s); len(left) > 0 {
			t.Errorf("%s: leaves %q", inject, left)
		}
	}
	t.Logf("%d faults, after which %d commands ran all the same", faults, held)
	if faults < most {
		t.Errorf("%d faults of %d came about", faults, most)
	}
}

// FuzzState reads what any user of the host may have written into a live reservation.
func FuzzState(f *testing.F) {
	for _, seed := range []string{`{"grants":[{"uuid":"GPU-0","bytes":1}],"pid":1}`, `{"grants":null,"pid":-1}`, "{", "[]",
		`{"grants":[{"uuid":"GPU-0","bytes":-9223372036854775808},{"uuid":"GPU-0","bytes":9223372036854775807}]}`,
		`{"started":"0000-00-00","user":"\u001b[2J"}`, strings.Repeat("[", 100_000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := state(t)
		file, err := s.create(holdPrefix+"1", record{})
		must.OK(t, err)
		defer file.Close()
		must.OK(t, file.Truncate(0))
		if _, err := file.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		b, err := s.book()
		if err != nil || len(b.records) > 1 {
			t.Fatalf("%d records of one file: %v", len(b.records), err)
		}
		// Somebody else's nonsense keeps nobody from a GPU that it does not name, and the room that is left is no less than
		// none.
		h, err := s.Hold(t.Context(), func() ([]Device, error) { return cards(2), nil }, HoldRequest{})
		if err == nil {
			h.Release()
		} else if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("the error is not one line: %q", err)
		}
	})
}
