package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
)

// Estimate draws a report whose run was simulated: the run, what other settings would take, and what it was held
// against. gpus are those that it was held against beside, limits those that the curve of batches shows, and about says
// what a block of the run is. The report has no layers afterwards.
func Estimate(r *estimate.Report, gpus []report.GPUFit, fitting *estimate.Fitting, limits []Capacity,
	about func(block int32) []string) *Page {
	p := &Page{Title: report.Asked(r), Subtitle: report.Setting(r.Settings)}
	for i := range r.Fits {
		f := &r.Fits[i]
		word := "Does not fit: "
		if f.Fits {
			word = "Fits: "
		}
		p.Verdicts = append(p.Verdicts, Verdict{Good: f.Fits, Text: word + report.Judgement(f)})
	}
	p.Facts = facts(r, gpus)
	for _, n := range r.Notes {
		p.Notes = append(p.Notes, n.Text)
	}
	sums := modules(r)
	r.Layers = nil // of which the page has no more; the picture of a large model's run takes as much memory
	run := Predicted("predicted", r.Simulation.Run.Log.Source(), r.Simulation.Replay, about)
	run.Modules = sums
	run.Capacity = capacity(r)
	p.Runs = []Run{run}
	p.Chart, p.Curve = whatIfChart(r), batchCurve(fitting, limits)
	if len(r.Ways) > 0 {
		p.Tables = append(p.Tables, Table{Title: "Ways to fit", Grid: report.Ways(r)})
	}
	if g := report.Guesses(r); len(g.Rows) > 0 {
		p.Tables = append(p.Tables, Table{Title: "What is guessed", Grid: g})
	}
	if len(r.Stats) > 0 {
		p.Tables = append(p.Tables, Table{Title: "Statistics", Grid: report.Statistics(r)})
	}
	return p
}

// facts are the figures to know first. Where memory runs out they are those of that moment, which the page draws; what
// the run would take is one of them.
func facts(r *estimate.Report, gpus []report.GPUFit) []Fact {
	p := r.Peak
	if o := r.OOM; o != nil {
		return []Fact{
			{Name: "Out of memory", Value: report.Moment(o.Phase, o.Step, o.Layer)},
			{Name: "Asked for then", Value: report.Size(o.Tried)},
			{Name: "Allocated then", Value: report.Size(o.Allocated), About: "torch.cuda.memory_allocated()"},
			{Name: "Reserved then", Value: report.Size(o.Reserved), About: "torch.cuda.memory_reserved()"},
			{Name: "On the GPU, with enough memory", Value: report.Size(p.Device), About: report.Size(p.Safe) + " to be safe"},
		}
	}
	least, safe := "", estimate.SafeRate(p.SafeShare)
	if r.Incomplete() {
		least = "at least "
	}
	if r.Depends != nil && !r.Depends.Bound {
		safe = r.Depends.String()
	}
	out := []Fact{
		{Name: "Allocated", Value: least + report.Size(p.Allocated), About: "torch.cuda.max_memory_allocated()"},
		{Name: "Reserved", Value: least + report.Size(p.Reserved), About: "torch.cuda.max_memory_reserved()"},
		{Name: "On the GPU", Value: least + report.Size(p.Device), About: "nvidia-smi"},
		{Name: "Safe", Value: report.Size(p.Safe), About: safe},
		{Name: "Peak", Value: report.Moment(p.Phase, p.Step, p.Layer)},
	}
	var fits, not []string
	for _, g := range gpus {
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
		out = append(out, Fact{Name: "Fits", Value: strings.Join(fits, ", ")})
	}
	if len(not) > 0 {
		out = append(out, Fact{Name: "Does not fit", Value: strings.Join(not, ", ")})
	}
	return out
}

// modules adds up what the model says of the layers, by the names that they have in the run.
func modules(r *estimate.Report) map[string]Module {
	if r.Settings.Recorded {
		return nil
	}
	out := map[string]Module{}
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
func capacity(r *estimate.Report) Capacity {
	for _, f := range r.Fits {
		switch {
		case f.Limit == estimate.MemoryLimit:
			return Capacity{Bytes: f.Bytes, Name: "the limit"}
		case f.Bytes > r.Context:
			return Capacity{Bytes: f.Bytes - r.Context, Name: cmp.Or(f.Name, "the budget") + " without the CUDA context"}
		}
	}
	return Capacity{}
}

// whatIfChart sets other settings beside the one that was asked for.
func whatIfChart(r *estimate.Report) *Chart {
	if len(r.WhatIf) == 0 {
		return nil
	}
	c := &Chart{Title: "What if"}
	most := int64(0)
	for _, f := range r.Fits {
		if f.Limit == estimate.Capacity || f.Limit == estimate.Budget {
			most = f.Bytes
			c.Capacity = Capacity{Bytes: most, Name: cmp.Or(f.Name, "the budget")}
		}
	}
	over := func(n int64) bool { return most > 0 && n > most }
	c.Bars = append(c.Bars, Bar{Name: "as it is", Bytes: r.Peak.Device, Base: true, Over: over(r.Peak.Device)})
	for _, v := range r.WhatIf {
		b := Bar{Name: v.Change, Bytes: v.Device, Over: over(v.Device)}
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
func batchCurve(f *estimate.Fitting, limits []Capacity) *Curve {
	if f == nil {
		return nil
	}
	c := &Curve{Memory: f.Memory, Limits: slices.Clone(limits)}
	for _, p := range f.Curve {
		c.Points = append(c.Points, Point{Batch: p.Batch, Device: p.Device, Safe: p.SafeBytes})
	}
	if !slices.ContainsFunc(limits, func(l Capacity) bool { return l.Bytes == f.Memory }) {
		c.Limits = append(c.Limits, Capacity{Bytes: f.Memory, Name: cmp.Or(f.GPU, "the memory given")})
	}
	return c
}
