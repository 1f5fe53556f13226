//go:build !nocrosscheck

package main

import "golang.org/x/sys/unix"

// memoryIsLimited says that the system refuses memory beyond limitMemory's.
const memoryIsLimited = true

// limitMemory has the system refuse this process more than so many bytes of memory of its own: one allocation may be
// larger than all that there is, and no watch comes before it. RLIMIT_AS would count what Go only reserves.
func limitMemory(most uint64) {
	unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})
}
