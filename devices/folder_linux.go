package devices

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A folder is the state directory, held open: what is done in it is done there, though its owner may have put a link in
// the place of its path meanwhile. No link in it is followed.
type folder struct{ *os.File }

// at returns the directory that the state's path stands for, as it was checked: the one that is held open, or another
// one that somebody put in its place.
func (s *State) at() (folder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var there unix.Stat_t
	if err := unix.Lstat(s.dir, &there); err != nil {
		return folder{}, &os.PathError{Op: "lstat", Path: s.dir, Err: err}
	}
	if s.held.File != nil && sameFile(s.held.File, &there) {
		return s.held, nil
	}
	fd, err := unix.Open(s.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err != nil && there.Mode&unix.S_IFMT == unix.S_IFLNK:
		return folder{}, fmt.Errorf("state directory %q: is a symbolic link, wanted a directory", s.dir)
	case errors.Is(err, unix.ENOTDIR):
		return folder{}, fmt.Errorf("state directory %q: is not a directory", s.dir)
	case err != nil:
		return folder{}, &os.PathError{Op: "open", Path: s.dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), s.dir)
	fi, err := f.Stat()
	if err == nil && fi.Mode().Perm()&0o022 != 0 && fi.Mode()&os.ModeSticky == 0 {
		err = fmt.Errorf("state directory %q: others can delete its files (mode %v), wanted mode 1777 or 755", s.dir,
			fi.Mode())
	}
	if err != nil {
		f.Close()
		return folder{}, err
	}
	s.held = folder{f} // who still uses the one before has it until the end
	return s.held, nil
}

// sameFile tells whether an open file is the one that st is of.
func sameFile(f *os.File, st *unix.Stat_t) bool {
	var mine unix.Stat_t
	return unix.Fstat(int(f.Fd()), &mine) == nil && mine.Dev == st.Dev && mine.Ino == st.Ino
}

// open opens a file of the folder, without waiting for a pipe.
func (d folder) open(name string, flag int, mode uint32) (*os.File, error) {
	path := filepath.Join(d.Name(), name)
	for {
		fd, err := unix.Openat(int(d.Fd()), name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case err != unix.EINTR:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// openOthers opens a file that anyone may have put there.
func (d folder) openOthers(name string, flag int) (*os.File, error) {
	f, err := d.open(name, flag, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s: not a regular file", f.Name())
	}
	return f, nil
}

// temp makes a file of a name that nobody has.
func (d folder) temp() (f *os.File, name string, err error) {
	for range 100 {
		name = tempPrefix + strconv.FormatUint(rand.Uint64(), 36)
		if f, err = d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, os.ErrExist) {
			break
		}
	}
	return f, name, err
}

func (d folder) rename(from, to string) error {
	return unix.Renameat(int(d.Fd()), from, int(d.Fd()), to)
}

func (d folder) link(from, to string) error {
	return unix.Linkat(int(d.Fd()), from, int(d.Fd()), to, 0)
}

func (d folder) remove(name string) { unix.Unlinkat(int(d.Fd()), name, 0) }

func (d folder) stat(name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// remove takes a file of the state away, if it is there.
func (s *State) remove(name string) {
	if d, err := s.at(); err == nil {
		d.remove(name)
	}
}

// open opens a file of the state that anyone may have put there.
func (s *State) open(name string, flag int) (*os.File, error) {
	d, err := s.at()
	if err != nil {
		return nil, err
	}
	return d.openOthers(name, flag)
}
