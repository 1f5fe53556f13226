package snapshot

// Strings that the reader knows by number: machine.strings begins with them.
const (
	idSegments uint32 = iota
	idTraces
	idSettings
	idAnnotations
	idBlocks
	idFrames
	idName
	idFilename
	idLine
	idAction
	idAddr
	idDeviceFree
	idSize
	idStream
	idTime
	idCategory
	idDevice
	idAddress
	idTotalSize
	idAllocatedSize
	idActiveSize
	idRequestedSize
	idSegmentType
	idPool
	idExpandable
	idState
	idLarge
	idSmall
	idHistory
	idRealSize
	idAwaiting
	idFirstState                                           // the names of the block states follow
	idFirstAction = idFirstState + uint32(len(stateNames)) // and those of the actions
	numIDs        = idFirstAction + uint32(NumActions)
)

var knownStrings = append(append([]string{
	"segments", "device_traces", "allocator_settings", "external_annotations",
	"blocks", "frames", "name", "filename", "line", "action", "addr", "device_free",
	"size", "stream", "time_us", "category",
	"device", "address", "total_size", "allocated_size", "active_size",
	"requested_size", "segment_type", "segment_pool_id", "is_expandable", "state",
	"large", "small", "history", "real_size", "active_awaiting_free",
}, stateNames[:]...), actionNames[:]...)

// object makes an empty container, or refuses where the file has shown too few
// bytes for as many.
func (m *machine) object(s shape) uint32 {
	if n := len(m.free); n > 0 {
		i := m.free[n-1]
		m.free = m.free[:n-1]
		o := &m.objects[i]
		*o = object{items: o.items[:0], shape: s, at: m.in.offset()}
		return i
	}
	if len(m.objects) > slack && int64(len(m.objects)) > slack+m.in.offset()/4 {
		m.fail("more than %d containers at once", len(m.objects))
	}
	m.objects = append(m.objects, object{shape: s, at: m.in.offset()})
	return uint32(len(m.objects) - 1)
}

// at returns the object of a value on the stack, or nil.
func (m *machine) at(i int) *object {
	if i < 0 || i >= len(m.stack) || m.stack[i].kind != kObject {
		return nil
	}
	return &m.objects[m.stack[i].n]
}

// itemsOf returns the items of a container of that shape that nobody has taken apart.
func (m *machine) itemsOf(v value, s shape) (items []value, ok bool) {
	if v.kind != kObject {
		return nil, false
	}
	o := &m.objects[v.n]
	return o.items, o.shape == s && !o.done
}

// under says whether the value at stack[i] is going into a container of that
// role: one right below it, or the one below the last MARK before it.
func (m *machine) under(i int, r role) bool {
	mark := 0
	for k := len(m.marks) - 1; k >= 0; k-- {
		if m.marks[k] <= i {
			mark = m.marks[k]
			break
		}
	}
	if i > mark {
		if o := m.at(i - 1); o != nil && o.role == r {
			return true
		}
	}
	o := m.at(mark - 1)
	return o != nil && o.role == r
}

// shapes are the containers that opcodes make.
var shapes = [256]shape{opEmptyDict: aDict, opEmptyList: aList, opEmptyTuple: aTuple}

// open pushes an empty container and finds out what it is for.
func (m *machine) open(op byte) {
	shape := shapes[op]
	i := m.object(shape)
	o, top := &m.objects[i], len(m.stack)
	switch {
	case shape == aDict && top == 0:
		o.role = roleRoot
	case shape == aList && top == 0:
		o.role = roleSegments // alone, as torch.cuda.memory_snapshot returns them
	case shape == aTuple && top == 0:
		m.refuseRoot()
	case shape == aList && m.under(top, roleTraces):
		if len(m.s.Traces) >= maxDevices {
			m.fail("traces of more than %d devices", maxDevices)
		}
		o.role = roleTrace
		m.device = len(m.s.Traces)
		m.s.Traces = append(m.s.Traces, new(Trace))
		o.alias.n = int64(m.device)
	case shape == aList && m.stack[top-1].kind == kString:
		if o.role = m.roleOf(top); m.given[o.role] {
			m.fail("%s given twice", m.strings[m.stack[top-1].n])
		}
		m.given[o.role] = o.role == roleSegments || o.role == roleTraces
		if o.role == roleBlocks {
			m.blocks = m.blocks[:0]
		}
	}
	m.push(kObject, int64(i))
}

