package devices

import (
	"bufio"
	"encoding/binary"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

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
func locked(fd int) bool {
	l := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Len: 1}
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
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
