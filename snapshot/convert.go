package snapshot

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
)

type frameKey struct {
	name, file uint32
	line       int64
}

type noteKey struct{ context, metadata, category uint32 } // string ids plus one; 0 is absent

// frameOf makes a frame of a dict with exactly name, filename and line.
func (m *machine) frameOf(items []value) (value, bool) {
	if len(items) != 6 {
		return value{}, false
	}
	key, ok := m.frameKey(items)
	if !ok {
		return value{}, false
	}
	return m.internFrame(key)
}

// frameKey reads the name, the filename and the line that a dict's items have among others.
func (m *machine) frameKey(items []value) (key frameKey, ok bool) {
	var seen uint8
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		switch {
		case k.kind == kString && uint32(k.n) == idName && v.kind == kString:
			key.name, seen = uint32(v.n), seen|1
		case k.kind == kString && uint32(k.n) == idFilename && v.kind == kString:
			key.file, seen = uint32(v.n), seen|2
		case k.kind == kString && uint32(k.n) == idLine:
			if n, ok := m.line(v); ok {
				key.line, seen = n, seen|4
			}
		}
	}
	return key, seen == 7
}

// internFrame finds or adds a frame.
func (m *machine) internFrame(k frameKey) (value, bool) {
	id, ok := m.frameIDs[k]
	if !ok {
		if len(m.s.Frames) >= memoMax {
			return value{}, false
		}
		id = uint32(len(m.s.Frames))
		m.s.Frames = append(m.s.Frames, Frame{Name: m.strings[k.name], File: m.strings[k.file], Line: k.line})
		m.frameIDs[k] = id
	}
	return value{int64(id), kFrame}, true
}

// line reads the number of a line. PyTorch keeps it unsigned: where Python has
// none, -1, the file has 2^64-1.
func (m *machine) line(v value) (int64, bool) {
	if v.kind == kInt {
		return v.n, true
	}
	return m.unsigned(v)
}

func (m *machine) bigBytes(v value) string {
	if v.kind != kBig {
		return ""
	}
	return m.strings[v.n]
}

// stackOf interns the list of frames that v is.
func (m *machine) stackOf(v value) (StackID, error) {
	if v.kind == kStack {
		return StackID(v.n), nil
	}
	if v.kind != kObject || m.objects[v.n].kind != List || m.objects[v.n].role != roleNone {
		return 0, m.fail("frames: wanted a list of frames")
	}
	index := uint32(v.n)
	if o := &m.objects[index]; o.done {
		if o.alias.kind != kStack {
			return 0, m.fail("frames: wanted a list of frames")
		}
		return StackID(o.alias.n), nil
	}
	start := len(m.s.stackFrames)
	for k := range m.objects[index].items {
		f, err := m.frameID(m.objects[index].items[k])
		if err != nil {
			return 0, err
		}
		m.s.stackFrames = append(m.s.stackFrames, f)
	}
	id, err := m.internStack(start)
	if err != nil {
		return 0, err
	}
	m.retire(index, value{int64(id), kStack})
	return id, nil
}

// frameID is the index of a frame, which may have keys that this package does not know.
func (m *machine) frameID(v value) (uint32, error) {
	if v.kind == kObject && m.objects[v.n].done {
		v = m.objects[v.n].alias
	}
	if v.kind == kFrame {
		return uint32(v.n), nil
	}
	if v.kind != kObject || m.objects[v.n].kind != Dict {
		return 0, m.fail("frames: element is no frame")
	}
	key, ok := m.frameKey(m.objects[v.n].items)
	if !ok {
		return 0, m.fail("a frame wants name, filename and a line of 64 bits")
	}
	f, ok := m.internFrame(key)
	if !ok {
		return 0, m.fail("too many frames")
	}
	m.retire(uint32(v.n), f)
	return uint32(f.n), nil
}

// internStack finds or adds the stack that stackFrames has from start on.
func (m *machine) internStack(start int) (StackID, error) {
	s := m.s
	frames := s.stackFrames[start:]
	if uint64(len(s.stackFrames)) > math.MaxUint32 || len(s.stacks) >= memoMax {
		return 0, m.fail("too many stacks")
	}
	if 2*len(s.stacks) >= len(m.stackIDs) {
		m.stackIDs = make([]uint32, max(64, 2*len(m.stackIDs)))
		for id := 1; id < len(s.stacks); id++ {
			m.stackIDs[m.slot(s.Stack(StackID(id)))] = uint32(id)
		}
	}
	at := m.slot(frames)
	if id := m.stackIDs[at]; id != 0 {
		s.stackFrames = s.stackFrames[:start]
		return StackID(id), nil
	}
	id := uint32(len(s.stacks))
	s.stacks = append(s.stacks, [2]uint32{uint32(start), uint32(len(s.stackFrames))})
	m.stackIDs[at] = id
	return StackID(id), nil
}

var stackSeed = maphash.MakeSeed()

