package snapshot

import (
	"encoding/binary"
	"fmt"
)

// A kind is the type of a value on the machine's stack.
type kind uint8

const (
	kOther kind = iota // what nothing here reads: None, a float, an integer that 64 bits do not hold
	kBool
	kInt
	kUint    // an integer from 2^63 to 2^64-1, of which n has the bits
	kString  // n is an index into machine.strings
	kObject  // n is an index into machine.objects
	kFrame   // a dict that became Snapshot.Frames[n]
	kStack   // a list that became stack n
	kEvent   // a dict that became the n-th event read
	kBlock   // a dict that became machine.blocks[n]
	kSegment // a dict that became Snapshot.Segments[n]
	kRange   // a dict of external_annotations
	kGone    // only in the memo: a dict that was taken apart, and may not be used again
)

type value struct {
	n    int64
	kind kind
}

// A role is what a list or dict is for, known from where it is put.
type role uint8

const (
	roleNone role = iota
	roleRoot
	roleSegments
	roleBlocks
	roleTraces
	roleTrace
	roleRanges
)

// A shape is what a container is to Python.
type shape uint8

const (
	aList shape = iota
	aTuple
	aDict
)

// An object is a list, a tuple or a dict under construction, or one that nobody
// has taken apart yet.
type object struct {
	items []value // of a dict: key, value, key, value
	alias value   // once done: what it became
	memo  uint32  // its place in the memo, if puts is 1
	puts  uint8   // how often it was put there, up to 2
	shape shape
	role  role
	got   bool // the memo handed it out: somebody else may refer to it
	done  bool // taken apart; alias stands for it
	depth uint8
	at    int64 // the offset at which it begins
}

// A machine runs a pickle. Containers that are part of the known structure are
// turned into segments, blocks, events and frames as soon as they are complete,
// and their objects used again: what is live stays small however long the file.
type machine struct {
	in *input
	s  *Snapshot

	stack   []value
	marks   []int
	memo    []uint32 // packed, see pack
	objects []object
	free    []uint32 // objects to use again
	strings []string
	ids     map[string]uint32

	frameIDs    map[frameKey]uint32
	stackIDs    map[string]StackID
	categoryIDs map[string]uint32
	streamIDs   map[int64]uint32
	values      int64 // held by containers that are not taken apart

	blocks []Block
	events int64                // of all devices
	device int                  // of the trace under construction
	given  [roleRanges + 1]bool // roles of lists that may be there once

	// What the budget counts, in bytes of memory, and what of the file became
	// part of a snapshot, in bytes of the file.
	textBytes            int64
	blockCount           int64
	digested, blockBytes int64

	protocol byte
	frameEnd int64
}

// The memo holds what values can be shared: strings and containers. Three bits
// say which, the others hold the index.
const (
	memoBits = 29
	memoMax  = 1<<memoBits - 1
)

var memoKinds = [8]kind{kGone, kString, kObject, kFrame, kStack, kGone, kGone, kGone}

// broken is what the machine panics with where the file is no snapshot: Read makes an error of it.
type broken struct{ error }

// fail ends the reading: the file is no snapshot.
func (m *machine) fail(format string, args ...any) {
	panic(broken{fmt.Errorf("offset %d: %w", m.in.offset(), fmt.Errorf(format, args...))})
}

// run runs the pickle.
func (m *machine) run() (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r.error
		default:
			panic(r)
		}
	}()
	for checked := int64(0); m.step(); {
		if at := m.in.offset(); at >= checked+checkEvery {
			checked = at
			m.budget()
		}
	}
	return nil
}

// operands has the number of bytes that follow an opcode in any case: a number, little endian.
var operands = [256]uint8{
	opBinInt1: 1, opBinGet: 1, opBinPut: 1, opLong1: 1, opShortBinUnicode: 1, opProto: 1, opBinInt2: 2, opBinInt: 4,
	opLongBinGet: 4, opLongBinPut: 4, opLong4: 4, opBinUnicode: 4, opBinFloat: 8, opBinUnicode8: 8, opFrame: 8,
}

