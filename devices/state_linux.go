package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The state directory holds one file a reservation (hold-*), one a waiter (wait-*), and the host lock (lock). A
// reservation or waiter lives while its file is locked, as locks_linux.go says. So there are no process numbers to
// check, no leases to renew and no clocks to agree.
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

// lockPatience bounds the wait for the host lock while it stays in one hand: launchers hold it for milliseconds.
const lockPatience = 30 * time.Second

// lockLimit bounds the whole wait for it: anybody may touch its file, which says that it changes hands.
var lockLimit = 5 * time.Minute

// maxSweep bounds how many stale files are removed in one look, and how many that cannot be removed are tried.
const maxSweep = 256

// A State is the directory in which the launchers of a host know of each other.
type State struct {
	dir  string
	mark string // the directory's true path, for the marks

	mu   sync.Mutex
	held folder

	holders map[string]holder // found so far, by reservation
}

// stateDirs are the places for the state, best first: memory that is empty after a boot, and
// that no cleaner visits; then what every host has.
var stateDirs = []string{"/run/lock/memestimate", "/tmp/memestimate"}

// OpenState opens the state directory dir and makes it if need be. An empty dir means the
// host's: the first of /run/lock/memestimate and /tmp/memestimate that is there, or that can be made.
// Launchers must agree on it to see each other; containers must mount the same one.
func OpenState(dir string) (*State, error) {
	if dir != "" {
		s := &State{dir: dir}
		return s, s.ensure()
	}
	for _, d := range stateDirs {
		if fi, err := os.Lstat(d); err == nil && fi.IsDir() {
			s := &State{dir: d}
			return s, s.ensure()
		}
	}
	var err error
	for _, d := range stateDirs {
		s := &State{dir: d}
		if err = s.ensure(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Dir returns the directory's path.
func (s *State) Dir() string { return s.dir }

// ensure makes the directory, for all users, and refuses one that others could tamper with. It begins anew when
// somebody removes the directory meanwhile.
func (s *State) ensure() (err error) {
	for range 10 {
		if err = s.ensureOnce(); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return err
}

func (s *State) ensureOnce() error {
	if _, err := os.Lstat(s.dir); errors.Is(err, os.ErrNotExist) {
		if err = s.make(); err != nil {
			return err
		}
	}
	_, err := s.at()
	var at *os.PathError
	if errors.As(err, &at) {
		err = fmt.Errorf("state directory: %w", err)
	}
	if err != nil {
		return err
	}
	if s.mark == "" {
		if s.mark, err = filepath.EvalSymlinks(s.dir); err == nil {
			s.mark, err = filepath.Abs(s.mark)
		}
		if err != nil {
			s.mark = ""
			return fmt.Errorf("state directory: %w", err)
		}
	}
	return nil
}

// Owner says who else could remove or replace the directory's files: the user whom it belongs to; "" when that is root
// or this user. A reservation whose file was removed still counts, but it no longer says whose it is and how much it
// holds.
func (s *State) Owner() string {
	var st unix.Stat_t
	d, err := s.at()
	if err != nil || unix.Fstat(int(d.Fd()), &st) != nil || st.Uid == 0 || int(st.Uid) == os.Getuid() {
		return ""
	}
	return nameOfUser(st.Uid)
}

// make makes the directory under another name and moves it, so that it is open to all whenever it is there: with the
// umask's mode, which holds until it is changed, other users would be refused. One that is there already stays, or is
// replaced while it is empty.
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

func (s *State) path(name string) string { return filepath.Join(s.dir, name) } // for people

// create makes a file that is complete, readable for all, locked and marked when it appears as name. What was there of
// that name is replaced. It begins anew when somebody removes the directory or the half-made file meanwhile.
func (s *State) create(name string, content any, marks ...int64) (f *os.File, err error) {
	for range 10 {
		if f, err = s.createOnce(name, content, marks); !errors.Is(err, os.ErrNotExist) {
			break
		}
		if err = s.ensure(); err != nil {
			break
		}
	}
	return f, err
}

func (s *State) createOnce(name string, content any, marks []int64) (*os.File, error) {
	d, err := s.at()
	if err != nil {
		return nil, err
	}
	f, temp, err := d.temp()
	if err != nil {
		return nil, err
	}
	err = lockFirst(f)
	if err == nil {
		err = json.NewEncoder(f).Encode(content)
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = d.rename(temp, name)
	}
	if err != nil {
		d.remove(temp)
		f.Close()
		return nil, err
	}
	// The marks come last, so that a mark without a file always means one that was removed.
	for _, place := range append(marks, ownerMark(name, uint32(os.Geteuid()))) {
		if err := setLock(f, unix.F_OFD_SETLK, unix.F_WRLCK, place); err != nil {
			d.remove(name)
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// look opens the file name when somebody has it locked; otherwise it returns nil.
func (s *State) look(name string) (f *os.File, st unix.Stat_t) {
	f, err := s.open(name, os.O_RDONLY)
	if err != nil {
		return nil, st
	}
	if unix.Fstat(int(f.Fd()), &st) == nil && locked(f) {
		return f, st
	}
	f.Close()
	return nil, st
}

// read decodes the live file name into content and returns its owner; ok is false when nobody has it locked, or it is
// not what it should be.
func (s *State) read(name string, content any) (owner uint32, ok bool) {
	f, st := s.look(name)
	if f == nil {
		return 0, false
	}
	defer f.Close()
	return st.Uid, json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(content) == nil
}

// alive tells whether somebody has the file name locked.
func (s *State) alive(name string) bool {
	f, _ := s.look(name)
	if f != nil {
		f.Close()
	}
	return f != nil
}

// sweep removes files that nobody has locked. The caller has the host lock, under which alone a file is unlocked for a
// moment while it is made. In a sticky directory another user's file stays: it harms nobody.
func (s *State) sweep(b *book) {
	half, _ := s.names(tempPrefix) // of launchers that were killed in the act
	d, err := s.at()
	if err != nil {
		return
	}
	lock, noLock := d.stat(lockName)
	half = slices.DeleteFunc(half[:min(len(half), maxSweep)], func(name string) bool {
		st, err := d.stat(name)
		// A name of the lock is from when it was made.
		isLock := err == nil && noLock == nil && st.Dev == lock.Dev && st.Ino == lock.Ino
		return s.alive(name) && !isLock
	})
	for _, name := range append(half, b.stale[:min(len(b.stale), maxSweep)]...) {
		d.remove(name)
	}
}

// names lists the directory's files of a kind, in the order of their names.
func (s *State) names(prefix string) ([]string, error) {
	d, err := s.at()
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var f *os.File
	if err == nil {
		f, err = d.open(".", os.O_RDONLY|unix.O_DIRECTORY, 0) // which is read from its beginning
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	defer f.Close()
	all, err := f.Readdirnames(-1)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // which Linux answers once somebody has removed the directory
		return nil, fmt.Errorf("state directory: %w", err)
	}
	names := slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	return names, nil
}
