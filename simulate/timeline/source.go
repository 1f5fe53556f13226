package timeline

import "iter"

// A Source is events that can be gone through as often as wanted: those of a Log, or a part of them. Written out they
// take four times its memory.
type Source struct {
	Layers []string // names that events refer to
	Blocks int32
	Len    int                   // of events
	Each   iter.Seq2[int, Event] // in order, each with its index
}

// Source returns the log's events.
func (l *Log) Source() *Source {
	return &Source{l.Layers, l.Blocks(), l.Len(), func(yield func(int, Event) bool) {
		i := 0
		l.Events(func(e Event) bool {
			i++
			return yield(i-1, e)
		})
	}}
}

// At returns the event with this index, which must exist.
func (s *Source) At(event int) Event {
	for i, e := range s.Each {
		if i == event {
			return e
		}
	}
	panic("timeline: no such event")
}
