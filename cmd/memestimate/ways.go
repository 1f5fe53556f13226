package main

import "github.com/memestimate/memestimate/estimate"

// fitting answers how a training step would fit, where that is asked for.
func (a *questions) fitting(p *progress, in source, bound *estimate.Model, r *estimate.Report,
	step *estimate.Step) error {
	if !a.ways {
		return nil
	}
	memory := int64(a.budget)
	if memory == 0 && step.Limited {
		memory = step.GPU.Memory
	}
	switch {
	case memory == 0:
		return usagef("--ways: fit into what? give --gpu NAME or --budget SIZE")
	case r.Settings.Mode != "train" || r.Simulation == nil:
		return usagef("--ways is about a training step, and none was simulated")
	}
	p.now("trying ways to fit on " + quoteArg(in.arg))
	ways, err := bound.Ways(*step, memory, a.sure.value())
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(in.arg), err)
	}
	r.Ways = ways
	return nil
}
