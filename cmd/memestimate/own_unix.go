//go:build unix

package main

import (
	"os"
	"syscall"
)

// own reports whether a folder is this user's and nobody else can write into it: what is run from one must be.
func own(folder string) bool {
	st, err := os.Stat(folder)
	if err != nil || !st.IsDir() || st.Mode().Perm()&0o022 != 0 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
