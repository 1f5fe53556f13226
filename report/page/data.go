package page

import (
	"fmt"
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// data is what the page's script gets. Events are numbered without marks;
// allocations are columns, in the order of their events.
type data struct {
	Categories []string  `json:"categories"`
	Runs       []runData `json:"runs"`
}

type runData struct {
	Name     string      `json:"name"`
	Events   int         `json:"events"`
	Start    column      `json:"start"` // event that allocates
	End      []int32     `json:"end"`   // event that frees, or -1
	Bytes    column      `json:"bytes"`
	Category column      `json:"category"`
	Layer    column      `json:"layer"` // index into Layers, or -1
	Layers   []string    `json:"layers"`
	Phases   []phaseData `json:"phases"`
	Levels   [][2]int64  `json:"levels"`
	Reserved int64       `json:"reserved"`
	Segments []Segment   `json:"segments"`
	Trace    *traceData  `json:"trace"` // of a recording

	Capacity *Capacity  `json:"capacity"`
	Failure  *Failure   `json:"failure"`
	Texts    [][]string `json:"texts"` // what allocations are, in lines
	About    []int32    `json:"about"` // by allocation: index into Texts, or -1; none where nothing is known
}

type phaseData struct {
	Name  string `json:"name"`
	Step  int32  `json:"step"`
	Begin int    `json:"begin"` // first event
}

// A column is a figure of each allocation, in the order of their events. It is made as it is written: those of a large
// run take as much memory as the run.
type column iter.Seq[int64]

// MarshalJSONTo writes the column as an array.
func (c column) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for v := range c {
		if err := enc.WriteToken(jsontext.Int(v)); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndArray)
}

// columnOf is what of says of each allocation, given the number of its event.
func columnOf(r *Run, of func(number int32, e *timeline.Event) int64) column {
	return func(yield func(int64) bool) {
		for n, e := range r.numbered {
			if e.Kind == timeline.Alloc && !yield(of(n, e)) {
				return
			}
		}
	}
}

// numbered ranges over a run's events, each with its number among those without marks, or among those of the
// recording, which come after what was there before it. The event is the caller's until the next.
func (r *Run) numbered(yield func(int32, *timeline.Event) bool) {
	n, first := int32(0), int32(0)
	for i, e := range r.Timeline.Each {
		before := false
		if r.Trace != nil {
			if n = first; r.Trace.Number[i] >= 0 {
				n += r.Trace.Number[i]
			}
			before = r.Trace.Number[i] < 0 && e.Kind == timeline.Alloc
		}
		if !yield(n, &e) {
			return
		}
		if e.Kind.Moves() {
			n++
		}
		if before {
			first = n
		}
	}
}

func dataOf(p *Page) (*data, error) {
	d := &data{Categories: []string{}, Runs: []runData{}}
	for c := range timeline.NumCategories {
		d.Categories = append(d.Categories, categoryWord(c))
	}
	for i := range p.Runs {
		r, err := runDataOf(&p.Runs[i])
		if err != nil {
			return nil, err
		}
		d.Runs = append(d.Runs, *r)
	}
	return d, nil
}

func runDataOf(r *Run) (*runData, error) {
	t := r.Timeline
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	d := &runData{Name: show(r.Name), End: make([]int32, t.Blocks), Layers: []string{}, Phases: []phaseData{},
		Levels: [][2]int64{}, Reserved: r.Reserved, Segments: []Segment{},
		Start:    columnOf(r, func(n int32, _ *timeline.Event) int64 { return int64(n) }),
		Bytes:    columnOf(r, func(_ int32, e *timeline.Event) int64 { return e.Bytes }),
		Category: columnOf(r, func(_ int32, e *timeline.Event) int64 { return int64(e.Category) }),
		Layer:    columnOf(r, func(_ int32, e *timeline.Event) int64 { return int64(e.Layer) })}
	d.about(r)
	if x := r.Trace; x != nil && (len(x.Number) != t.Len || len(x.Blocks) != int(t.Blocks)) {
		return nil, fmt.Errorf("page: a trace of %d events and %d blocks, wanted %d and %d", len(x.Number), len(x.Blocks),
			t.Len, t.Blocks)
	}
	first := d.events(r)
	for _, l := range t.Layers {
		d.Layers = append(d.Layers, show(l))
	}
	if r.Trace != nil {
		for _, l := range r.Levels {
			d.Levels = append(d.Levels, [2]int64{int64(first) + int64(l.Event), l.Bytes})
		}
	}
	for _, s := range r.Segments {
		s.Blocks = append([]Block{}, s.Blocks...)
		for i := range s.Blocks {
			if b := &s.Blocks[i]; b.Label != "" {
				b.Label = show(b.Label)
			}
		}
		d.Segments = append(d.Segments, s)
	}
	return d, nil
}

// events adds what the script is told of the events one after the other, and returns how many of them were before the
// recording.
func (d *runData) events(r *Run) (first int32) {
	levels, i, count := r.Levels, 0, int32(0)
	if r.Trace != nil { // whose levels are by the numbers of the recording
		levels = nil
	}
	level := func(number int32) {
		for ; len(levels) > 0 && levels[0].Event <= i; levels = levels[1:] {
			if levels[0].Event == i {
				d.Levels = append(d.Levels, [2]int64{int64(number), levels[0].Bytes})
			}
		}
	}
	for n, e := range r.numbered {
		level(n)
		if k := len(d.Phases); k == 0 || d.Phases[k-1].Name != e.Phase.String() || d.Phases[k-1].Step != e.Step {
			d.Phases = append(d.Phases, phaseData{e.Phase.String(), e.Step, int(n)})
		}
		if count = n; e.Kind.Moves() {
			count++
		}
		switch e.Kind {
		case timeline.Alloc:
			d.End[e.Block] = -1
			if r.Trace != nil && r.Trace.Number[i] < 0 {
				first = count
			}
		case timeline.Free:
			d.End[e.Block] = n
		}
		i++
	}
	if r.Trace != nil {
		count = first + int32(r.Trace.Events)
		d.Trace = traceOf(r.Trace, int(first))
	}
	level(count)
	d.Events = int(count)
	return first
}

// about writes each text once: most allocations are alike.
func (d *runData) about(r *Run) {
	if r.Capacity.Bytes > 0 {
		d.Capacity = &Capacity{r.Capacity.Bytes, clean(r.Capacity.Name)}
	}
	if r.Failure != nil {
		d.Failure = &Failure{r.Failure.Bytes, clean(r.Failure.Text)}
	}
	d.Texts, d.About = [][]string{}, []int32{}
	known := map[string]int32{}
	if r.About == nil {
		return
	}
	for block := range r.Timeline.Blocks {
		lines := r.About(block)
		key := strings.Join(lines, "\n")
		k, ok := known[key]
		switch {
		case len(lines) == 0:
			k = -1
		case !ok:
			k = int32(len(d.Texts))
			known[key] = k
			shown := make([]string, len(lines))
			for i, l := range lines {
				shown[i] = show(l)
			}
			d.Texts = append(d.Texts, shown)
		}
		d.About = append(d.About, k)
	}
}