// roleOf is what a list is for that is going to stack[top], above a string, by the dict of which that is a key.
func (m *machine) roleOf(top int) role {
	at := m.floor() - 1
	if len(m.marks) == 0 && top == 2 { // the only item of the top dict
		at = 0
	} else if (top-m.floor())%2 == 0 {
		return roleNone
	}
	d := m.at(at)
	if d == nil || d.shape != aDict {
		return roleNone
	}
	switch id := uint32(m.stack[top-1].n); {
	case id == idSegments && d.role == roleRoot:
		return roleSegments
	case id == idTraces && d.role == roleRoot:
		return roleTraces
	case id == idAnnotations && d.role == roleRoot:
		return roleRanges
	case id == idBlocks && m.under(at, roleSegments):
		return roleBlocks
	}
	return roleNone
}

// close ends what the last MARK began.
func (m *machine) close(op byte) {
	n := len(m.marks)
	if n == 0 {
		m.fail("an opcode closes a MARK that is not there")
	}
	mark := m.marks[n-1]
	m.marks = m.marks[:n-1]
	m.closeAt(op, mark)
}

// closeAt puts the values from stack[mark] on into the container below them, or
// into a new one.
func (m *machine) closeAt(op byte, mark int) {
	if len(m.stack) > 8 && !m.promising() {
		m.refuseRoot()
	}
	below := m.floor()
	if mark < below || mark > len(m.stack) {
		m.fail("an opcode wants more values than the stack has")
	}
	args := m.stack[mark:]
	if op == opSetItems && len(args)%2 == 1 {
		m.fail("a dict key without a value")
	}
	if op == opTuple {
		i := m.object(aTuple)
		m.attach(i, args)
		m.stack = append(m.stack[:mark], value{int64(i), kObject})
		return
	}
	if mark-1 < below {
		m.fail("an opcode wants a container that is not there")
	}
	o := m.at(mark - 1)
	if o == nil || o.done || op == opSetItems && o.shape != aDict || op == opAppends && o.shape != aList {
		m.fail("an opcode adds to what is no open container")
	}
	index := uint32(m.stack[mark-1].n)
	if op == opAppends {
		if v, ok := m.frames(o, args); ok {
			m.stack = m.stack[:mark]
			m.stack[mark-1] = v
			m.retire(index, v)
			return
		}
		m.appendTo(index, args)
		m.stack = m.stack[:mark]
		return
	}
	if len(o.items) == 0 && o.role == roleNone {
		if v := m.structured(mark-1, args); v.kind != kOther {
			m.credit(v.kind, m.objects[index].at)
			m.stack = m.stack[:mark]
			m.stack[mark-1] = v
			m.retire(index, v)
			return
		}
	}
	m.attach(index, args)
	m.stack = m.stack[:mark]
}

// structured turns the dict at stack[i], about to get its items, into what its
// place says it is; it returns kOther where it is an ordinary dict.
func (m *machine) structured(i int, items []value) value {
	if v, ok := m.frameOf(items); ok {
		return v
	}
	switch {
	case m.under(i, roleTrace):
		return m.event(m.device, items)
	case m.under(i, roleBlocks):
		return m.block(items)
	case m.under(i, roleSegments):
		return m.segment(items)
	case m.under(i, roleRanges):
		return value{kind: kRange}
	}
	return value{}
}

