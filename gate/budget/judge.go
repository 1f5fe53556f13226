package budget

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/spelling"
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

// A Standing is how a model stands to the base, and what its entry accepts.
type Standing struct {
	Base       *estimate.Report // nil where there is none to compare with
	Why        string           // why there is none
	New        bool             // the entry says that there may be none
	LowerBound bool             // the entry accepts figures that are lower bounds
}

// Judge holds an estimate against limits other than of GPUs. What cannot be told is over the limit: growth from
// nothing, a figure that is a lower bound, a run that ends before its end. Where nothing is limited, the one line has
// the device memory.
func (l Limits) Judge(model, settings string, head *estimate.Report, at Standing) []Line {
	line := func(total string) Line {
		x := Line{Model: model, Settings: settings, Total: total, Value: value(head, total)}
		if at.Base != nil {
			v := value(at.Base, total)
			x.Before = &v
		}
		return x
	}
	var out []Line
	for _, s := range l.Sizes {
		if s.Total == diff.Device {
			s.Total = deviceAt(l.Confidence)
		}
		x := line(s.Total)
		x.Limit, x.LimitText, x.Place = &s.Bytes, report.Size(s.Bytes), s.Line
		x.Over = x.Value > s.Bytes
		out = append(out, x.known(head, at.LowerBound))
	}
	if g := l.Growth; g != nil {
		x := line(diff.Device)
		x.LimitText, x.Place = "+"+g.String(), g.Line
		switch {
		case at.Base != nil:
			most := g.Limit(*x.Before)
			x.Limit, x.Over, x.Note = &most, x.Value > most, doubt(at.Base)
		case at.New:
			x.Note = "new: nothing to grow from, as the entry says"
		default:
			x.Note, x.Over = at.Why+": list it under new where that is meant", true
		}
		out = append(out, x.known(head, at.LowerBound))
	}
	if len(out) == 0 && len(l.Fits) == 0 {
		out = append(out, line(diff.Device).known(head, at.LowerBound))
	}
	return out
}

// doubt says why the figure of a base is less than what it takes, which leaves less to grow, or "".
func doubt(base *estimate.Report) string {
	switch {
	case base.Peak == nil:
		return "not known in the base"
	case base.OOM != nil:
		return "in the base: out of memory in the " + base.OOM.Phase
	case base.Incomplete():
		return "in the base a lower bound: " + unmodelled(base.Coverage) + " not modelled"
	}
	return ""
}

// JudgeFit holds an estimate that was made for a GPU against that GPU's memory.
func (l Limits) JudgeFit(model, settings string, gpu Value, memory int64, r *estimate.Report, lowerBound bool) Line {
	total := deviceAt(l.Confidence)
	x := Line{
		Model: model, Settings: settings, Total: total, Value: value(r, total),
		Limit: &memory, LimitText: gpu.Text, Place: gpu.Line, Over: value(r, total) > memory,
	}
	return x.known(r, lowerBound)
}

// deviceAt returns the total that is the device memory with a confidence.
func deviceAt(c estimate.Confidence) string {
	switch c {
	case estimate.Predicted:
		return diff.Device
	case estimate.Likely:
		return diff.Likely
	}
	return diff.Safe
}

// known marks a line whose figure the estimate does not have, or has of a run that did not come to its end, which no
// limit lets pass; and one that is a lower bound, which passes only where the entry accepts it.
func (x Line) known(r *estimate.Report, lowerBound bool) Line {
	limited := x.LimitText != ""
	say := func(note string) {
		if x.Note != "" {
			note = x.Note + "; " + note
		}
		x.Note = note
	}
	if r.Peak == nil && x.Total != diff.Parameters {
		say("not known: the run was not simulated")
		x.Over = limited
		return x
	}
	if r.OOM != nil && x.Total != diff.Parameters {
		say("out of memory in the " + r.OOM.Phase + " of step " + report.Count(int64(r.OOM.Step)))
		x.Over = limited
	}
	if r.Depends != nil {
		say(r.Depends.Verdict())
	}
	if r.Incomplete() {
		say("a lower bound: " + unmodelled(r.Coverage) + " not modelled")
		x.Over = x.Over || limited && !lowerBound
	}
	return x
}

// unmodelled names the operators that are not modelled, the first of them.
func unmodelled(c estimate.Coverage) string {
	const shown = 3
	var names []string
	for _, u := range c.Unmodelled[:min(len(c.Unmodelled), shown)] {
		names = append(names, report.Show(u.Op, 40))
	}
	switch more := len(c.Unmodelled) - len(names); {
	case len(c.Unmodelled) == 0:
		return "some operators are"
	case more > 0:
		return strings.Join(names, ", ") + " and " + report.Count(int64(more)) + " more operators are"
	case len(names) == 1:
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
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
	case diff.Likely:
		return r.Peak.Likely
	case diff.Safe:
		return r.Peak.Safe
	}
	return r.Peak.Device
}

// A Growth is how much a figure may grow: by a share of what it was, or by bytes.
type Growth struct {
	Percent float64
	Bytes   int64
	Share   bool // Percent counts, not Bytes
}

// ParseGrowth reads "5%" or a size such as "200MiB".
func ParseGrowth(s string) (Growth, error) {
	if number, ok := strings.CutSuffix(strings.TrimSpace(s), "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || p < 0 || p > 1e6 || math.IsNaN(p) {
			return Growth{}, fmt.Errorf("%q is not a share such as 5%%", s)
		}
		return Growth{Percent: p, Share: true}, nil
	}
	n, err := spelling.Size(s)
	if meant, ok := errors.AsType[*spelling.Error](err); ok && meant.Hint() != "" {
		return Growth{}, err
	}
	if err != nil {
		return Growth{}, fmt.Errorf("%q is neither a share such as 5%% nor a size such as 200MiB", s)
	}
	return Growth{Bytes: n}, nil
}

// Limit returns the most that a figure may be that was before, in bytes.
func (g Growth) Limit(before int64) int64 {
	grow := g.Bytes
	if g.Share {
		grow = int64(math.Min(float64(before)*g.Percent/100, math.MaxInt64/2))
	}
	if before > math.MaxInt64-grow {
		return math.MaxInt64
	}
	return before + grow
}

// Allows reports whether a figure may go from before to after.
func (g Growth) Allows(before, after int64) bool { return after <= g.Limit(before) }

// String writes the growth as ParseGrowth reads it.
func (g Growth) String() string {
	if g.Share {
		return strconv.FormatFloat(g.Percent, 'g', -1, 64) + "%"
	}
	return report.Size(g.Bytes)
}
