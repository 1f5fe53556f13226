package main

import (
	"os"
	"syscall"
)

// maxResident returns the most bytes that a process had in memory.
func maxResident(p *os.ProcessState) int64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss * 1024
	}
	return 0
}