// credit notes that the file from an offset on has become part of the snapshot.
func (m *machine) credit(k kind, at int64) {
	n := m.in.offset() - at
	switch k {
	case kBlock:
		m.blockBytes += n
	case kSegment:
		n -= m.blockBytes // which are counted
		m.blockBytes = 0
	case kEvent, kRange:
	default:
		return // a frame: part of what has it
	}
	m.digested += max(n, 0)
}

// frames turns an empty list that gets nothing but frames into a stack. CPython
// adds up to a thousand elements at a time: after as many there may be more.
func (m *machine) frames(o *object, args []value) (value, bool) {
	if len(o.items) > 0 || o.role != roleNone || len(args) >= batch {
		return value{}, false
	}
	start := len(m.s.stackFrames)
	for _, v := range args {
		if v.kind != kFrame {
			m.s.stackFrames = m.s.stackFrames[:start]
			return value{}, false
		}
		m.s.stackFrames = append(m.s.stackFrames, uint32(v.n))
	}
	return value{int64(m.s.internStack(start, m.stackIDs)), kStack}, true
}

// elements are what a list of the known structure takes, by its role, and what to say of anything else.
var elements = map[role]struct {
	kind  kind
	wrong string
}{
	roleTraces:   {kObject, "device_traces: element is no list of events"},
	roleTrace:    {kEvent, "device_traces: element is no event of its device"},
	roleSegments: {kSegment, "segments: element is no dict that describes one"},
	roleBlocks:   {kBlock, "blocks: element is no dict that describes one"},
	roleRanges:   {kRange, "external_annotations: element is no dict that describes one"},
}

// appendTo appends to a list. Lists of the known structure only take what
// belongs in them, already taken apart.
func (m *machine) appendTo(index uint32, args []value) {
	o := &m.objects[index]
	want, known := elements[o.role]
	if !known {
		m.attach(index, args)
		return
	}
	for _, v := range args {
		if v.kind != want.kind || o.role == roleTraces && m.objects[v.n].role != roleTrace ||
			o.role == roleTrace && v.n != o.alias.n {
			m.fail("%s", want.wrong)
		}
	}
}

// attach adds values to an ordinary container. What was taken apart because of
// its place cannot have another one.
func (m *machine) attach(index uint32, args []value) {
	o := &m.objects[index]
	for k, v := range args {
		switch v.kind {
		case kEvent, kBlock, kSegment, kRange, kGone:
			m.fail("an event, block or segment where none belongs")
		case kObject:
			c := &m.objects[v.n]
			known := c.role == roleNone
			if o.role == roleRoot && k%2 == 1 && args[k-1].kind == kString {
				key := uint32(args[k-1].n)
				known = known || c.role == roleSegments && key == idSegments || c.role == roleTraces && key == idTraces ||
					c.role == roleRanges && key == idAnnotations
			}
			if !known {
				m.fail("a list of segments, blocks or events where none belongs")
			}
			if c.depth >= maxDepth {
				m.fail("nested deeper than %d", maxDepth)
			}
			o.depth = max(o.depth, c.depth+1)
		}
	}
	if m.values += int64(len(args)); m.values > slack+m.in.offset()/2 {
		m.fail("more than %d values in containers at once", m.values)
	}
	o.items = append(o.items, args...)
}

// retire gives a container's object back once the container has become v.
func (m *machine) retire(index uint32, v value) {
	o := &m.objects[index]
	m.values -= int64(len(o.items))
	o.items = o.items[:0]
	if cap(o.items) > 64 {
		o.items = nil
	}
	if v.kind == kEvent || v.kind == kBlock || v.kind == kSegment || v.kind == kRange {
		v = value{kind: kGone} // may be used once only
	}
	o.done, o.alias = true, v
	if o.got || o.puts > 1 {
		return // somebody may still come for it
	}
	if o.puts == 1 {
		self, _ := pack(value{int64(index), kObject})
		if m.memo[o.memo] == self {
			m.memo[o.memo], _ = pack(v)
		}
	}
	m.free = append(m.free, index)
}
