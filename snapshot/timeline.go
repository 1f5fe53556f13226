package snapshot

import (
	"strings"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// Timeline turns the trace of a device into the timeline that estimates are made
// of, so that both can be replayed, drawn and compared alike. What was in use
// before the trace began comes first, while loading.
//
// A recording says neither phases nor categories. Phases follow from the stacks:
// frames of torch.optim, of a backward call or of the autograd thread; without
// stacks everything after loading is "forward". An event's own category counts
// where it has one; else it follows from when the memory was taken and given
// back (see infer).
func (s *Snapshot) Timeline(device int) (*timeline.Timeline, error) {
	p, err := s.Play(device)
	if err != nil {
		return nil, err
	}
	p.Infer()
	return p.Timeline, nil
}

// Infer gives the timeline's allocations the categories that their life suggests, where the file says none.
func (p *Played) Infer() { infer(p.Timeline, p.said) }

// A Played is a recording as a timeline, with what the recording knows beyond it.
type Played struct {
	History  *History
	Timeline *timeline.Timeline
	Number   []int32 // by event of the timeline: the event of the trace, or -1, before it begins
	Blocks   []Live  // by block of the timeline
	said     []bool  // by block: the file says its category
}

// Play turns the trace of a device into a timeline. Other than Timeline it tells
// categories from who made an allocation alone: what forward made is an
// activation, what backward made a gradient and what an optimizer made its state,
// however long it lives. So the same tensors of two recordings have the same.
func (s *Snapshot) Play(device int) (*Played, error) {
	var sizes []int64 // of the blocks, in the order of their allocations
	h, err := s.history(device, func(size int64) { sizes = append(sizes, size) })
	if err != nil {
		return nil, err
	}
	out := &Played{History: h}
	c := &converter{s: s, layers: map[StackID]int32{}, names: map[string]int32{}, phases: map[StackID]timeline.Phase{}}
	t := s.Trace(device)
	live := make(map[int64]int32, len(h.Before))
	c.b.Grow(len(h.Before) + t.Len())
	for _, l := range h.Before {
		// Without a stack nobody knows what it is for.
		c.b.SetLayer(timeline.NoLayer)
		if len(s.Stack(l.Stack)) > 0 {
			c.b.SetLayer(c.layer(l.Stack))
		}
		live[l.Addr] = c.b.Alloc(timeline.Unknown, l.Requested)
		c.said = append(c.said, false)
		out.Blocks = append(out.Blocks, l)
	}
	number := func(i int) {
		for len(out.Number) < c.b.Len() {
			out.Number = append(out.Number, int32(i))
		}
	}
	number(-1)
	for i, e := range t.All() {
		switch e.Action {
		case Alloc:
			c.phase(e)
			c.b.SetLayer(c.layer(e.Stack))
			c.b.SetStream(uint8(min(e.Stream, 255)))
			if old, ok := live[e.Addr]; ok {
				c.b.Free(old, out.Blocks[old].Requested)
			}
			category, said := c.category(e)
			if !said {
				category = madeBy[c.now]
			}
			live[e.Addr] = c.b.Alloc(category, e.Size)
			c.said = append(c.said, said)
			out.Blocks = append(out.Blocks, Live{Addr: e.Addr, Size: sizes[0], Requested: e.Size, Stream: s.Streams[e.Stream],
				Stack: e.Stack, Event: i})
			sizes = sizes[1:]
		case FreeRequested, FreeCompleted:
			block, ok := live[e.Addr]
			if !ok {
				break // the second half of a free, or one that nothing allocated
			}
			c.phase(e)
			c.b.SetLayer(c.layer(e.Stack))
			c.b.SetStream(uint8(min(e.Stream, 255)))
			c.b.Free(block, out.Blocks[block].Requested)
			delete(live, e.Addr)
		}
		number(i)
	}
	out.Timeline, out.said = c.b.Timeline(), c.said
	return out, nil
}

// madeBy is what the memory is for that a phase asks for.
var madeBy = [timeline.NumPhases]timeline.Category{
	timeline.Load: timeline.Parameter, timeline.Forward: timeline.Activation, timeline.Loss: timeline.Activation,
	timeline.Backward: timeline.Gradient, timeline.Optimizer: timeline.OptimizerState, timeline.Finish: timeline.Unknown,
}

type converter struct {
	s      *Snapshot
	b      timeline.Builder
	layers map[StackID]int32
	names  map[string]int32
	phases map[StackID]timeline.Phase
	said   []bool // by block: the file says its category
	now    timeline.Phase
	step   int32
}

func (c *converter) layer(id StackID) int32 {
	if l, ok := c.layers[id]; ok {
		return l
	}
	l := int32(timeline.NoLayer)
	if id != 0 {
		name := c.s.Site(id)
		var ok bool
		if l, ok = c.names[name]; !ok {
			l = c.b.AddLayer(name)
			c.names[name] = l
		}
	}
	c.layers[id] = l
	return l
}

// category is the one that the event itself has, if it has one.
func (c *converter) category(e *Event) (k timeline.Category, said bool) {
	n := &c.s.Notes[e.Note]
	if n.has&hasCategory == 0 {
		return timeline.Unknown, false
	}
	for k := range timeline.NumCategories {
		if n.Category == k.String() {
			return k, true
		}
	}
	return timeline.Unknown, true
}

// phase marks where a phase begins. A step begins when the forward pass does.
func (c *converter) phase(e *Event) {
	p, ok := c.phases[e.Stack]
	if !ok {
		p = c.s.phaseOf(e.Stack)
		c.phases[e.Stack] = p
	}
	if p == c.now && c.step > 0 || p == timeline.Load && c.step > 0 && e.Action != Alloc {
		return
	}
	if p == timeline.Forward && c.now == timeline.Loss {
		return // what the loss function's caller does is no new step
	}
	if p == timeline.Load && c.now == timeline.Load {
		return
	}
	if p == timeline.Forward && c.now != timeline.Forward || c.step == 0 {
		if e.Action != Alloc && c.step > 0 {
			return // frees between two phases belong to the one that ends
		}
		if p != timeline.Load {
			c.step++
		}
	}
	c.now = p
	c.b.Mark(c.step, p)
}

// phaseOf tells the phase from the functions on a stack.
func (s *Snapshot) phaseOf(id StackID) timeline.Phase {
	if id == 0 {
		return timeline.Forward
	}
	frames := s.Stack(id)
	if len(frames) == 0 {
		return timeline.Backward // the autograd thread has no Python frames
	}
	for _, k := range frames {
		f := &s.Frames[k]
		switch {
		case strings.Contains(f.File, "torch/optim/") && f.Name == "zero_grad":
			return timeline.Finish
		case strings.Contains(f.File, "torch/optim/"):
			return timeline.Optimizer
		case strings.HasPrefix(f.Name, "torch::autograd::Engine::"), f.Name == "_engine_run_backward",
			f.Name == "backward" && strings.Contains(f.File, "torch/"):
			return timeline.Backward
		case strings.Contains(f.File, "torch/nn/modules/loss.py"):
			return timeline.Loss
		case f.Name == "_apply" && strings.Contains(f.File, "torch/nn/modules/module.py"):
			return timeline.Load
		case strings.HasPrefix(f.File, "step "): // as Predicted writes it
			for p := range timeline.NumPhases {
				if f.Name == p.String() {
					return p
				}
			}
		}
	}
	return timeline.Forward
}

// infer gives allocations whose category nobody said the one that their life suggests:
// what a module moved to the GPU is a parameter (or a buffer), what the optimizer
// made and keeps is its state, what backward made and somebody later gives back
// is a gradient, what forward made and backward gives back is an activation, and
// what ends in the phase that made it is temporary.
func infer(t *timeline.Timeline, said []bool) {
	made := make([]int32, t.Blocks)
	freed := make([]int32, t.Blocks)
	for i := range freed {
		freed[i] = -1
	}
	for i := range t.Events {
		switch e := &t.Events[i]; e.Kind {
		case timeline.Alloc:
			made[e.Block] = int32(i)
		case timeline.Free:
			freed[e.Block] = int32(i)
		}
	}
	for b := range made {
		e := &t.Events[made[b]]
		if said[b] {
			continue
		}
		e.Category = timeline.Unknown
		var end *timeline.Event
		if freed[b] >= 0 {
			end = &t.Events[freed[b]]
		}
		same := end != nil && end.Phase == e.Phase && end.Step == e.Step
		switch {
		case e.Phase == timeline.Load && e.Layer != timeline.NoLayer && end == nil:
			e.Category = timeline.Parameter
		case e.Phase == timeline.Optimizer && end == nil:
			e.Category = timeline.OptimizerState
		case same:
			e.Category = timeline.Temporary
		case e.Phase == timeline.Backward && end != nil:
			e.Category = timeline.Gradient
		case (e.Phase == timeline.Forward || e.Phase == timeline.Loss) && end != nil &&
			(end.Phase == timeline.Backward || end.Phase == timeline.Loss):
			e.Category = timeline.Activation
		}
	}
}
