//go:build !js

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// The program goes on ignoring what it was started to ignore. Under nohup that would be the hangups that tests send:
// once caught here, what tests start gets them. WebAssembly has no such signal.
func init() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) }
