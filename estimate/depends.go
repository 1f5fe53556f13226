package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/memestimate/memestimate/recording"
)

// A Dependence says what of a recorded run hangs on values that the recording does not have: the figures are those of
// the answers that were taken.
type Dependence struct {
	Bytes     int64   `json:"bytes"`      // the weight of the heaviest place
	Unweighed int     `json:"unweighed"`  // places whose weight is not known
	More      int64   `json:"more_bytes"` // what other answers were seen to add, which the upper bound and Safe have
	Bound     bool    `json:"bound"`      // whether the upper bound is one for all answers
	Places    []Asked `json:"places"`     // the heaviest first
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
			d = &Dependence{Bound: true, Places: []Asked{}}
		}
		ask := &rec.Asks[e.A]
		a := Asked{Question: ask.Question.String(), Taken: rec.Texts[ask.Taken]}
		if ask.Frame != recording.NoFrame {
			f := &rec.Frames[ask.Frame]
			a.File, a.Line, a.Function = f.File, f.Line, f.Function
		}
		if ask.Bytes == recording.Unweighed {
			d.Unweighed++
		} else {
			a.Bytes = &ask.Bytes
			d.Bytes = max(d.Bytes, ask.Bytes)
		}
		d.Bound = d.Bound && mostTried(ask)
		d.More += min(max(ask.More, 0), math.MaxInt64>>1-d.More)
		d.Places = append(d.Places, a)
	}
	if d != nil {
		slices.SortStableFunc(d.Places, func(a, b Asked) int { return cmp.Compare(b.weight(), a.weight()) })
	}
	return d
}

// mostTried reports whether no answer takes more than those that were tried: there are two truths, a part was tried as
// large as it can be, and a size that can be no larger adds nothing. Of numbers there are others, whatever one of them
// changed.
func mostTried(a *recording.Ask) bool {
	switch a.Question {
	case recording.Truth, recording.Part:
		return a.More != recording.Unweighed
	case recording.Count:
		return a.More == 0
	}
	return false
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
	size := inGiB(d.Bytes)
	switch {
	case d.Unweighed == len(d.Places):
		return text + ", not weighed"
	case d.Unweighed > 0:
		return text + ", " + size + " or more"
	}
	return text + ", about " + size
}

// Verdict is what to say of a run that was held against a size.
func (d *Dependence) Verdict() string {
	if d.Bound {
		return d.String()
	}
	return d.String() + ", so this is no bound"
}

// notes name the places, a line each, the first of them.
func (d *Dependence) notes() []Note {
	const maxNamed = 8
	notes := []Note{{Warning, d.String() + "; --real records real values"}}
	for i := range d.Places {
		if i == maxNamed {
			rest := plural(len(d.Places)-maxNamed, "more place depends", "more places depend")
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
