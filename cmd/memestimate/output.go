package main

import (
	"bytes"
)

// A resultWriter gathers a command's result. Nothing reaches stdout or a file before
// the result is complete, so a failure leaves nothing half-written.
type resultWriter struct{ bytes.Buffer }

// writeOut writes the result that make produces to stdout.
func writeOut(e *env, make func(w *resultWriter)) error {
	var w resultWriter
	make(&w)
	if _, err := e.stdout.Write(w.Bytes()); err != nil {
		return fail(exitOutput, "stdout: %w", err)
	}
	return nil
}
