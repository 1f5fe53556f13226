package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// mostResidentOf is the most memory that a process which has ended had, in bytes.
func mostResidentOf(ended *os.ProcessState) int64 {
	return int64(ended.SysUsage().(*syscall.Rusage).Maxrss) << 10
}

// mostResident is the most memory that this process has had, in bytes; 0 where the system does not tell.
func mostResident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return kilobytes << 10
}
