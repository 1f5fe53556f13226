package snapshot

// Limits of the reader. Nothing is allocated because a length field says so, and
// what a file makes the reader hold is bounded by what of it became events,
// blocks, segments and annotations: see budget.
const (
	// maxDepth bounds how deep containers nest. PyTorch's own snapshots nest
	// six deep (top, traces, trace, event, frames, frame).
	maxDepth = 100

	// maxMarks bounds the open MARKs, one a level of nesting.
	maxMarks = 2 * maxDepth

	// slack is what a small file may hold before the bounds that grow with the
	// bytes read apply.
	slack = 1 << 12

	// checkEvery is after how many bytes of the file the budget is looked at.
	checkEvery = 1 << 12

	// stringChunk is how much of a long string is read before more is
	// allocated for it.
	stringChunk = 1 << 16

	// maxString bounds one string. A name, a file path or a piece of user
	// metadata is far shorter.
	maxString = 16 << 20

	// maxLong bounds an integer's bytes: integers beyond 64 bits are kept where
	// nothing has to compute with them.
	maxLong = 255

	// maxActions bounds the distinct action names of one file. PyTorch has ten.
	maxActions = 200

	// maxDevices bounds the traces of one file.
	maxDevices = 1 << 12

	// defaultMaxBytes bounds the decompressed size of a file, so that a small
	// gzip file cannot keep the reader busy for ever.
	defaultMaxBytes = 64 << 30

	// spareBytes is the memory that a file may make the reader hold whatever it
	// is, and perByte what each byte may cost that became an event, a block or an
	// annotation. PyTorch's own files need about 0.6 bytes a byte.
	spareBytes = 40 << 20
	perByte    = 3

	// maxUseless bounds the bytes between the parts of a snapshot: brackets,
	// names and settings.
	maxUseless = 64 << 20
)

// What things cost in memory, in bytes, with what is needed to find them again.
const (
	costValue      = 16
	costMemo       = 4
	costObject     = 72
	costString     = 64
	costFrame      = 112
	costStack      = 72
	costStackFrame = 8
	costCategory   = 64
	costStream     = 48
	costSegment    = 200
	costBlock      = 72
	costEvent      = 120 // 40 for itself, and what playing it may take
)

// budget refuses a file that makes the reader hold more memory than a snapshot
// of that size can need, or that goes on and on without being one.
func (m *machine) budget() {
	if len(m.stack) > 8 && !m.promising() {
		m.refuseRoot()
	}
	// Values that no opcode has taken up: bounded by what the file has shown.
	if len(m.stack) > slack && int64(len(m.stack)) > slack+m.in.offset()/2 {
		m.fail("more than %d values wait on the stack", len(m.stack))
	}
	s := m.s
	held := m.textBytes + costValue*(int64(len(m.stack))+m.values) + costMemo*int64(len(m.memo)) +
		costObject*int64(len(m.objects)) +
		costFrame*int64(len(s.Frames)) + costStack*int64(len(s.stacks)) + costStackFrame*int64(len(s.stackFrames)) +
		costCategory*int64(len(s.Categories)) + costStream*int64(len(s.Streams)) +
		costSegment*int64(len(s.Segments)) + costBlock*m.blockCount + costEvent*m.events
	if held > spareBytes+perByte*m.digested {
		m.fail("more than %d MB wait to become part of a snapshot: too much for what of the file is one (%d bytes)",
			held>>20, m.digested)
	}
	if useless := m.in.offset() - m.digested; useless > maxUseless+m.digested {
		m.fail("%d bytes that belong to no event, block or annotation", useless)
	}
}

// promising says that what the file has begun with may become a snapshot: a
// dict, or a list of dicts.
func (m *machine) promising() bool {
	root := m.at(0)
	if root == nil {
		return false
	}
	k := m.stack[1].kind
	return root.role != roleSegments || k == kObject || k == kSegment
}

// refuseRoot says that the file holds something else.
func (m *machine) refuseRoot() {
	m.fail("not a memory snapshot: its top is no dict with segments and device_traces, and " +
		"no list of segments")
}