// step runs one opcode, and returns whether others follow.
func (m *machine) step() bool {
	in := m.in
	if in.end-in.pos < 9 { // the most that an opcode and its number take
		in.want(1)
		in.want(1 + int(operands[in.buf[in.pos]]))
	}
	op, n := in.buf[in.pos], uint64(0)
	switch at := in.buf[in.pos+1:]; operands[op] {
	case 1:
		n = uint64(at[0])
	case 2:
		n = uint64(binary.LittleEndian.Uint16(at))
	case 4:
		n = uint64(binary.LittleEndian.Uint32(at))
	case 8:
		n = binary.LittleEndian.Uint64(at)
	}
	in.pos += 1 + int(operands[op])
	switch op {
	case opBinGet, opLongBinGet:
		m.get(uint32(n))
	case opMemoize:
		m.put(len(m.memo))
	case opBinPut, opLongBinPut:
		m.put(int(n))
	case opBinInt1, opBinInt2:
		m.push(kInt, int64(n))
	case opBinInt:
		m.push(kInt, int64(int32(n)))
	case opLong1, opLong4:
		m.long(int64(int32(n)))
	case opBinFloat, opNone:
		m.push(kOther, 0)
	case opNewTrue:
		m.push(kBool, 1)
	case opNewFalse:
		m.push(kBool, 0)
	case opShortBinUnicode, opBinUnicode, opBinUnicode8:
		m.text(n)
	case opMark:
		if len(m.marks) >= maxMarks {
			m.fail("nested deeper than %d", maxDepth)
		}
		m.marks = append(m.marks, len(m.stack))
	case opEmptyDict, opEmptyList, opEmptyTuple:
		m.open(op)
	case opSetItems, opAppends, opTuple:
		m.close(op)
	case opSetItem:
		m.closeAt(opSetItems, len(m.stack)-2)
	case opAppend:
		m.closeAt(opAppends, len(m.stack)-1)
	case opTuple1, opTuple2, opTuple3:
		m.closeAt(opTuple, len(m.stack)-int(op-opTuple1)-1)
	case opFrame:
		m.frame(n)
	case opProto:
		if m.protocol = byte(n); m.protocol < 2 || m.protocol > 5 {
			m.fail("pickle protocol %d, wanted 2 to 5", m.protocol)
		}
		if in.offset() != 2 {
			m.fail("a second pickle header")
		}
	case opStop:
		m.stop()
		return false
	default:
		m.refuse(op)
	}
	return true
}

func (m *machine) push(k kind, n int64) { m.stack = append(m.stack, value{n, k}) }

// floor is the lowest place that an opcode may take values from: those under
// the last MARK are not its own.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

func (m *machine) refuse(op byte) {
	m.in.pos-- // the opcode is what is wrong
	what, ok := refused[op]
	if !ok {
		m.fail("0x%02x is no pickle opcode", op)
	}
	asks := ""
	switch op {
	case 'c', 'i':
		// The two lines after the opcode name the object.
		m.in.need(256)
		asks = name(m.in.buf[m.in.pos+1 : min(m.in.end, m.in.pos+257)])
	case 0x93:
		if n := len(m.stack); n >= 2 && m.stack[n-1].kind == kString && m.stack[n-2].kind == kString {
			asks = m.strings[m.stack[n-2].n] + "." + m.strings[m.stack[n-1].n]
		}
	}
	if asks != "" {
		m.fail("the file asks for %.80q; refusing: a snapshot is plain data", asks)
	}
	m.fail("the file uses the opcode %s; refusing: a snapshot is plain data", what)
}

func name(b []byte) string {
	out, lines := []byte{}, 0
	for _, c := range b {
		if c == '\n' {
			if lines++; lines == 2 {
				return string(out)
			}
			c = '.'
		}
		out = append(out, c)
	}
	return ""
}
