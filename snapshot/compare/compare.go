// Package compare sets a predicted run beside a measured one: their peaks, the tensors that live there, matched by
// size, and where the courses of their allocations part. What was measured is a memory snapshot, which names neither
// phases nor layers; the prediction lends it its own.
package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/snapshot"
)

// A Comparison is a predicted run beside a measured one. Sizes are bytes; all but the peaks are as
// requested, before the allocator's rounding.
type Comparison struct {
	Schema     string          `json:"schema"`
	Model      string          `json:"model"`
	File       string          `json:"file"`
	Peaks      []Difference    `json:"peaks"`
	Categories []Difference    `json:"categories"` // at each run's own peak
	Phases     []Difference    `json:"phases"`     // the peak within each
	Layers     []Difference    `json:"layers"`     // at the peak, where the snapshot's frames name the model's layers
	Tensors    []TensorGap     `json:"tensors"`    // at the peak: sizes of which one side has more
	Course     *Course         `json:"course"`     // a step of both, request by request; null where one has none
	Notes      []estimate.Note `json:"notes"`
}

// A Difference is one figure of both runs.
type Difference struct {
	Name       string `json:"name"`
	Predicted  int64  `json:"predicted_bytes"`
	Measured   int64  `json:"measured_bytes"`
	Difference int64  `json:"difference_bytes"`
}

// A TensorGap is a size of which the runs hold a different number at their peaks.
type TensorGap struct {
	Bytes      int64  `json:"bytes"` // of each
	Predicted  int    `json:"predicted"`
	Measured   int    `json:"measured"`
	Difference int64  `json:"difference_bytes"`
	Layer      string `json:"layer"` // one that has such a tensor in the prediction
	Site       string `json:"site"`  // where the measured run made one
}

// MostGaps is how many sizes a comparison shows.
const MostGaps = 15

func newDifference(name string, predicted, measured int64) Difference {
	return Difference{name, predicted, measured, predicted - measured}
}

// Note adds a remark.
func (c *Comparison) Note(format string, args ...any) {
	c.Notes = append(c.Notes, estimate.Note{Level: estimate.Info, Text: fmt.Sprintf(format, args...)})
}

// Runs compares a report's run with a recording.
func Runs(r *estimate.Report, played *snapshot.Played) *Comparison {
	h, measured := played.History, played.Log.Source()
	predicted := r.Simulation.Run.Log.Source()
	c := &Comparison{Schema: "memestimate-compare/1", Peaks: []Difference{
		newDifference("allocated", r.Peak.Allocated, h.Allocated.Bytes),
		newDifference("reserved", r.Peak.Reserved, h.Reserved.Bytes),
	}, Phases: []Difference{}, Layers: []Difference{}, Tensors: []TensorGap{}, Notes: []estimate.Note{}}
	_, p := predicted.Peak()
	_, m := measured.Peak()
	c.categories(predicted.ByCategory(p), measured.ByCategory(m))
	c.phases(predicted, measured)
	c.live(predicted, measured, p, m)
	c.course(predicted, played)
	if n := len(h.Before); n > 0 {
		text := fmt.Sprintf("%d allocations were", n)
		if n == 1 {
			text = "1 allocation was"
		}
		c.Note("%s there before the recording began: what they are for is unknown", text)
	}
	for _, d := range h.Doubts {
		c.Note("%s", d)
	}
	return c
}

// largestFirst orders by the size of the disagreement.
func largestFirst(ds []Difference) {
	slices.SortStableFunc(ds, func(a, b Difference) int { return cmp.Compare(abs(b.Difference), abs(a.Difference)) })
}

func abs(n int64) int64 { return max(n, -n) }

