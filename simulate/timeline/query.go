package timeline

import (
	"fmt"
	"iter"
)

// Check says whether the events keep their own rules: blocks are numbered in
// the order of their Alloc, every Free names a block that is live, no size is
// negative, phases, categories and layers exist. The error names the first event
// that does not.
func (s *Source) Check() error {
	if s.Blocks < 0 || int64(s.Blocks) > int64(s.Len) {
		return fmt.Errorf("timeline: %d blocks, wanted 0 to the number of events, %d", s.Blocks, s.Len)
	}
	live := make([]bool, s.Blocks)
	next := int32(0)
	for i, e := range s.Each {
		if e.Phase >= NumPhases {
			return fmt.Errorf("timeline: event %d: phase %d, wanted below %d", i, e.Phase, NumPhases)
		}
		if e.Layer < NoLayer || int(e.Layer) >= len(s.Layers) {
			return fmt.Errorf("timeline: event %d: layer %d, wanted %d to %d", i, e.Layer, NoLayer, len(s.Layers)-1)
		}
		switch e.Kind {
		case Alloc:
			if e.Block != next {
				return fmt.Errorf("timeline: event %d allocates block %d, wanted %d, the next number", i, e.Block, next)
			}
			if e.Block >= s.Blocks {
				return fmt.Errorf("timeline: event %d allocates block %d, but there are only %d blocks", i, e.Block, s.Blocks)
			}
			if e.Bytes < 0 {
				return fmt.Errorf("timeline: event %d allocates %d bytes, wanted 0 or more", i, e.Bytes)
			}
			if e.Plan < Searching {
				return fmt.Errorf("timeline: event %d: plan %d, wanted %d or more", i, e.Plan, Searching)
			}
			if e.Category >= NumCategories {
				return fmt.Errorf("timeline: event %d: category %d, wanted below %d", i, e.Category, NumCategories)
			}
			live[e.Block] = true
			next++
		case Free:
			if e.Block < 0 || e.Block >= next {
				return fmt.Errorf("timeline: event %d frees block %d, which was never allocated", i, e.Block)
			}
			if !live[e.Block] {
				return fmt.Errorf("timeline: event %d frees block %d a second time", i, e.Block)
			}
			live[e.Block] = false
		case Mark, Release:
		default:
			return fmt.Errorf("timeline: event %d: kind %d, wanted alloc, free, mark or release", i, e.Kind)
		}
	}
	if next != s.Blocks {
		return fmt.Errorf("timeline: %d blocks are allocated, wanted %d", next, s.Blocks)
	}
	return nil
}

// Peak returns the largest sum of live bytes, as requested, and the index of the
// event that first reaches it: -1 when nothing is ever allocated. What the
// allocator makes of it, with its rounding, is larger.
func (s *Source) Peak() (bytes int64, event int) {
	live := int64(0)
	event = -1
	for i, e := range s.Each {
		if live += e.Change(); live > bytes {
			bytes, event = live, i
		}
	}
	return bytes, event
}

// Live ranges over the Alloc events whose blocks are live just after the given event, oldest first, each with its
// index.
func (s *Source) Live(event int) iter.Seq2[int, Event] {
	return func(yield func(int, Event) bool) {
		live := make([]bool, s.Blocks)
		for i, e := range s.Each {
			if i > event {
				break
			}
			if e.Kind.Moves() {
				live[e.Block] = e.Kind == Alloc
			}
		}
		for i, e := range s.Each {
			if i > event {
				return
			}
			if e.Kind == Alloc && live[e.Block] && !yield(i, e) {
				return
			}
		}
	}
}

// ByCategory returns the bytes, as requested, that are live just after the given
// event, by category.
func (s *Source) ByCategory(event int) (sum [NumCategories]int64) {
	for _, e := range s.Live(event) {
		sum[e.Category] += e.Bytes
	}
	return sum
}
