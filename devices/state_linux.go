package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The state directory holds one file a reservation (hold-*), one a waiter (wait-*), and the host lock
// (lock). A reservation or waiter lives while somebody holds an flock on its file: the kernel
// drops that lock when the last process with the descriptor ends, however it ends, and it is seen from
// every process-number namespace. So there are no process numbers to check and no leases to renew.
//
// Files appear complete and locked, by rename, and are opened read-only by everyone but their owner: with
// fs.protected_regular the kernel refuses O_CREAT on another user's file in a sticky directory.
const (
	lockName   = "lock"
	holdPrefix = "hold-"
	waitPrefix = "wait-"
	tempPrefix = "tmp-"
)

// maxRecord bounds what is read of another user's file.
const maxRecord = 64 << 10

// lockPatience bounds the wait for the host lock, which launchers hold for milliseconds.
const lockPatience = 30 * time.Second

// A State is the directory in which the launchers of a host know of each other.
type State struct{ dir string }

// stateDirs are the places for the state, best first: memory that is empty after a boot, and
// that no cleaner visits; then what every host has.
var stateDirs = []string{"/run/lock/memestimate", "/tmp/memestimate"}

// OpenState opens the state directory dir and makes it if need be. An empty dir means the
// host's: the first of /run/lock/memestimate and /tmp/memestimate that is there, or that can be made.
// Launchers must agree on it to see each other; containers must mount the same one.
func OpenState(dir string) (*State, error) {
	if dir != "" {
		s := &State{dir}
		return s, s.ensure()
	}
	for _, d := range stateDirs {
		if fi, err := os.Lstat(d); err == nil && fi.IsDir() {
			s := &State{d}
			return s, s.ensure()
		}
	}
	var err error
	for _, d := range stateDirs {
		s := &State{d}
		if err = s.ensure(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Dir returns the directory's path.
func (s *State) Dir() string { return s.dir }

// ensure makes the directory, for all users, and refuses one that others could tamper with.
func (s *State) ensure() error {
	if _, err := os.Lstat(s.dir); errors.Is(err, os.ErrNotExist) {
		if err = s.make(); err != nil {
			return err
		}
	}
	fi, err := os.Lstat(s.dir)
	switch {
	case err != nil:
		return fmt.Errorf("state directory: %w", err)
	case fi.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("state directory %q: is a symbolic link, wanted a directory", s.dir)
	case !fi.IsDir():
		return fmt.Errorf("state directory %q: is not a directory", s.dir)
	case fi.Mode().Perm()&0o022 != 0 && fi.Mode()&os.ModeSticky == 0:
		return fmt.Errorf("state directory %q: others can delete its files (mode %v), wanted mode 1777 or 755", s.dir, fi.Mode())
	}
	return nil
}

// make makes the directory under another name and moves it, so that it is open to all whenever it is there: with the umask's mode,
// which holds until it is changed, other users would be refused. One that is there already stays, or is replaced while it is empty.
func (s *State) make() error {
	var reason *os.PathError
	temp, err := os.MkdirTemp(filepath.Dir(s.dir), ".memestimate-*")
	if errors.As(err, &reason) {
		return fmt.Errorf("state directory: mkdir %s: %w", s.dir, reason.Err)
	}
	if err == nil {
		defer os.Remove(temp) // where it was not moved
		if err = os.Chmod(temp, 0o777|os.ModeSticky); err == nil {
			err = os.Rename(temp, s.dir)
		}
	}
	if _, there := os.Lstat(s.dir); err != nil && there != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

func (s *State) path(name string) string { return filepath.Join(s.dir, name) }

// flock is flock(2), again when a signal interrupts it.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// openOthers opens a file that anyone may have put there: no link is followed, and no pipe
// waited for.
func openOthers(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return f, nil
}

// create makes a file that is complete, readable for all and locked when it appears as name. replace
// false leaves a file of that name alone and fails with os.ErrExist.
func (s *State) create(name string, content any, replace bool) (*os.File, error) {
	f, err := os.CreateTemp(s.dir, tempPrefix+"*")
	if err != nil {
		return nil, err
	}
	err = f.Chmod(0o644)
	if err == nil && content != nil {
		if err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			err = json.NewEncoder(f).Encode(content)
		}
	}
	if err == nil && replace {
		err = os.Rename(f.Name(), s.path(name))
	} else if err == nil {
		err = os.Link(f.Name(), s.path(name))
		os.Remove(f.Name())
		if err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) { // no links on this file system
			f.Close()
			if f, err = os.OpenFile(s.path(name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644); err != nil {
				return nil, err
			}
			err = f.Chmod(0o644)
		}
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, err
	}
	return f, nil
}

// lock takes the host lock and returns the function that gives it back.
func (s *State) lock(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockPatience, fmt.Errorf("somebody holds it for more than %v", lockPatience))
	defer cancel()
	for {
		f, err := openOthers(s.path(lockName))
		if errors.Is(err, os.ErrNotExist) {
			if err = s.ensure(); err != nil {
				return nil, err
			}
			f, err = s.create(lockName, nil, false)
			if errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrNotExist) {
				continue // somebody else made it, or a cleaner took it away
			}
		}
		if err != nil {
			return nil, fmt.Errorf("host lock: %w", err)
		}
		if err := flockContext(ctx, f, syscall.LOCK_EX); err != nil {
			return nil, fmt.Errorf("host lock %s: %w", s.path(lockName), err)
		}
		if s.still(f, lockName) {
			return func() { f.Close() }, nil
		}
		f.Close() // deleted or replaced while we waited: the lock is worth nothing
	}
}

// still tells whether f is the file that name stands for now.
func (s *State) still(f *os.File, name string) bool {
	mine, err1 := f.Stat()
	there, err2 := os.Lstat(s.path(name))
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}

// flockContext is flock that ctx can end; f is then closed, at once or when the kernel
// lets go of it.
func flockContext(ctx context.Context, f *os.File, how int) error {
	err := flock(f, how|syscall.LOCK_NB)
	if err != syscall.EWOULDBLOCK {
		if err != nil {
			f.Close()
		}
		return err
	}
	done := make(chan error)
	go func() {
		err := flock(f, how)
		select {
		case done <- err:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			f.Close()
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// alive opens the file name if somebody holds it, and sweeps it away if nobody does.
func (s *State) alive(name string) *os.File {
	f, err := openOthers(s.path(name))
	if err != nil {
		return nil
	}
	if flock(f, syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		return f
	}
	os.Remove(s.path(name)) // in a sticky directory another user's file stays: it harms nobody
	f.Close()
	return nil
}

// names lists the directory's files of a kind, in the order of their names.
func (s *State) names(prefix string) ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// records returns the live reservations. What cannot be read as one is passed over: it names
// no device.
func (s *State) records() ([]record, error) {
	names, err := s.names(holdPrefix)
	if err != nil {
		return nil, err
	}
	var all []record
	for _, name := range names {
		f := s.alive(name)
		if f == nil {
			continue
		}
		r := record{ID: strings.TrimPrefix(name, holdPrefix)}
		if json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&r) == nil {
			all = append(all, r)
		}
		f.Close()
	}
	return all, nil
}

// Attach hangs the live reservations on the devices that they hold.
func (s *State) Attach(ds []Device) error {
	records, err := s.records()
	if err != nil {
		return err
	}
	attach(ds, records, ownTree())
	return nil
}