// categories compares what held the memory. A measured run does not tell a buffer from a parameter.
func (c *Comparison) categories(p, m [timeline.NumCategories]int64) {
	p[timeline.Parameter] += p[timeline.Buffer]
	m[timeline.Parameter] += m[timeline.Buffer]
	for k := range timeline.NumCategories {
		if k != timeline.Buffer && (p[k] != 0 || m[k] != 0) {
			name := k.String()
			if k == timeline.Parameter {
				name = "parameter, buffer"
			}
			c.Categories = append(c.Categories, newDifference(name, p[k], m[k]))
		}
	}
	largestFirst(c.Categories)
}

// phases compares the largest requested bytes of each phase of the first and of the last step.
func (c *Comparison) phases(predicted, measured *timeline.Source) {
	p, m := phasePeaks(predicted), phasePeaks(measured)
	for step := range p {
		for k := range p[step] {
			if p[step][k] == 0 || m[step][k] == 0 {
				continue
			}
			name := "first " + timeline.Phase(k).String()
			if step == 1 {
				name = "last " + timeline.Phase(k).String()
			}
			c.Phases = append(c.Phases, newDifference(name, p[step][k], m[step][k]))
		}
	}
}

// phasePeaks returns the largest requested bytes by phase, of the first step and of the last one.
func phasePeaks(t *timeline.Source) (peaks [2][timeline.NumPhases]int64) {
	last := int32(0)
	for _, e := range t.Each {
		last = max(last, e.Step)
	}
	now := int64(0)
	for _, e := range t.Each {
		now += e.Change()
		if e.Step == 1 {
			peaks[0][e.Phase] = max(peaks[0][e.Phase], now)
		}
		if e.Step == last && last > 1 {
			peaks[1][e.Phase] = max(peaks[1][e.Phase], now)
		}
	}
	return peaks
}

// live compares what is held at the peaks: by layer where the measured run knows layers, and by size.
func (c *Comparison) live(predicted, measured *timeline.Source, p, m int) {
	type tally struct {
		count [2]int
		where [2]string
	}
	sizes := map[int64]*tally{}
	layers := map[string]*[2]int64{}
	for side, run := range [2]struct {
		t    *timeline.Source
		peak int
	}{{predicted, p}, {measured, m}} {
		for _, e := range run.t.Live(run.peak) {
			g := sizes[e.Bytes]
			if g == nil {
				g = &tally{}
				sizes[e.Bytes] = g
			}
			g.count[side]++
			// a phase, of a written prediction
			if e.Layer == timeline.NoLayer || strings.HasPrefix(run.t.Layers[e.Layer], "step ") {
				continue
			}
			name := run.t.Layers[e.Layer]
			if g.where[side] == "" {
				g.where[side] = name
			}
			// A site is "file:line:function"; a predicted layer that was written as one is its function.
			name = name[strings.LastIndexByte(name, ':')+1:]
			if layers[name] == nil {
				layers[name] = &[2]int64{}
			}
			layers[name][side] += e.Bytes
		}
	}
	for bytes, g := range sizes {
		if d := int64(g.count[0]-g.count[1]) * bytes; d != 0 {
			c.Tensors = append(c.Tensors, TensorGap{bytes, g.count[0], g.count[1], d, g.where[0], g.where[1]})
		}
	}
	slices.SortFunc(c.Tensors, func(a, b TensorGap) int {
		return cmp.Or(cmp.Compare(abs(b.Difference), abs(a.Difference)), cmp.Compare(b.Bytes, a.Bytes))
	})
	c.Tensors = c.Tensors[:min(len(c.Tensors), MostGaps)]
	shared, all := 0, 0
	for _, b := range layers {
		if b[0] > 0 {
			all++
		}
		if b[0] > 0 && b[1] > 0 {
			shared++
		}
	}
	if 2*shared < all || shared == 0 {
		return
	}
	for name, b := range layers {
		if b[0] != b[1] {
			c.Layers = append(c.Layers, newDifference(name, b[0], b[1]))
		}
	}
	slices.SortFunc(c.Layers, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(abs(b.Difference), abs(a.Difference)), cmp.Compare(a.Name, b.Name))
	})
}
