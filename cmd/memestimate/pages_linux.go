package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// dropPages gives back the pages of the program's own file that are mapped, 20 MB of code and tables once a model is
// read: those that are still needed are mapped anew from the system's cache, which takes a fifth of a millisecond.
func dropPages() {
	for _, m := range programPages() {
		// in vain at worst: then they stay
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
	}
}

// A mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// programPages are where the program's file is mapped. Mappings that somebody has written to, which
// position-independent programs do to some before they start, are left out: what was written would be lost.
var programPages = sync.OnceValue(func() (all []mapping) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	var m mapping
	for line := range bytes.Lines(smaps) {
		text := strings.TrimSpace(string(line))
		if mapped, ok := strings.CutSuffix(text, " "+program); ok {
			var mode string
			m = mapping{}
			if n, _ := fmt.Sscanf(mapped, "%x-%x %s", &m.from, &m.to, &mode); n < 3 || strings.Contains(mode, "w") {
				m = mapping{}
			}
		}
		if strings.HasPrefix(text, "Anonymous:") {
			if m.from < m.to && strings.TrimSpace(text[len("Anonymous:"):]) == "0 kB" {
				all = append(all, m)
			}
			m = mapping{}
		}
	}
	return all
})
