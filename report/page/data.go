package page

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// data is what the page's script gets. Events are numbered without marks;
// allocations are columns, in the order of their events.
type data struct {
	Categories []string  `json:"categories"`
	Runs       []runData `json:"runs"`
}

type runData struct {
	Name     string        `json:"name"`
	Events   int           `json:"events"`
	Start    []int32       `json:"start"` // event that allocates
	End      []int32       `json:"end"`   // event that frees, or -1
	Bytes    []int64       `json:"bytes"`
	Category []int32       `json:"category"`
	Layer    []int32       `json:"layer"` // index into Layers, or -1
	Layers   []string      `json:"layers"`
	Phases   []phaseData   `json:"phases"`
	Levels   [][2]int64    `json:"levels"`
	Reserved int64         `json:"reserved"`
	Segments []segmentData `json:"segments"`
	Trace    *traceData    `json:"trace"` // of a recording

	Capacity *capacityData `json:"capacity"`
	Failure  *failureData  `json:"failure"`
	Texts    [][]string    `json:"texts"` // what allocations are, in lines
	About    []int32       `json:"about"` // by allocation: index into Texts, or -1; none where nothing is known
}

type capacityData struct {
	Bytes int64  `json:"bytes"`
	Name  string `json:"name"`
}

type failureData struct {
	Bytes int64  `json:"bytes"`
	Text  string `json:"text"`
}

type phaseData struct {
	Name  string `json:"name"`
	Step  int32  `json:"step"`
	Begin int    `json:"begin"` // first event
}

type segmentData struct {
	Addr   int64       `json:"addr"`
	Bytes  int64       `json:"bytes"`
	Kind   string      `json:"kind"`
	Blocks []blockData `json:"blocks"`
}

type blockData struct {
	Bytes int64  `json:"bytes"`
	Used  bool   `json:"used"`
	Label string `json:"label"`
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
	d := &runData{Name: show(r.Name), Start: make([]int32, t.Blocks), End: make([]int32, t.Blocks),
		Bytes:    make([]int64, t.Blocks),
		Category: make([]int32, t.Blocks), Layer: make([]int32,
			t.Blocks), Layers: []string{}, Phases: []phaseData{}, Levels: [][2]int64{}, Reserved: r.Reserved,
		Segments: []segmentData{}}
	d.about(r)
	if x := r.Trace; x != nil && (len(x.Number) != len(t.Events) || len(x.Blocks) != int(t.Blocks)) {
		return nil, fmt.Errorf("page: a trace of %d events and %d blocks, wanted %d and %d", len(x.Number), len(x.Blocks),
			len(t.Events), t.Blocks)
	}
	// number maps the timeline's events to those without marks, or to those of
	// the recording, which come after what was there before it.
	number := make([]int32, len(t.Events)+1)
	n, first := int32(0), int32(0)
	for i := range t.Events {
		e := &t.Events[i]
		if r.Trace != nil {
			if k := r.Trace.Number[i]; k >= 0 {
				n = first + k
			} else {
				n = first
			}
		}
		number[i] = n
		if k := len(d.Phases); k == 0 || d.Phases[k-1].Name != e.Phase.String() || d.Phases[k-1].Step != e.Step {
			d.Phases = append(d.Phases, phaseData{e.Phase.String(), e.Step, int(n)})
		}
		switch e.Kind {
		case timeline.Alloc:
			d.Start[e.Block], d.End[e.Block], d.Bytes[e.Block] = n, -1, e.Bytes
			d.Category[e.Block], d.Layer[e.Block] = int32(e.Category), e.Layer
			n++
			if r.Trace != nil && r.Trace.Number[i] < 0 {
				first = n
			}
		case timeline.Free:
			d.End[e.Block] = n
			n++
		}
	}
	if r.Trace != nil {
		n = first + int32(r.Trace.Events)
		d.Trace = traceOf(r.Trace, int(first))
	}
	number[len(t.Events)] = n
	d.Events = int(n)
	for _, l := range t.Layers {
		d.Layers = append(d.Layers, show(l))
	}
	for _, l := range r.Levels {
		if r.Trace != nil {
			d.Levels = append(d.Levels, [2]int64{int64(first) + int64(l.Event), l.Bytes})
		} else if l.Event >= 0 && l.Event <= len(t.Events) {
			d.Levels = append(d.Levels, [2]int64{int64(number[l.Event]), l.Bytes})
		}
	}
	for _, s := range r.Segments {
		k := segmentData{Addr: s.Addr, Bytes: s.Bytes, Kind: s.Kind, Blocks: []blockData{}}
		for _, b := range s.Blocks {
			label := ""
			if b.Label != "" {
				label = show(b.Label)
			}
			k.Blocks = append(k.Blocks, blockData{b.Bytes, b.Used, label})
		}
		d.Segments = append(d.Segments, k)
	}
	return d, nil
}

// about writes each text once: most allocations are alike.
func (d *runData) about(r *Run) {
	if r.Capacity.Bytes > 0 {
		d.Capacity = &capacityData{r.Capacity.Bytes, clean(r.Capacity.Name)}
	}
	if r.Failure != nil {
		d.Failure = &failureData{r.Failure.Bytes, clean(r.Failure.Text)}
	}
	d.Texts, d.About = [][]string{}, []int32{}
	known := map[string]int32{}
	for _, lines := range r.About {
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
