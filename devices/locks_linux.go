package devices

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Files of the state directory live while somebody has a write lock on their first byte: an open file description lock
// (fcntl(2), Linux 3.15), which passes to a command by exec and to its children by fork, and which the kernel drops
// when the last process with the descriptor ends, however it ends. Whether one is there can be asked of a descriptor
// that is open for reading, without taking it; and who can only read a file cannot keep others from it, for a write
// lock needs write access.
//
// Bytes far behind the end carry marks: what a lock is for, in its place. The kernel shows the places of all locks in
// /proc/locks, from every process-number namespace, so a reservation is seen to be alive although its file, or the
// whole directory, was removed.

// lockFirst takes the lock of a file's first byte, at once or not at all.
func lockFirst(f *os.File) error { return setLock(f, unix.F_OFD_SETLK, unix.F_WRLCK, 0) }

// setLock sets the lock of one byte; it waits for it when cmd is F_OFD_SETLKW.
func setLock(f *os.File, cmd int, kind int16, place int64) error {
	for {
		l := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: place, Len: 1}
		if err := unix.FcntlFlock(f.Fd(), cmd, &l); err != unix.EINTR {
			return err
		}
	}
}

// locked tells whether somebody has the lock of the first byte.
func locked(f *os.File) bool {
	l := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
}

// The places of marks: bit 62 is set in all, bit 61 in those of waiters alone.
const (
	markBit   = 1 << 62
	waiterBit = 1 << 61
)

// markOf returns the place of the mark for these words.
func markOf(words ...string) int64 {
	return markBit | int64(hashOf(words)&(waiterBit-1))
}

func hashOf(words []string) uint64 {
	h := fnv.New64a()
	for _, w := range words {
		h.Write(binary.AppendUvarint(nil, uint64(len(w))))
		io.WriteString(h, w)
	}
	return h.Sum64()
}

// ownerMark is the mark of the file of that name and owner, so that another user's file of the same name does not
// stand for it.
func ownerMark(name string, uid uint32) int64 {
	return markOf("file", name, strconv.FormatUint(uint64(uid), 10))
}

// deviceMark is the mark of a device that is held by way of the directory dir.
func deviceMark(dir, uuid string) int64 { return markOf("device", dir, uuid) }

// waiterMark is the mark of a waiter in dir with a ticket of that number: nanoseconds, of which milliseconds are kept.
func waiterMark(dir string, number int64) int64 {
	return waiterMarks(dir) | number/1e6&(1<<40-1)
}

// waiterMarks is the least mark of a waiter in dir; the 40 lowest bits are the milliseconds.
func waiterMarks(dir string) int64 {
	return markBit | waiterBit | int64(hashOf([]string{"waiter", dir})&(1<<21-1)<<40)
}

// A lockTable is the marks in /proc/locks, by the file that they are on. Locks that come and go while it is read may
// be missing from it, so it shows that a lock is there, never that none is.
type lockTable map[string][]int64

// readLocks reads the table, twice, for the kernel shows it a page at a time and may skip an entry while others go; it
// is empty where the kernel does not show one.
func readLocks() lockTable {
	table := lockTable{}
	for range 2 {
		table.add()
	}
	return table
}

// add reads the table once.
func (table lockTable) add() {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() { // 1: OFDLCK ADVISORY  WRITE -1 fe:00:9981520 4611686018427400249 4611686018427400249
		w := strings.Fields(lines.Text())
		if len(w) != 8 || w[1] != "OFDLCK" || w[3] != "WRITE" || w[6] != w[7] {
			continue
		}
		if place, err := strconv.ParseInt(w[6], 10, 64); err == nil && place&markBit != 0 &&
			!slices.Contains(table[w[5]], place) {
			table[w[5]] = append(table[w[5]], place)
		}
	}
}

// createLock makes the host lock's file, unless there is one. All may write it, for that is what taking it needs, and
// only its owner read it: a reader's lock would keep everybody out.
func (s *State) createLock() error {
	d, err := s.at()
	if err != nil {
		return err
	}
	f, temp, err := d.temp()
	if err != nil {
		return err
	}
	defer f.Close()
	defer d.remove(temp)
	if err := f.Chmod(0o622); err != nil {
		return err
	}
	err = d.link(temp, lockName)
	switch {
	case errors.Is(err, os.ErrExist) || err == nil:
		return nil
	case errors.Is(err, os.ErrNotExist): // somebody removed it, or the directory
		return err
	}
	g, err := d.open(lockName, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o622) // no links on this file system
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(g.Chmod(0o622), g.Close())
}

// lock takes the host lock and returns the function that gives it back. That tells whether it was one until the end:
// when somebody removes its file, another launcher may have taken a new one meanwhile, and has not seen what was done
// under this one.
func (s *State) lock(ctx context.Context) (unlock func() bool, err error) {
	for {
		f, err := s.open(lockName, os.O_WRONLY)
		if errors.Is(err, os.ErrNotExist) {
			if err = s.ensure(); err == nil {
				err = s.createLock()
			}
			if err == nil || errors.Is(err, os.ErrNotExist) { // or a cleaner took it away
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("host lock: %w", err)
		}
		if fi, err := f.Stat(); err != nil || fi.Size() > 1 { // another name of somebody's file, which we would write to
			f.Close()
			return nil, fmt.Errorf("host lock %s: is not one: want a file of one byte at most", s.path(lockName))
		}
		if err := lockContext(ctx, f); err != nil {
			return nil, fmt.Errorf("host lock %s: %w", s.path(lockName), err)
		}
		if s.still(f, lockName) {
			f.WriteAt([]byte{'\n'}, 0) // the time of the file says to those who wait that the lock changes hands
			return func() bool { defer f.Close(); return s.still(f, lockName) }, nil
		}
		f.Close() // deleted or replaced while we waited: the lock is worth nothing
	}
}

// still tells whether f is the file that name stands for now.
func (s *State) still(f *os.File, name string) bool {
	d, err := s.at()
	if err != nil {
		return false
	}
	there, err := d.stat(name)
	return err == nil && sameFile(f, &there)
}

// lockContext waits for a file's lock. ctx can end that, and so does one that has it for lockPatience; f is then
// closed, at once or when the kernel lets go of it.
func lockContext(ctx context.Context, f *os.File) error {
	err := lockFirst(f)
	if err != unix.EAGAIN && err != unix.EACCES {
		if err != nil {
			f.Close()
		}
		return err
	}
	done := make(chan error)
	quit := make(chan struct{})
	defer close(quit)
	go func() {
		err := setLock(f, unix.F_OFD_SETLKW, unix.F_WRLCK, 0)
		select {
		case done <- err:
		case <-quit:
			f.Close()
		}
	}()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	limit := time.After(lockLimit)
	for seen := fi.ModTime(); ; {
		patience := time.NewTimer(lockPatience)
		select {
		case err := <-done:
			patience.Stop()
			if err != nil {
				f.Close()
			}
			return err
		case <-ctx.Done():
			patience.Stop()
			return context.Cause(ctx)
		case <-limit:
			patience.Stop()
			return fmt.Errorf("it did not come free within %v", lockLimit)
		case <-patience.C:
		}
		fi, err := f.Stat()
		if err != nil || fi.ModTime().Equal(seen) {
			return fmt.Errorf("somebody holds it for more than %v", lockPatience)
		}
		seen = fi.ModTime()
	}
}
