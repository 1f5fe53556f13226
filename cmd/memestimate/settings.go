package main

import (
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/shape"
)

// options returns the settings as the library takes them.
func (s *settings) options(in source) estimate.Options {
	return estimate.Options{Name: in.name, BuiltIn: in.builtIn(), Batch: s.batch, Dims: s.dims, Inputs: s.inputs,
		Strict: s.strict, Without: slices.Sorted(maps.Keys(s.assume))}
}

func (s *settings) shapeOptions() shape.Options {
	return shape.Options{Batch: s.batch, Dims: s.dims, Inputs: s.inputs}
}
