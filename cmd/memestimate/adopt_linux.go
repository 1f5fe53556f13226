package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of what its children leave behind, so that daemons in sessions of their own can
// still be told from strangers.
func adopt() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// bury takes leave of adopted children that ended: all but the command, of which its starter wants to know.
func bury(command int) {
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return
	}
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		for w := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(w); err == nil && pid != command {
				unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
	}
}
