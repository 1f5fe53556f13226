package main

import (
	"errors"
	"fmt"
	"io/fs"

	json "github.com/go-json-experiment/json/v1"

	"github.com/memestimate/memestimate/estimate"
)

// A profile is what compare learnt from a measured run. Sizes are bytes; 0 is not known.
type profile struct {
	Schema        string `json:"schema"`
	Source        string `json:"source"` // the snapshot that it was learnt from
	Context       int64  `json:"context_bytes,omitempty"`
	BLASWorkspace int64  `json:"blas_workspace_bytes,omitempty"`
}

func (p *profile) step() estimate.Profile {
	return estimate.Profile{Context: p.Context, BLASWorkspace: p.BLASWorkspace}
}

// maxProfile is far more than a profile takes, in bytes.
const maxProfile = 1 << 20

// readProfile reads a file that writeProfile wrote.
func readProfile(path string) (*profile, error) {
	data, err := readSmall(path, maxProfile, "a profile")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitInput, "%s: no such file", quoteArg(path))
	}
	if err != nil {
		return nil, err
	}
	var p profile
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fail(exitInput, "%s: not a profile: %w", quoteArg(path), err)
	}
	switch {
	case p.Schema != profileForm:
		return nil, fail(exitInput, "%s: not a profile: schema %q, want %q", quoteArg(path), p.Schema, profileForm)
	case p.Context < 0 || p.BLASWorkspace < 0 || p.Context > 1<<40 || p.BLASWorkspace > 1<<40:
		return nil, fail(exitInput, "%s: a size is negative or beyond 1 TiB", quoteArg(path))
	}
	return &p, nil
}

// writeProfile writes a profile, whole or not at all.
func writeProfile(path string, p *profile) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return putFile(path, blocks{append(data, '\n')}.writeTo)
}
