package snapshot

import (
	"fmt"
	"io"
	"iter"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// An Entry is one line of an allocator's history that a prediction made.
type Entry struct {
	Action Action
	Event  int // index of the timeline's event that caused it
	Stream int64
	Addr   int64
	Size   int64
}

// Sites say where in a program the events of a timeline happened.
type Sites struct {
	Of    []int32                  // by event: a site, or -1
	Stack func(site int32) []Frame // its frames, innermost first
}

// of returns the site of an event, -1 for none.
func (s *Sites) of(event int) int32 {
	if s == nil || event >= len(s.Of) {
		return -1
	}
	return s.Of[event]
}

// WritePredicted writes a snapshot of a predicted run: the events say what was asked for and why, the entries, in
// their order, and the segments where an allocator put it. A layer becomes a frame of the stack, its phase and
// step the frame that calls it; the model's name stands for their file. The category of each allocation is written as
// the viewer reads it. Times are the events' numbers, in microseconds. What is written is millions of events, of which
// none is kept.
func WritePredicted(w io.Writer, layers []string, events iter.Seq[timeline.Event], entries iter.Seq[Entry],
	segments []Segment, model string, conf string, sites *Sites) error {
	b := NewBuilder(0)
	b.s.AllocConf, b.s.Segments = conf, segments
	c := &predicted{b: b, layers: layers, model: model, sites: sites, stacks: map[[4]int32]StackID{}}
	made := func(yield func(*Event) bool) { c.events(events, entries, yield) }
	if err := b.s.write(w, made); err != nil {
		return err
	}
	return c.err
}

// predicted makes the events of a predicted run one after the other.
type predicted struct {
	b          *Builder
	layers     []string
	model      string
	sites      *Sites
	stacks     map[[4]int32]StackID
	categories []timeline.Category // by block, once it is allocated
	err        error
}

func (c *predicted) events(events iter.Seq[timeline.Event], entries iter.Seq[Entry], yield func(*Event) bool) {
	next, stop := iter.Pull(events)
	defer stop()
	e, ok := next()
	at := 0 // the number of e
	for en := range entries {
		for ; ok && at < en.Event; at++ {
			e, ok = next()
		}
		if !ok || at != en.Event {
			c.err = fmt.Errorf("snapshot: an entry refers to event %d, event %d is the last or comes next", en.Event, at)
			return
		}
		if !yield(c.event(&e, &en)) {
			return
		}
	}
	for ; ok; at++ {
		_, ok = next()
	}
	// The viewer's legend fails unless some event is of category "unknown".
	var allocated int64
	for i := range c.b.s.Segments {
		allocated += c.b.s.Segments[i].Allocated
	}
	yield(&Event{Action: Snap, Size: allocated, Time: int64(at), Category: c.b.Category(timeline.Unknown.String()),
		Stream: c.b.stream(0)})
}

// event is what an entry of the allocator's is for an event of the log.
func (c *predicted) event(e *timeline.Event, en *Entry) *Event {
	if e.Kind == timeline.Alloc {
		for len(c.categories) <= int(e.Block) {
			c.categories = append(c.categories, timeline.Unknown)
		}
		c.categories[e.Block] = e.Category
	}
	site := c.sites.of(en.Event)
	key := [4]int32{e.Layer, int32(e.Phase), e.Step, site}
	id, ok := c.stacks[key]
	if !ok {
		var frames []Frame
		if site >= 0 {
			frames = c.sites.Stack(site)
		} else if e.Layer >= 0 && int(e.Layer) < len(c.layers) {
			frames = append(frames, Frame{Name: c.layers[e.Layer], File: c.model, Line: int64(e.Layer)})
		}
		frames = append(frames, Frame{Name: e.Phase.String(), File: fmt.Sprintf("step %d", e.Step)})
		id = c.b.Stack(frames...)
		c.stacks[key] = id
	}
	category := timeline.Unknown
	if e.Block >= 0 && int(e.Block) < len(c.categories) {
		category = c.categories[e.Block]
	}
	return &Event{Action: en.Action, Addr: en.Addr, Size: en.Size, Time: int64(en.Event), Stack: id,
		Category: c.b.Category(category.String()), Stream: c.b.stream(en.Stream)}
}
