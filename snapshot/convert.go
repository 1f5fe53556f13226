package snapshot

type frameKey struct {
	name, file uint32
	line       int64
}

// frameOf makes a frame of a dict with exactly name, filename and line.
func (m *machine) frameOf(items []value) (value, bool) {
	if len(items) != 6 {
		return value{}, false
	}
	key, ok := m.frameKey(items)
	if !ok {
		return value{}, false
	}
	return m.internFrame(key), true
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
			if v.kind == kInt || v.kind == kUint { // Python's -1, of no line, is 2^64-1 in a file
				key.line, seen = v.n, seen|4
			}
		}
	}
	return key, seen == 7
}

// internFrame finds or adds a frame.
func (m *machine) internFrame(k frameKey) value {
	id, ok := m.frameIDs[k]
	if !ok {
		id = uint32(len(m.s.Frames))
		m.s.Frames = append(m.s.Frames, Frame{Name: m.strings[k.name], File: m.strings[k.file], Line: k.line})
		m.frameIDs[k] = id
	}
	return value{int64(id), kFrame}
}

// stackOf interns the list of frames that v is.
func (m *machine) stackOf(v value) StackID {
	if v.kind == kStack {
		return StackID(v.n)
	}
	if v.kind == kObject && m.objects[v.n].done && m.objects[v.n].alias.kind == kStack {
		return StackID(m.objects[v.n].alias.n)
	}
	frames, ok := m.itemsOf(v, aList)
	if !ok || m.objects[v.n].role != roleNone {
		m.fail("frames: wanted a list of frames")
	}
	start := len(m.s.stackFrames)
	for _, x := range frames {
		m.s.stackFrames = append(m.s.stackFrames, m.frameID(x))
	}
	id := m.s.internStack(start, m.stackIDs)
	m.retire(uint32(v.n), value{int64(id), kStack})
	return id
}

// frameID is the index of a frame, which may have keys that this package does not know.
func (m *machine) frameID(v value) uint32 {
	if v.kind == kObject && m.objects[v.n].done {
		v = m.objects[v.n].alias
	}
	if v.kind == kFrame {
		return uint32(v.n)
	}
	items, ok := m.itemsOf(v, aDict)
	if !ok {
		m.fail("frames: element is no frame")
	}
	key, ok := m.frameKey(items)
	if !ok {
		m.fail("a frame wants name, filename and a line of 64 bits")
	}
	f := m.internFrame(key)
	m.retire(uint32(v.n), f)
	return uint32(f.n)
}

// event adds an event to a trace, of a dict's items.
func (m *machine) event(device int, items []value) value {
	var e Event
	action, size, addr, free := false, false, false, false
	frames := value{kind: kGone}
	stream := int64(0)
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		if k.kind != kString {
			m.event0(device, "a key that is no string")
		}
		switch id := uint32(k.n); id {
		case idAction:
			if v.kind != kString {
				m.event0(device, "action is no string")
			}
			if a := uint32(v.n) - idFirstAction; uint32(v.n) >= idFirstAction && a < uint32(NumActions) {
				e.Action = Action(a)
			} else {
				m.newAction(&e, m.strings[v.n])
			}
			action = true
		case idAddr:
			n, ok := m.unsigned(v)
			if !ok {
				m.event0(device, "addr is no integer from 0 to 2^64-1")
			}
			e.Addr, addr = n, true
		case idDeviceFree, idSize, idTime, idStream:
			if v.kind != kInt {
				m.event0(device, m.strings[id]+" is no 64 bit integer")
			}
			if v.n < 0 && id != idStream {
				m.event0(device, m.strings[id]+" is negative or beyond 2^63")
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
		case idCategory:
			if v.kind == kString {
				e.Category = indexOf(&m.s.Categories, m.categoryIDs, m.strings[v.n])
			}
		}
	}
	switch {
	case !action:
		m.event0(device, "no action")
	case !size:
		m.event0(device, "no size")
	case !addr && !free:
		m.event0(device, "neither addr nor device_free")
	case addr && free:
		m.event0(device, "both addr and device_free")
	case e.Action != OOM && pastEnd(e.Addr, e.Size):
		m.event0(device, "its end is beyond 2^63, or beyond 2^64 where it begins above that")
	}
	e.Stream = indexOf(&m.s.Streams, m.streamIDs, stream)
	if frames.kind != kGone {
		e.Stack = m.stackOf(frames)
	}
	m.events++
	m.s.Traces[device].Add(e)
	return value{int64(device), kEvent}
}

func (m *machine) event0(device int, what string) {
	m.fail("event of device %d: %s", device, what)
}

func (m *machine) newAction(e *Event, name string) {
	for i, a := range m.s.actions {
		if a == name {
			e.Action = NumActions + Action(i)
			return
		}
	}
	if len(m.s.actions) >= maxActions {
		m.fail("more than %d kinds of events", maxActions)
	}
	e.Action = NumActions + Action(len(m.s.actions))
	m.s.actions = append(m.s.actions, name)
}
