package timeline

import "fmt"

// Check says whether the timeline keeps its own rules: blocks are numbered in
// the order of their Alloc, every Free names a block that is live, no size is
// negative, phases, categories and layers exist. The error names the first event
// that does not.
func (t *Timeline) Check() error {
	if t.Blocks < 0 || int64(t.Blocks) > int64(len(t.Events)) {
		return fmt.Errorf("timeline: %d blocks, wanted 0 to the number of events, %d", t.Blocks, len(t.Events))
	}
	live := make([]bool, t.Blocks)
	next := int32(0)
	for i := range t.Events {
		e := &t.Events[i]
		if e.Phase >= NumPhases {
			return fmt.Errorf("timeline: event %d: phase %d, wanted below %d", i, e.Phase, NumPhases)
		}
		if e.Layer < NoLayer || int(e.Layer) >= len(t.Layers) {
			return fmt.Errorf("timeline: event %d: layer %d, wanted %d to %d", i, e.Layer, NoLayer, len(t.Layers)-1)
		}
		switch e.Kind {
		case Alloc:
			if e.Block != next {
				return fmt.Errorf("timeline: event %d allocates block %d, wanted %d, the next number", i, e.Block, next)
			}
			if e.Block >= t.Blocks {
				return fmt.Errorf("timeline: event %d allocates block %d, but there are only %d blocks", i, e.Block, t.Blocks)
			}
			if e.Bytes < 0 {
				return fmt.Errorf("timeline: event %d allocates %d bytes, wanted 0 or more", i, e.Bytes)
			}
			if e.Plan < 0 {
				return fmt.Errorf("timeline: event %d: plan %d, wanted 0 or more", i, e.Plan)
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
		case Mark:
		default:
			return fmt.Errorf("timeline: event %d: kind %d, wanted alloc, free or mark", i, e.Kind)
		}
	}
	if next != t.Blocks {
		return fmt.Errorf("timeline: %d blocks are allocated, wanted %d", next, t.Blocks)
	}
	return nil
}

// Peak returns the largest sum of live bytes, as requested, and the index of the
// event that first reaches it: -1 when nothing is ever allocated. What the
// allocator makes of it, with its rounding, is larger.
func (t *Timeline) Peak() (bytes int64, event int) {
	size := make([]int64, t.Blocks)
	live := int64(0)
	event = -1
	for i := range t.Events {
		e := &t.Events[i]
		switch e.Kind {
		case Alloc:
			size[e.Block] = e.Bytes
			live += e.Bytes
			if live > bytes {
				bytes, event = live, i
			}
		case Free:
			live -= size[e.Block]
			size[e.Block] = 0
		}
	}
	return bytes, event
}

// Live returns the indices of the Alloc events whose blocks are live just after
// the given event, oldest first.
func (t *Timeline) Live(event int) []int {
	event = min(event, len(t.Events)-1)
	at := make([]int32, t.Blocks) // one more than the index of the block's Alloc; 0 is dead
	n := 0
	for i := 0; i <= event; i++ {
		switch e := &t.Events[i]; e.Kind {
		case Alloc:
			at[e.Block] = int32(i) + 1
			n++
		case Free:
			at[e.Block] = 0
			n--
		}
	}
	live := make([]int, 0, max(n, 0))
	for _, i := range at {
		if i > 0 {
			live = append(live, int(i-1))
		}
	}
	return live
}

// ByCategory returns the bytes, as requested, that are live just after the given
// event, by category.
func (t *Timeline) ByCategory(event int) [NumCategories]int64 {
	var sum [NumCategories]int64
	for _, i := range t.Live(event) {
		sum[t.Events[i].Category] += t.Events[i].Bytes
	}
	return sum
}
