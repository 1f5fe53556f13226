package compare

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/snapshot"
)

// A Course is one training step of both runs, request by request. Sizes are as requested.
type Course struct {
	PredictedStep int32 `json:"predicted_step"`
	MeasuredStep  int32 `json:"measured_step"`
	// Begin is what both hold before the step.
	Begin     Difference `json:"begin"`
	Alike     int        `json:"alike"`     // allocations and frees that both have, in the same order
	Predicted int        `json:"predicted"` // of so many
	Measured  int        `json:"measured"`

	// First is where the runs part: the first place in which one takes more, for a moment or to keep, than the other does
	// there. Nil where there is none.
	First *Parting `json:"first"`
	// Partings are the first such place and the largest others, in order of time.
	Partings []Parting `json:"partings"`
	// Modules are the largest sizes held within each module of the prediction, in the order in which the step comes to
	// them.
	Modules []ModuleGap `json:"modules"`
}

// A Parting is a place where one run allocates or frees what the other does not, or not there.
type Parting struct {
	Phase          string `json:"phase"`
	PredictedEvent int    `json:"predicted_event"` // of the prediction's timeline
	MeasuredEvent  int    `json:"measured_event"`  // of the file
	Predicted      int64  `json:"predicted_bytes"` // by how much more the prediction holds after it
	Measured       int64  `json:"measured_bytes"`
	Difference     int64  `json:"difference_bytes"`
	PredictedMost  int64  `json:"predicted_most_bytes"` // by how much more it holds within it, at most
	MeasuredMost   int64  `json:"measured_most_bytes"`
	Layer          string `json:"layer"` // of the prediction
	Site           string `json:"site"`  // where the measured run was
}

// weight is how much the runs differ there.
func (p *Parting) weight() int64 { return max(abs(p.Difference), abs(p.PredictedMost-p.MeasuredMost)) }

// A ModuleGap is the most that both runs hold while they are in a module.
type ModuleGap struct {
	Phase string `json:"phase"`
	Difference
}

// A lane is one step of one run.
type lane struct {
	layers []string
	step   int32
	number []int32          // by event of the timeline: what to call it; nil for its own index
	events []int32          // of the timeline: those of the step that change what is held
	change []int64          // by how much
	layer  []int32          // where, as timeline.Event.Layer
	phase  []timeline.Phase // likewise
	before int64            // held before the step
	marks  [timeline.NumPhases]int
	phases int // how many different phases it has
	length int // of events
}

// changes ranges over a run's events, with their indices, each with what is held before it and by how much it changes
// that.
func changes(t *timeline.Source, yield func(i int, e *timeline.Event, now, change int64)) {
	now := int64(0)
	for i, e := range t.Each {
		change := e.Change()
		yield(i, &e, now, change)
		now += change
	}
}

// lanes takes a timeline's steps apart: the first, and the last that got as far as the others.
func lanes(t *timeline.Source, number []int32) []*lane {
	byStep := map[int32]*lane{}
	var steps []int32
	changes(t, func(_ int, e *timeline.Event, now, change int64) {
		l := byStep[e.Step]
		if l == nil && e.Step > 0 {
			l = &lane{layers: t.Layers, step: e.Step, number: number, before: now}
			for k := range l.marks {
				l.marks[k] = -1
			}
			byStep[e.Step] = l
			steps = append(steps, e.Step)
		}
		if l == nil {
			return
		}
		if l.marks[e.Phase] < 0 {
			l.marks[e.Phase] = l.length
			l.phases++
		}
		if change != 0 {
			l.length++
		}
	})
	if len(steps) == 0 {
		return nil
	}
	out := []*lane{byStep[steps[0]]}
	last := out[0]
	for _, s := range steps[1:] {
		// The optimizer makes its state in one step only: a phase less is no step broken off.
		if l := byStep[s]; l.phases+1 >= last.phases {
			last = l
		}
	}
	if last != out[0] {
		out = append(out, last)
	}
	for _, l := range out {
		l.events, l.change = make([]int32, 0, l.length), make([]int64, 0, l.length)
		l.layer, l.phase = make([]int32, 0, l.length), make([]timeline.Phase, 0, l.length)
	}
	changes(t, func(i int, e *timeline.Event, _, change int64) {
		if l := byStep[e.Step]; l != nil && l.events != nil && change != 0 {
			l.events, l.change = append(l.events, int32(i)), append(l.change, change)
			l.layer, l.phase = append(l.layer, e.Layer), append(l.phase, e.Phase)
		}
	})
	return out
}

// courseOf sets the steps beside each other that are most alike, later ones where they are as much so.
func courseOf(predicted *timeline.Source, measured *timeline.Source, number []int32) *Course {
	var best *Course
	var share float64
	for _, p := range lanes(predicted, nil) {
		for _, m := range lanes(measured, number) {
			if len(p.events) == 0 || len(m.events) == 0 {
				continue
			}
			c := p.beside(m)
			if s := float64(2*c.Alike) / float64(max(c.Predicted+c.Measured, 1)); c.Alike > 0 && (best == nil || s >= share) {
				best, share = c, s
			}
		}
	}
	return best
}

