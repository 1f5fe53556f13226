package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// dropPages gives back the pages of the program's own file that are mapped, 20 MB of code and tables once a model is
// read: those that are still needed are mapped anew from the system's cache, which takes a millisecond. Only mappings
// that nobody has written to are given back, which position-independent programs do to some before they start.
func dropPages() {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	var from, to uintptr
	for line := range bytes.Lines(smaps) {
		text := strings.TrimSpace(string(line))
		if mapped, ok := strings.CutSuffix(text, " "+program); ok {
			var mode string
			from, to = 0, 0
			if n, _ := fmt.Sscanf(mapped, "%x-%x %s", &from, &to, &mode); n < 3 || strings.Contains(mode, "w") {
				from, to = 0, 0
			}
		}
		if strings.HasPrefix(text, "Anonymous:") {
			if from < to && strings.TrimSpace(text[len("Anonymous:"):]) == "0 kB" {
				// in vain at worst: then they stay
				_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
			}
			from, to = 0, 0
		}
	}
}
