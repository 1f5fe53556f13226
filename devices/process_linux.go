package devices

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// pidNamespace returns the inode of this process's process-number namespace, or 0.
func pidNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// A procStat is what /proc/PID/stat says of a process.
type procStat struct {
	state  byte // R, S, T (stopped), Z (ended), ...
	parent int
	start  uint64 // in clock ticks since boot: with the number it names a process for good
}

// statOf reads /proc/PID/stat. The name in it may hold spaces and brackets, so the fields are counted from the last
// bracket.
func statOf(pid int) (procStat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return procStat{}, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	parent, err1 := strconv.Atoi(string(f[1]))
	start, err2 := strconv.ParseUint(string(f[19]), 10, 64)
	if err1 != nil || err2 != nil {
		return procStat{}, fmt.Errorf("/proc/%d/stat: not as it should be", pid)
	}
	return procStat{f[0][0], parent, start}, nil
}

// ownStart returns this process's start, or 0.
func ownStart() uint64 {
	st, err := statOf(os.Getpid())
	if err != nil {
		return 0
	}
	return st.start
}

// innerNumber returns a process's number in the innermost namespace that it is in, or 0.
func innerNumber(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				n, _ := strconv.Atoi(f[len(f)-1])
				return n
			}
		}
	}
	return 0
}

// maxAncestors bounds the walk up a process tree, which may change while it is walked.
const maxAncestors = 256

// ownTree returns the test whether a process belongs to a record's command, or nil where the driver's
// process numbers are not ours. The command of a container is known by its number in there and by its start.
func ownTree() func(pid int, of *record) bool {
	if pidNamespace() != initialNamespace {
		return nil
	}
	return func(pid int, of *record) bool {
		return climb(pid, func(pid int, st procStat) bool {
			if of.PIDNamespace == initialNamespace {
				return pid == of.PID && (of.Start == 0 || of.Start == st.start)
			}
			return of.Start != 0 && of.Start == st.start && innerNumber(pid) == of.PID
		})
	}
}

// climb asks of a process and its ancestors, up to the first, whether one is it.
func climb(pid int, is func(pid int, st procStat) bool) bool {
	for range maxAncestors {
		st, err := statOf(pid)
		if err != nil {
			return false
		}
		if is(pid, st) {
			return true
		}
		if pid <= 1 {
			return false
		}
		pid = st.parent
	}
	return false
}

// started returns the test whether a process that the driver names was started by this one, at any remove, or nil where
// the driver's numbers are not ours. A process that ended is remembered: the driver may name it a little longer.
func started() func(int) bool {
	if pidNamespace() != initialNamespace {
		return nil
	}
	self := os.Getpid()
	known := make(map[int]bool)
	return func(pid int) bool {
		if !known[pid] && climb(pid, func(pid int, _ procStat) bool { return pid == self }) {
			known[pid] = true
		}
		return known[pid]
	}
}

// stopped tells whether somebody stopped the process of another launcher. Of one in another namespace nobody knows.
func stopped(pid int, namespace uint64) bool {
	if namespace == 0 || namespace != pidNamespace() {
		return false
	}
	st, err := statOf(pid)
	return err == nil && (st.state == 'T' || st.state == 't')
}

// holderOf says who has a reservation, of which st is the file's.
func (s *State) holderOf(r *record, st *unix.Stat_t) holder {
	if r.PIDNamespace == 0 || r.PIDNamespace != pidNamespace() || r.Start == 0 {
		return holder{pid: r.PID, command: r.Command}
	}
	if lives(r.PID, r.Start) {
		return holder{pid: r.PID, command: r.Command}
	}
	if h, ok := s.holders[r.ID]; ok && lives(h.pid, 0) {
		return h
	}
	h := holder{left: true}
	if pids := havingOpen(st); len(pids) > 0 {
		h.pid, h.command = pids[0], commandOf(pids[0])
	}
	if s.holders == nil {
		s.holders = map[string]holder{}
	}
	s.holders[r.ID] = h
	return h
}

// lives tells whether the process is there and has not ended; start is 0 for any.
func lives(pid int, start uint64) bool {
	st, err := statOf(pid)
	return err == nil && st.state != 'Z' && st.state != 'X' && (start == 0 || st.start == start)
}

// havingOpen returns the processes that have the file open, as far as this user may know.
func havingOpen(file *unix.Stat_t) []int {
	var pids []int
	fds, err := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	for _, fd := range fds {
		pid, err := strconv.Atoi(strings.Split(fd, "/")[2])
		if err != nil || pid == self || slices.Contains(pids, pid) {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(fd, &st) == nil && st.Dev == file.Dev && st.Ino == file.Ino {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// commandOf returns the base name of a process's program, or "".
func commandOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

// identify returns a process's user and the base name of its program; nothing where the driver's process numbers are
// not ours, or it has ended.
func identify(pid int) (owner, command string) {
	var st unix.Stat_t
	if pidNamespace() != initialNamespace || unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil {
		return "", ""
	}
	return nameOfUser(st.Uid), commandOf(pid)
}

// nameOfUser returns a user's name, or number where it has none. Names are kept: a server may have to be asked.
func nameOfUser(uid uint32) string {
	if name, ok := userNames.Load(uid); ok {
		return name.(string)
	}
	name := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	userNames.Store(uid, name)
	return name
}

var userNames sync.Map // string by uint32
