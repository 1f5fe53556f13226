//go:build nocrosscheck || js

package main

import (
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/onnxload"
)

type crossCheck struct{}

// newCrossCheck refuses: small builds have no onnx-go, and a page has no processes.
func newCrossCheck(*source) (*crossCheck, error) {
	return nil, usagef("--cross-check: this build is without onnx-go")
}

func (*crossCheck) stop() {}

func (*crossCheck) compare(*onnxload.Model) ([]estimate.Note, error) { return nil, nil }

func secondReader([]string) (int, bool) { return 0, false }
