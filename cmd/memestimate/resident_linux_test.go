package main

import (
	"os"
	"syscall"
)

// mostResidentOf is the most memory that a process which has ended had, in bytes.
func mostResidentOf(ended *os.ProcessState) int64 {
	return int64(ended.SysUsage().(*syscall.Rusage).Maxrss) << 10
}
