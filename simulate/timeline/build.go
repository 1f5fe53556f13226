package timeline

import "slices"

// A Builder appends events to a Timeline. It numbers the blocks and stamps every
// event with the phase, step, layer and stream in force. The zero Builder is
// ready: it begins while loading, at step 0, on the default stream, in no layer.
type Builder struct {
	t      Timeline
	phase  Phase
	step   int32
	layer  int32 // one more than the index, so that the zero value is NoLayer
	stream uint8
}

// Grow makes room for n more events, so that appending them does not reallocate.
func (b *Builder) Grow(n int) { b.t.Events = slices.Grow(b.t.Events, n) }

// Len returns the number of events so far.
func (b *Builder) Len() int { return len(b.t.Events) }

// Mark begins a phase of a step and records it as an event.
func (b *Builder) Mark(step int32, phase Phase) {
	b.step, b.phase = step, phase
	b.append(Event{Kind: Mark, Block: -1})
}

// AddLayer adds a name to the layers and returns its index. It does not become
// the current layer; SetLayer does that.
func (b *Builder) AddLayer(name string) int32 {
	b.t.Layers = append(b.t.Layers, name)
	return int32(len(b.t.Layers) - 1)
}

// SetLayer says which layer the next events belong to: an index that AddLayer
// returned, or NoLayer.
func (b *Builder) SetLayer(layer int32) { b.layer = layer + 1 }

// SetStream says on which stream the next events happen. 0 is the default stream.
func (b *Builder) SetStream(stream uint8) { b.stream = stream }

// Alloc records an allocation of so many bytes, as requested, and returns its block.
func (b *Builder) Alloc(category Category, bytes int64) int32 {
	block := b.t.Blocks
	b.t.Blocks++
	b.append(Event{Kind: Alloc, Category: category, Block: block, Bytes: bytes})
	return block
}

// Free records that a block that Alloc returned is given back. bytes is what
// Alloc was told, so that whoever reads the Free alone knows its size.
func (b *Builder) Free(block int32, bytes int64) {
	b.append(Event{Kind: Free, Category: Unknown, Block: block, Bytes: bytes})
}

// Timeline returns what was built. The Builder must not be used afterwards.
func (b *Builder) Timeline() *Timeline {
	t := b.t
	b.t = Timeline{}
	return &t
}

func (b *Builder) append(e Event) {
	e.Phase, e.Step, e.Layer, e.Stream = b.phase, b.step, b.layer-1, b.stream
	b.t.Events = append(b.t.Events, e)
}
