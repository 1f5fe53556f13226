package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/report/page"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// html writes a report as a page: the run drawn, what other settings would take, the layers.
func (a *questions) html(w io.Writer, in source, r *estimate.Report) error {
	if r.Peak == nil {
		return fail(exitInput, "%s: there is no run to draw", quoteArg(in.arg))
	}
	p := page.Page{Title: report.Asked(r), Subtitle: report.Setting(r.Settings)}
	for i := range r.Fits {
		f := &r.Fits[i]
		word := "Does not fit: "
		if f.Fits {
			word = "Fits: "
		}
		p.Verdicts = append(p.Verdicts, page.Verdict{Good: f.Fits, Text: word + report.Judgement(f)})
	}
	p.Facts = a.facts(r)
	for _, n := range r.Notes {
		p.Notes = append(p.Notes, n.Text)
	}
	sums := modules(r)
	r.Layers = nil // of which the page has no more; the picture of a large model's run takes as much memory
	run := page.Predicted("predicted", r.Simulation.Run.Log.Source(), r.Simulation.Replay, about(r.Simulation))
	run.Modules = sums
	run.Capacity = capacity(r)
	p.Runs = []page.Run{run}
	p.Chart, p.Curve = whatIfChart(r), batchCurve(a.shown.fitting)
	if len(r.Ways) > 0 {
		p.Tables = append(p.Tables, page.Table{Title: "Ways to fit", Grid: report.Ways(r)})
	}
	if g := report.Guesses(r); len(g.Rows) > 0 {
		p.Tables = append(p.Tables, page.Table{Title: "What is guessed", Grid: g})
	}
	if len(r.Stats) > 0 {
		p.Tables = append(p.Tables, page.Table{Title: "Statistics", Grid: report.Statistics(r)})
	}
	return page.Write(w, &p)
}

// facts are the figures to know first. Where memory runs out they are those of that moment, which the page draws; what
// the run would take is one of them.
func (a *questions) facts(r *estimate.Report) []page.Fact {
	p := r.Peak
	if o := r.OOM; o != nil {
		return []page.Fact{
			{Name: "Out of memory", Value: report.Moment(o.Phase, o.Step, o.Layer)},
			{Name: "Asked for then", Value: report.Size(o.Tried)},
			{Name: "Allocated then", Value: report.Size(o.Allocated), About: "torch.cuda.memory_allocated()"},
			{Name: "Reserved then", Value: report.Size(o.Reserved), About: "torch.cuda.memory_reserved()"},
			{Name: "On the GPU, with enough memory", Value: report.Size(p.Device), About: report.Size(p.Safe) + " to be safe"},
		}
	}
	least, safe := "", p.SafeRate()
	if r.Incomplete() {
		least = "at least "
	}
	if r.Depends != nil && !r.Depends.Bound {
		safe = r.Depends.String()
	}
	out := []page.Fact{
		{Name: "Allocated", Value: least + report.Size(p.Allocated), About: "torch.cuda.max_memory_allocated()"},
		{Name: "Reserved", Value: least + report.Size(p.Reserved), About: "torch.cuda.max_memory_reserved()"},
		{Name: "On the GPU", Value: least + report.Size(p.Device), About: "nvidia-smi"},
		{Name: "Safe", Value: report.Size(p.Safe), About: safe},
		{Name: "Peak", Value: report.Moment(p.Phase, p.Step, p.Layer)},
	}
	var fits, not []string
	for _, g := range a.shown.gpus {
		switch {
		case g.Fits && g.Tight:
			fits = append(fits, g.Name+" (not safe)")
		case g.Fits:
			fits = append(fits, g.Name)
		default:
			not = append(not, g.Name)
		}
	}
	if len(fits) > 0 {
		out = append(out, page.Fact{Name: "Fits", Value: strings.Join(fits, ", ")})
	}
	if len(not) > 0 {
		out = append(out, page.Fact{Name: "Does not fit", Value: strings.Join(not, ", ")})
	}
	return out
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

// modules adds up what the model says of the layers, by the names that they have in the run.
func modules(r *estimate.Report) map[string]page.Module {
	if r.Settings.Recorded {
		return nil
	}
	out := map[string]page.Module{}
	for i := range r.Layers {
		l := &r.Layers[i]
		name := cmp.Or(l.Module, l.Name, l.Op)
		m := out[name]
		if m.Operator != "" && m.Operator != l.Op {
			m.Operator = "several"
		} else {
			m.Operator = l.Op
		}
		m.Parameters += l.Params
		m.Saved += l.SavedBytes
		m.Output = report.Outputs(l)
		out[name] = m
	}
	return out
}

// capacity is what the GPU that was asked for, or the limit, has for the allocator.
func capacity(r *estimate.Report) page.Capacity {
	for _, f := range r.Fits {
		switch {
		case f.Limit == estimate.Capacity && f.Bytes > r.Context:
			return page.Capacity{Bytes: f.Bytes - r.Context, Name: f.Name + " without the CUDA context"}
		case f.Limit == estimate.MemoryLimit:
			return page.Capacity{Bytes: f.Bytes, Name: "the limit"}
		case f.Limit == estimate.Budget && f.Bytes > r.Context:
			return page.Capacity{Bytes: f.Bytes - r.Context, Name: "the budget without the CUDA context"}
		}
	}
	return page.Capacity{}
}

// whatIfChart sets other settings beside the one that was asked for.
func whatIfChart(r *estimate.Report) *page.Chart {
	if len(r.WhatIf) == 0 {
		return nil
	}
	c := &page.Chart{Title: "What if"}
	most := int64(0)
	for _, f := range r.Fits {
		if f.Limit == estimate.Capacity || f.Limit == estimate.Budget {
			most = f.Bytes
			c.Capacity = page.Capacity{Bytes: most, Name: cmp.Or(f.Name, "the budget")}
		}
	}
	over := func(n int64) bool { return most > 0 && n > most }
	c.Bars = append(c.Bars, page.Bar{Name: "as it is", Bytes: r.Peak.Device, Base: true, Over: over(r.Peak.Device)})
	for _, v := range r.WhatIf {
		b := page.Bar{Name: v.Change, Bytes: v.Device, Over: over(v.Device)}
		if v.Error != "" {
			b.Error = report.Refusal(v.Error)
		} else {
			b.Note = report.Change(r.Peak.Device, v.Device)
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}

// batchCurve draws a search for the largest batch, with the GPUs that people have.
func batchCurve(f *estimate.Fitting) *page.Curve {
	if f == nil {
		return nil
	}
	c := &page.Curve{Memory: f.Memory}
	for _, p := range f.Curve {
		c.Points = append(c.Points, page.Point{Batch: p.Batch, Device: p.Device, Safe: p.SafeBytes})
	}
	named := false
	for _, id := range shownGPUs {
		if g, err := gpu.Find(id); err == nil {
			c.Limits = append(c.Limits, page.Capacity{Bytes: g.Memory, Name: gpuWord(g.ID)})
			named = named || g.Memory == f.Memory
		}
	}
	if !named {
		c.Limits = append(c.Limits, page.Capacity{Bytes: f.Memory, Name: cmp.Or(f.GPU, "the memory given")})
	}
	return c
}
