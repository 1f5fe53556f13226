package devices

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// initialNamespace is the inode of the first process-number namespace (PROC_PID_INIT_INO of
// include/linux/proc_ns.h). The driver numbers processes as that one does.
const initialNamespace = 0xEFFFFFFC

// pidNamespace returns the inode of this process's process-number namespace, or 0.
func pidNamespace() uint64 {
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// ownTree returns the test whether a process belongs to a record's command, or nil where the driver's
// process numbers are not ours.
func ownTree() func(pid int, of *record) bool {
	if pidNamespace() != initialNamespace {
		return nil
	}
	return func(pid int, of *record) bool {
		return of.PIDNamespace == initialNamespace && descends(pid, of.PID)
	}
}

// maxAncestors bounds the walk up a process tree, which may change while it is walked.
const maxAncestors = 256

// descends tells whether pid is ancestor or a process that it started, at any remove.
func descends(pid, ancestor int) bool {
	for range maxAncestors {
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
		parent, err := parentOf(pid)
		if err != nil {
			return false
		}
		pid = parent
	}
	return false
}

// parentOf reads field 4 of /proc/PID/stat. The name before it may hold spaces and
// brackets, so the fields are counted from the last bracket.
func parentOf(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	return strconv.Atoi(string(f[1]))
}

// treeOf returns the test whether a process that the driver names belongs to the command with this
// process number, or nil where the driver's numbers are not ours. A process that ended is remembered:
// the driver may name it a little longer.
func treeOf(command int) func(int) bool {
	if pidNamespace() != initialNamespace {
		return nil
	}
	known := make(map[int]bool)
	return func(pid int) bool {
		if !known[pid] && descends(pid, command) {
			known[pid] = true
		}
		return known[pid]
	}
}
