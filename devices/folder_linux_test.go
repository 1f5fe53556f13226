package devices

import (
	"context"
	"os"
	"path/filepath"
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
