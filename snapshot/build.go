package snapshot

// A Builder makes a Snapshot event by event.
type Builder struct {
	s       *Snapshot
	frames  map[Frame]uint32
	stacks  map[string]StackID
	notes   map[string]NoteID
	streams map[int64]uint32
}

// NewBuilder returns a Builder of an empty snapshot with so many devices.
func NewBuilder(devices int) *Builder {
	b := &Builder{
		s:       &Snapshot{stacks: make([][2]uint32, 1), hasSettings: true, hasNotes: true},
		frames:  map[Frame]uint32{},
		stacks:  map[string]StackID{},
		notes:   map[string]NoteID{},
		streams: map[int64]uint32{},
	}
	for range devices {
		b.s.Traces = append(b.s.Traces, new(Trace))
	}
	return b
}

// Stack returns the stack of these frames, innermost first.
func (b *Builder) Stack(frames ...Frame) StackID {
	start := len(b.s.stackFrames)
	key := make([]byte, 0, 4*len(frames))
	for _, f := range frames {
		i, ok := b.frames[f]
		if !ok {
			i = uint32(len(b.s.Frames))
			b.s.Frames = append(b.s.Frames, f)
			b.frames[f] = i
		}
		key = append(key, byte(i), byte(i>>8), byte(i>>16), byte(i>>24))
		b.s.stackFrames = append(b.s.stackFrames, i)
	}
	if id, ok := b.stacks[string(key)]; ok {
		b.s.stackFrames = b.s.stackFrames[:start]
		return id
	}
	id := StackID(len(b.s.stacks))
	b.s.stacks = append(b.s.stacks, [2]uint32{uint32(start), uint32(len(b.s.stackFrames))})
	b.stacks[string(key)] = id
	return id
}

// Note returns the note with a category; "" is none.
func (b *Builder) Note(category string) NoteID {
	id, ok := b.notes[category]
	if !ok {
		n := Note{CompileContext: "N/A", Category: category, has: hasCompileContext | hasUserMetadata}
		if category != "" {
			n.has |= hasCategory
		}
		id = NoteID(len(b.s.Notes))
		b.s.Notes = append(b.s.Notes, n)
		b.notes[category] = id
	}
	return id
}

// Event appends an event to a device's trace. Stream is the CUDA stream; the
// event's own is set.
func (b *Builder) Event(device int, e Event, stream int64) {
	e.Stream = b.stream(stream)
	b.s.Traces[device].Add(e)
}

// stream returns the index of a CUDA stream.
func (b *Builder) stream(stream int64) uint32 {
	i, ok := b.streams[stream]
	if !ok {
		i = uint32(len(b.s.Streams))
		b.s.Streams = append(b.s.Streams, stream)
		b.streams[stream] = i
	}
	return i
}

// Snapshot returns what was built. The Builder must not be used afterwards.
func (b *Builder) Snapshot() *Snapshot { return b.s }
