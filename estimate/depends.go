package estimate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/recording"
)

// A Dependence says what of a recorded run hangs on values that the recording does not have: all figures are those of
// the answers that were taken, and the upper bound is a bound for these alone.
type Dependence struct {
	Bytes     int64   `json:"bytes"`     // the weight of the heaviest place
	Unweighed int     `json:"unweighed"` // places whose weight is not known
	Places    []Asked `json:"places"`    // the heaviest first
}

// An Asked is a line of the program that asked for a value.
type Asked struct {
	File     string `json:"file"`
	Line     int32  `json:"line"`
	Function string `json:"function"`
	Question string `json:"question"` // truth, number or size
	Taken    string `json:"taken"`    // the answer
	// by how much the peak of the live tensors was another with another answer; nil where that is not known
	Bytes *int64 `json:"bytes,omitempty"`
}

// dependence returns what a recording says of the values that it hangs on; nil if it hangs on none.
func dependence(rec *recording.Recording) *Dependence {
	var d *Dependence
	for i := range rec.Events {
		e := &rec.Events[i]
		if e.Kind != recording.Depends {
			continue
		}
		if d == nil {
			d = &Dependence{Places: []Asked{}}
		}
		a := Asked{Question: recording.Question(e.What).String(), Taken: rec.Texts[e.A]}
		if e.B != recording.NoFrame {
			f := &rec.Frames[e.B]
			a.File, a.Line, a.Function = f.File, f.Line, f.Function
		}
		if e.Bytes == recording.Unweighed {
			d.Unweighed++
		} else {
			a.Bytes = &e.Bytes
			d.Bytes = max(d.Bytes, e.Bytes)
		}
		d.Places = append(d.Places, a)
	}
	if d != nil {
		slices.SortStableFunc(d.Places, func(a, b Asked) int { return cmp.Compare(b.weight(), a.weight()) })
	}
	return d
}

func (a *Asked) weight() int64 {
	if a.Bytes == nil {
		return recording.Unweighed
	}
	return *a.Bytes
}

// String says it in a line: "depends on data: 3 places, about 1.20 GiB". A weight is no limit: it is what one other
// answer changes.
func (d *Dependence) String() string {
	text := "depends on data: " + plural(len(d.Places), "place")
	size := mib(d.Bytes)
	if d.Bytes >= 1<<30 {
		size = fmt.Sprintf("%.2f GiB", float64(d.Bytes)/(1<<30))
	}
	switch {
	case d.Unweighed == len(d.Places):
		return text + ", not weighed"
	case d.Unweighed > 0:
		return text + ", " + size + " or more"
	}
	return text + ", about " + size
}

// notes name the places, a line each, the first of them.
func (d *Dependence) notes() []Note {
	const most = 8
	notes := []Note{{Warning, d.String() + "; --real records real values"}}
	for i := range d.Places {
		if i == most {
			rest := plural(len(d.Places)-most, "more place depends", "more places depend")
			notes = append(notes, Note{Info, rest + " on data"})
			break
		}
		a := &d.Places[i]
		weight := "what another answer changes is not known"
		if a.Bytes != nil {
			weight = "another answer moves the peak by " + mib(*a.Bytes)
		}
		notes = append(notes, Note{Info, fmt.Sprintf("%s:%d asks for a %s, taken: %s; %s", a.File, a.Line, a.Question,
			a.Taken, weight)})
	}
	return notes
}
