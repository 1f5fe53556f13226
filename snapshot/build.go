package snapshot

import "encoding/binary"

// A Builder makes a Snapshot event by event.
type Builder struct {
	s          *Snapshot
	frames     map[Frame]uint32
	stacks     map[string]StackID
	categories map[string]uint32
	streams    map[int64]uint32
}

// NewBuilder returns a Builder of an empty snapshot with so many devices.
func NewBuilder(devices int) *Builder {
	b := &Builder{
		s:          newSnapshot(),
		frames:     map[Frame]uint32{},
		stacks:     map[string]StackID{},
		categories: map[string]uint32{"": 0},
		streams:    map[int64]uint32{},
	}
	for range devices {
		b.s.Traces = append(b.s.Traces, new(Trace))
	}
	return b
}

// indexOf returns the place of v in a list, to which it is added if it is new. places has those of the list's elements.
func indexOf[T comparable](list *[]T, places map[T]uint32, v T) uint32 {
	i, ok := places[v]
	if !ok {
		i = uint32(len(*list))
		*list = append(*list, v)
		places[v] = i
	}
	return i
}

// Stack returns the stack of these frames, innermost first.
func (b *Builder) Stack(frames ...Frame) StackID {
	start := len(b.s.stackFrames)
	for _, f := range frames {
		b.s.stackFrames = append(b.s.stackFrames, indexOf(&b.s.Frames, b.frames, f))
	}
	return b.s.internStack(start, b.stacks)
}

// internStack finds or adds the stack that stackFrames has from start on.
func (s *Snapshot) internStack(start int, ids map[string]StackID) StackID {
	frames := s.stackFrames[start:]
	key := make([]byte, 0, 256)
	for _, f := range frames {
		key = binary.NativeEndian.AppendUint32(key, f)
	}
	if id, ok := ids[string(key)]; ok {
		s.stackFrames = s.stackFrames[:start]
		return id
	}
	id := StackID(len(s.stacks))
	s.stacks = append(s.stacks, [2]int{start, len(s.stackFrames)})
	ids[string(key)] = id
	return id
}

// Category returns the index of a category in Snapshot.Categories.
func (b *Builder) Category(name string) uint32 { return indexOf(&b.s.Categories, b.categories, name) }

// Event appends an event to a device's trace. Stream is the CUDA stream; the
// event's own is set.
func (b *Builder) Event(device int, e Event, stream int64) {
	e.Stream = b.stream(stream)
	b.s.Traces[device].Add(e)
}

// stream returns the index of a CUDA stream.
func (b *Builder) stream(stream int64) uint32 { return indexOf(&b.s.Streams, b.streams, stream) }

// Snapshot returns what was built. The Builder must not be used afterwards.
func (b *Builder) Snapshot() *Snapshot { return b.s }
