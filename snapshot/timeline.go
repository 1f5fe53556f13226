package snapshot

import (
	"strings"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// Infer gives the allocations the categories that their life suggests, where the file says none.
func (p *Played) Infer() { infer(p.Log, p.said) }

// A Played is a recording as requests to an allocator, with what the recording knows beyond them.
type Played struct {
	History *History
	Log     *timeline.Log
	Number  []int32 // by event of the log: the event of the trace, or -1, before it begins
	Blocks  []Live  // by block of the log
	said    []bool  // by block: the file says its category
}

// Play turns the trace of a device into requests such as estimates are made of, so that both can be replayed, drawn and
// compared alike. What was in use before the trace began comes first, while loading.
//
// A recording says neither phases nor categories. Phases follow from the stacks: frames of torch.optim, of a backward
// call or of the autograd thread; without stacks everything after loading is "forward". An event's own category counts
// where it has one; else what forward made is an activation, what backward made a gradient and what an optimizer made
// its state, however long it lives, so that the same tensors of two recordings have the same. Infer tells more.
func (s *Snapshot) Play(device int) (*Played, error) {
	var sizes []int64 // of the blocks, in the order of their allocations
	h, err := s.history(device, func(size int64) { sizes = append(sizes, size) })
	if err != nil {
		return nil, err
	}
	l := new(timeline.Log)
	out := &Played{History: h, Log: l}
	c := &converter{s: s, log: l, layers: map[StackID]int32{}, names: map[string]int32{},
		phases: map[StackID]timeline.Phase{}}
	live := make(map[int64]int32, len(h.Before))
	for _, b := range h.Before {
		layer := int32(timeline.NoLayer) // without a stack nobody knows what it is for
		if len(s.Stack(b.Stack)) > 0 {
			layer = c.layer(b.Stack)
		}
		live[b.Addr] = l.Alloc(timeline.Request{Bytes: b.Requested, Layer: layer, Category: timeline.Unknown}, 0)
		out.said = append(out.said, false)
		out.Blocks = append(out.Blocks, b)
	}
	number := func(i int) {
		for len(out.Number) < l.Len() {
			out.Number = append(out.Number, int32(i))
		}
	}
	number(-1)
	for i, e := range s.Trace(device).All() {
		switch e.Action {
		case Alloc:
			c.phase(e)
			layer := c.layer(e.Stack)
			if old, ok := live[e.Addr]; ok {
				l.Free(old, layer)
			}
			category, said := c.category(e)
			if !said {
				category = madeBy[c.now]
			}
			live[e.Addr] = l.Alloc(timeline.Request{Bytes: e.Size, Layer: layer, Category: category,
				Stream: uint8(min(e.Stream, 255))}, 0)
			out.said = append(out.said, said)
			out.Blocks = append(out.Blocks, Live{Addr: e.Addr, Size: sizes[0], Requested: e.Size, Stream: s.Streams[e.Stream],
				Stack: e.Stack, Event: i})
			sizes = sizes[1:]
		case FreeRequested, FreeCompleted:
			block, ok := live[e.Addr]
			if !ok {
				break // the second half of a free, or one that nothing allocated
			}
			c.phase(e)
			l.Free(block, c.layer(e.Stack))
			delete(live, e.Addr)
		}
		number(i)
	}
	return out, nil
}

// madeBy is what the memory is for that a phase asks for.
var madeBy = [timeline.NumPhases]timeline.Category{
	timeline.Load: timeline.Parameter, timeline.Forward: timeline.Activation, timeline.Loss: timeline.Activation,
	timeline.Backward: timeline.Gradient, timeline.Optimizer: timeline.OptimizerState, timeline.Finish: timeline.Unknown,
}

type converter struct {
	s      *Snapshot
	log    *timeline.Log
	layers map[StackID]int32
	names  map[string]int32
	phases map[StackID]timeline.Phase
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
			l = int32(len(c.log.Layers))
			c.log.Layers = append(c.log.Layers, name)
			c.names[name] = l
		}
	}
	c.layers[id] = l
	return l
}

// category is the one that the event itself has, if it has one.
func (c *converter) category(e *Event) (k timeline.Category, said bool) {
	name := c.s.Categories[e.Category]
	if name == "" {
		return timeline.Unknown, false
	}
	for k := range timeline.NumCategories {
		if name == k.String() {
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
	c.log.Mark(c.step, p)
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
func infer(l *timeline.Log, said []bool) {
	type moment struct {
		phase timeline.Phase
		step  int32
		is    bool
	}
	made, freed := make([]moment, l.Blocks()), make([]moment, l.Blocks())
	for e := range l.Events {
		switch e.Kind {
		case timeline.Alloc:
			made[e.Block] = moment{e.Phase, e.Step, true}
		case timeline.Free:
			freed[e.Block] = moment{e.Phase, e.Step, true}
		}
	}
	for b, at := range made {
		if said[b] {
			continue
		}
		category, end := timeline.Unknown, freed[b]
		switch {
		case at.phase == timeline.Load && l.Of(int32(b)).Layer != timeline.NoLayer && !end.is:
			category = timeline.Parameter
		case at.phase == timeline.Optimizer && !end.is:
			category = timeline.OptimizerState
		case at == end:
			category = timeline.Temporary
		case at.phase == timeline.Backward && end.is:
			category = timeline.Gradient
		case (at.phase == timeline.Forward || at.phase == timeline.Loss) && end.is &&
			(end.phase == timeline.Backward || end.phase == timeline.Loss):
			category = timeline.Activation
		}
		l.SetCategory(int32(b), category)
	}
}
