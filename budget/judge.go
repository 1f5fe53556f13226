package budget

import (
	"github.com/memestimate/memestimate/diff"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
)

// A Line is one figure of one model under some settings, and the limit that it was held against.
type Line struct {
	Model     string `json:"model"`
	Settings  string `json:"settings"`
	Total     string `json:"total"` // diff.Device and the like
	Value     int64  `json:"bytes"`
	Before    *int64 `json:"before_bytes,omitempty"` // in the base, where that was estimated
	Limit     *int64 `json:"limit_bytes,omitempty"`  // nil when there is none
	LimitText string `json:"limit,omitempty"`        // as the file has it
	Over      bool   `json:"over"`
	Note      string `json:"note,omitempty"`
	Place     int    `json:"line,omitempty"` // of the limit in the budget file
}

// Judge holds an estimate against limits other than of GPUs. base is nil where there is none to compare with.
// Where nothing is limited, the one line has the device memory.
func (l Limits) Judge(model, settings string, head, base *estimate.Report) []Line {
	line := func(total string) Line {
		x := Line{Model: model, Settings: settings, Total: total, Value: value(head, total)}
		if base != nil {
			v := value(base, total)
			x.Before = &v
		}
		return x
	}
	var out []Line
	for _, s := range l.Sizes {
		x := line(s.Total)
		x.Limit, x.LimitText, x.Place = &s.Bytes, report.Size(s.Bytes), s.Line
		x.Over = x.Value > s.Bytes
		out = append(out, x.known(head))
	}
	if g := l.Growth; g != nil {
		x := line(diff.Device)
		x.LimitText, x.Place = "+"+g.String(), g.Line
		if base == nil {
			x.Note = "nothing to grow from: the base has no such model for these settings"
		} else {
			most := g.Limit(*x.Before)
			x.Limit, x.Over = &most, x.Value > most
		}
		out = append(out, x.known(head))
	}
	if len(out) == 0 && len(l.Fits) == 0 {
		out = append(out, line(diff.Device).known(head))
	}
	return out
}

// JudgeFit holds an estimate that was made for a GPU against that GPU's memory.
func JudgeFit(model, settings string, gpu Value, total int64, r *estimate.Report) Line {
	x := Line{
		Model: model, Settings: settings, Total: diff.Device, Value: value(r, diff.Device),
		Limit: &total, LimitText: gpu.Text, Place: gpu.Line, Over: r.OOM != nil || value(r, diff.Device) > total,
	}
	if r.OOM != nil {
		x.Note = "out of memory in the " + r.OOM.Phase + " of step " + report.Count(int64(r.OOM.Step))
	}
	return x.known(r)
}

// known marks a line whose figure the estimate does not have, which no limit lets pass, and one that
// is a lower bound.
func (x Line) known(r *estimate.Report) Line {
	switch {
	case r.Peak == nil && x.Total != diff.Parameters:
		x.Note, x.Over = "not known: the run was not simulated", x.Limit != nil
	case !r.Coverage.Complete():
		x.Note = "a lower bound: not every operator is modelled"
	}
	return x
}

func value(r *estimate.Report, total string) int64 {
	if total == diff.Parameters {
		return r.Parameters.Bytes
	}
	if r.Peak == nil {
		return 0
	}
	switch total {
	case diff.Allocated:
		return r.Peak.Allocated
	case diff.Reserved:
		return r.Peak.Reserved
	}
	return r.Peak.Device
}