// beside compares two steps.
func (l *lane) beside(m *lane) *Course {
	c := &Course{PredictedStep: l.step, MeasuredStep: m.step, Predicted: len(l.events), Measured: len(m.events),
		Partings: []Parting{}, Modules: []ModuleGap{}}
	c.Begin = newDifference("begin", l.before, m.before)
	var marksA, marksB []int
	for k := range l.marks {
		if l.marks[k] >= 0 && m.marks[k] >= 0 {
			marksA, marksB = append(marksA, l.marks[k]), append(marksB, m.marks[k])
		}
	}
	held := [2]int64{l.before, m.before}
	most := moduleMost{at: map[moduleKey]int{}}
	i, j := 0, 0
	for _, h := range append(align(l.change, m.change, marksA, marksB),
		hunk{len(l.events), len(m.events), len(l.events), len(m.events)}) {
		for ; i < h.a; i, j = i+1, j+1 {
			held[0] += l.change[i]
			held[1] += m.change[j]
			c.Alike++
			most.enter(l, i)
			most.raise(held)
		}
		var by, top [2]int64
		for ; i < h.endA; i++ {
			by[0] += l.change[i]
			top[0] = max(top[0], by[0])
			most.enter(l, i)
			most.raise([2]int64{held[0] + by[0], held[1]})
		}
		for ; j < h.endB; j++ {
			by[1] += m.change[j]
			top[1] = max(top[1], by[1])
			most.raise([2]int64{held[0] + by[0], held[1] + by[1]})
		}
		held[0] += by[0]
		held[1] += by[1]
		if by[0] != by[1] || top[0] != top[1] {
			c.Partings = append(c.Partings, l.parting(m, h, by, top))
		}
	}
	c.Modules = most.list
	if len(c.Partings) > 0 {
		first := c.Partings[0]
		c.First = &first
	}
	if len(c.Partings) > MostGaps { // the first of them stays
		slices.SortStableFunc(c.Partings[1:], func(a, b Parting) int { return cmp.Compare(b.weight(), a.weight()) })
		c.Partings = c.Partings[:MostGaps]
		slices.SortStableFunc(c.Partings, func(a, b Parting) int {
			return cmp.Or(cmp.Compare(a.MeasuredEvent, b.MeasuredEvent), cmp.Compare(a.PredictedEvent, b.PredictedEvent))
		})
	}
	return c
}

// parting tells of a hunk. The largest request of each side is what it is named after.
func (l *lane) parting(m *lane, h hunk, by, top [2]int64) Parting {
	a, b := l.largest(h.a, h.endA), m.largest(h.b, h.endB)
	phase := l.phase[a]
	if h.a == h.endA && h.b < h.endB {
		phase = m.phase[b]
	}
	return Parting{
		Phase: phase.String(), PredictedEvent: l.name(h.a), MeasuredEvent: m.name(h.b),
		Predicted: by[0], Measured: by[1], Difference: by[0] - by[1], PredictedMost: top[0], MeasuredMost: top[1],
		Layer: l.layerOf(a), Site: m.layerOf(b),
	}
}

// largest is the event, of the lane, of the largest change in a range; of an empty one that before which it is.
func (l *lane) largest(from, to int) int {
	best := min(from, len(l.events)-1)
	for k := from; k < to; k++ {
		if abs(l.change[k]) > abs(l.change[best]) {
			best = k
		}
	}
	return best
}

// name is what people call an event of the lane; beyond the last that is the last.
func (l *lane) name(i int) int {
	at := l.events[min(i, len(l.events)-1)]
	if l.number != nil {
		return int(l.number[at])
	}
	return int(at)
}

// layerOf names the layer of an event of the lane.
func (l *lane) layerOf(i int) string {
	if n := l.layer[i]; n != timeline.NoLayer {
		return l.layers[n]
	}
	return ""
}

type moduleKey struct {
	phase timeline.Phase
	layer int32
}

// moduleMost finds the most held within each module: what both hold from one of its requests to the next one of
// another module.
type moduleMost struct {
	at   map[moduleKey]int
	list []ModuleGap
	now  int
}

func (x *moduleMost) enter(l *lane, i int) {
	key := moduleKey{l.phase[i], l.layer[i]}
	k, ok := x.at[key]
	if !ok {
		k = len(x.list)
		x.at[key] = k
		x.list = append(x.list, ModuleGap{Phase: key.phase.String(), Difference: Difference{Name: l.layerOf(i)}})
	}
	x.now = k
}

func (x *moduleMost) raise(held [2]int64) {
	if len(x.list) == 0 {
		return
	}
	g := &x.list[x.now]
	g.Predicted, g.Measured = max(g.Predicted, held[0]), max(g.Measured, held[1])
	g.Difference.Difference = g.Predicted - g.Measured
}

// Within gathers modules under the names that they have up to a number of dots, as few as make no more than so many
// lines.
func (c *Course) Within(most int) []ModuleGap {
	for depth := 8; depth > 0; depth-- {
		var out []ModuleGap
		at := map[[2]string]int{}
		for _, g := range c.Modules {
			parts := strings.SplitN(g.Name, ".", depth+1)
			name := strings.Join(parts[:min(len(parts), depth)], ".")
			k, ok := at[[2]string{g.Phase, name}]
			if !ok {
				k = len(out)
				at[[2]string{g.Phase, name}] = k
				out = append(out, ModuleGap{Phase: g.Phase, Difference: Difference{Name: name}})
			}
			o := &out[k]
			o.Predicted, o.Measured = max(o.Predicted, g.Predicted), max(o.Measured, g.Measured)
			o.Difference.Difference = o.Predicted - o.Measured
		}
		if len(out) <= most || depth == 1 {
			return out
		}
	}
	return nil
}

// course adds the step, and says in a note how far it is the same.
func (c *Comparison) course(predicted *timeline.Source, played *snapshot.Played) {
	k := courseOf(predicted, played.Log.Source(), played.Number)
	c.Course = k
	if k == nil {
		return
	}
	c.Note("step %d of the prediction beside step %d of the recording: %d allocations and frees are alike, in "+
		"order, of %d and %d",
		k.PredictedStep, k.MeasuredStep, k.Alike, k.Predicted, k.Measured)
	if k.Alike*4 < k.Predicted+k.Measured {
		c.Note("these are less than half: the two do not take the same course, and where they part says little")
	}
}
