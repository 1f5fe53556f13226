package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// collectLater has the garbage collector begin at 40 MB rather than 4, and continue as usual. Most runs end before.
// A user's GOGC stays.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(1000)
	type sentinel struct{ _ *sentinel } // with a pointer, so that it has an allocation of its own
	runtime.AddCleanup(new(sentinel), func(percent int) { debug.SetGCPercent(percent) }, usual)
}
