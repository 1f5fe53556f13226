package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report/page"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// html writes a report as a page.
func (a *questions) html(w io.Writer, in source, r *estimate.Report) error {
	if r.Peak == nil {
		return fail(exitInput, "%s: there is no run to draw", quoteArg(in.arg))
	}
	var limits []page.Capacity
	for _, id := range shownGPUs {
		if g, err := gpu.Find(id); err == nil {
			limits = append(limits, page.Capacity{Bytes: g.Memory, Name: gpuWord(g.ID)})
		}
	}
	return page.Write(w, page.Estimate(r, a.shown.gpus, a.shown.fitting, limits, about(r.Simulation)))
}

// about says what the tensors of a run are: their types and shapes, and what keeps them for backward; of a recording,
// which call made them, and where in the program.
func about(sim *estimate.Simulation) func(block int32) []string {
	if run := sim.Recorded; run != nil {
		sites := sitesOf(run)
		log := sim.Run.Log.Source()
		at := make([]int32, log.Blocks) // the events that make blocks
		for i, e := range log.Each {
			if e.Kind == timeline.Alloc {
				at[e.Block] = int32(i)
			}
		}
		said := map[int32][]string{} // by site: many blocks are made at one
		return func(block int32) []string {
			site := sites.Of[at[block]]
			lines, ok := said[site]
			if ok || site < 0 {
				return lines
			}
			for i, f := range sites.Stack(site) {
				if i == 6 {
					break
				}
				lines = append(lines, f.String())
			}
			said[site] = lines
			return lines
		}
	}
	said := map[string][]string{} // most tensors are like others
	return func(block int32) []string {
		t, ok := sim.Run.Tensor(block)
		if !ok {
			return nil
		}
		key := fmt.Sprint(t)
		if lines, ok := said[key]; ok {
			return lines
		}
		lines := []string{t.DType.String() + " " + strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ", ")}
		if t.Saved != "" {
			lines = append(lines, "saved for backward by "+t.Saved)
		}
		said[key] = lines
		return lines
	}
}