// slot is the place of the stack in the hash table, or the empty one it may take.
func (m *machine) slot(frames []uint32) uint64 {
	// A multiplicative hash, seeded so that no file can choose collisions.
	h := maphash.Comparable(stackSeed, len(frames)) | 1
	for _, f := range frames {
		h = (bits.RotateLeft64(h, 5) ^ uint64(f)) * 0x9e3779b97f4a7c15
	}
	mask := uint64(len(m.stackIDs) - 1)
	at := (h ^ h>>29) & mask
	for m.stackIDs[at] != 0 && !slices.Equal(m.s.Stack(StackID(m.stackIDs[at])), frames) {
		at = (at + 1) & mask
	}
	return at
}

// event makes an event of a dict's items and hands it out.
func (m *machine) event(device int, items []value) (value, error) {
	m.current = Event{} // of the machine, to keep it off the heap
	e := &m.current
	var note noteKey
	action, size, addr, free := false, false, false, false
	frames := value{kind: kGone}
	stream := int64(0)
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		if k.kind != kString {
			return value{}, m.event0(device, "a key that is no string")
		}
		switch id := uint32(k.n); id {
		case idAction:
			if v.kind != kString {
				return value{}, m.event0(device, "action is no string")
			}
			if a := uint32(v.n) - idFirstAction; uint32(v.n) >= idFirstAction && a < uint32(NumActions) {
				e.Action = Action(a)
			} else if err := m.newAction(e, m.strings[v.n]); err != nil {
				return value{}, err
			}
			action = true
		case idAddr:
			n, ok := m.unsigned(v)
			if !ok {
				return value{}, m.event0(device, "addr is no integer from 0 to 2^64-1")
			}
			e.Addr, addr = n, true
		case idDeviceFree, idSize, idTime, idStream:
			if v.kind != kInt {
				return value{}, m.event0(device, m.strings[id]+" is no 64 bit integer")
			}
			if v.n < 0 && id != idStream {
				return value{}, m.event0(device, m.strings[id]+" is negative or beyond 2^63")
			}
			switch id {
			case idDeviceFree:
				e.Addr, free = v.n, true
			case idSize:
				e.Size, size = v.n, true
			case idTime:
				e.Time = v.n
			case idStream:
				stream = v.n
			}
		case idFrames:
			frames = v
		case idCompileContext, idUserMetadata, idCategory:
			if v.kind != kString {
				break
			}
			switch id {
			case idCompileContext:
				note.context = uint32(v.n) + 1
			case idUserMetadata:
				note.metadata = uint32(v.n) + 1
			default:
				note.category = uint32(v.n) + 1
			}
		}
	}
	switch {
	case !action:
		return value{}, m.event0(device, "no action")
	case !size:
		return value{}, m.event0(device, "no size")
	case !addr && !free:
		return value{}, m.event0(device, "neither addr nor device_free")
	case addr && free:
		return value{}, m.event0(device, "both addr and device_free")
	case e.Action != OOM && pastEnd(e.Addr, e.Size):
		return value{}, m.event0(device, "its end is beyond 2^63, or beyond 2^64 where it begins above that")
	}
	if stream != m.lastName || m.events == 0 {
		i, ok := m.streamIDs[stream]
		if !ok {
			i = uint32(len(m.s.Streams))
			m.s.Streams = append(m.s.Streams, stream)
			m.streamIDs[stream] = i
		}
		m.lastName, m.lastIndex = stream, i
	}
	e.Stream = m.lastIndex
	if frames.kind != kGone {
		var err error
		if e.Stack, err = m.stackOf(frames); err != nil {
			return value{}, err
		}
	}
	e.Note = m.note(note)
	m.events++
	if m.opts.Visit != nil {
		if err := m.opts.Visit(m.s, device, e); err != nil {
			return value{}, err
		}
	} else {
		m.kept++
		m.s.Traces[device].Add(*e)
	}
	return value{int64(device), kEvent}, nil
}

func (m *machine) event0(device int, what string) error {
	return m.fail("event of device %d: %s", device, what)
}

func (m *machine) newAction(e *Event, name string) error {
	for i, a := range m.s.actions {
		if a == name {
			e.Action = NumActions + Action(i)
			return nil
		}
	}
	if len(m.s.actions) >= maxActions {
		return m.fail("more than %d kinds of events", maxActions)
	}
	e.Action = NumActions + Action(len(m.s.actions))
	m.s.actions = append(m.s.actions, name)
	return nil
}

// note interns what an event says beyond its figures. Nearly always it says the
// same as the last.
func (m *machine) note(k noteKey) NoteID {
	if k == m.lastKey && len(m.s.Notes) > 0 {
		return m.lastNote
	}
	id, ok := m.noteIDs[k]
	if !ok {
		n := Note{}
		for _, f := range []struct {
			id  uint32
			to  *string
			bit uint8
		}{{k.context, &n.CompileContext, hasCompileContext}, {k.metadata, &n.UserMetadata, hasUserMetadata}, {k.category,
			&n.Category, hasCategory}} {
			if f.id > 0 {
				*f.to = m.strings[f.id-1]
				n.has |= f.bit
			}
		}
		id = NoteID(len(m.s.Notes))
		m.s.Notes = append(m.s.Notes, n)
		m.noteIDs[k] = id
	}
	m.lastKey, m.lastNote = k, id
	return id
}
