package main

import (
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// What is given back of the program's own file is no longer counted as its memory, and is there when it is needed.
func TestDropPages(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("of Linux alone")
	}
	mapped := func() int {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`RssFile:\s+(\d+)`).FindSubmatch(status)
		if found == nil {
			t.Skip("this system does not say how much of a file is mapped")
		}
		kb, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return kb
	}
	before := mapped()
	dropPages()
	if after := mapped(); after > before*9/10 {
		t.Errorf("%d kB of files are mapped, %d before", after, before)
	}
}
