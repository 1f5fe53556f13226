//go:build !js

package main

import (
	"context"
	"os"

	"github.com/memestimate/memestimate/cmd/memestimate/inherited"
)

func main() {
	e := &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stdout), getenv: os.Getenv,
		heap: newHeap()}
	if inherited.Closed(1) {
		e.stdout = closedFile{}
	}
	os.Exit(run(context.Background(), e, os.Args[1:]))
}
