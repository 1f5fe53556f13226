// Package python holds the source of the Python package, so that the program can record with any interpreter that has
// PyTorch: memestimate itself need not be installed there.
package python

import "embed"

// Source has the package in src/memestimate.
//
//go:embed src/memestimate/py.typed src/memestimate/*.py src/memestimate/*/*.py src/memestimate/*/*/*.py src/memestimate/*/*.bin src/memestimate/*/*.json
var Source embed.FS
