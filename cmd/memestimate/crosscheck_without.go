//go:build nocrosscheck

package main

import (
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/onnxload"
)

// crossCheck refuses: small builds have no onnx-go.
func crossCheck(source, *onnxload.Model) ([]estimate.Note, error) {
	return nil, usagef("--cross-check: this build is without onnx-go")
}
