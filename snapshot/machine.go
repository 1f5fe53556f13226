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

func (m *machine) fail(format string, args ...any) error {
	return fmt.Errorf("offset %d: %w", m.in.offset(), fmt.Errorf(format, args...))
}

// run runs the pickle.
func (m *machine) run() error {
	for checked := int64(0); ; {
		if done, err := m.step(); done || err != nil {
			return err
		}
		if at := m.in.offset(); at >= checked+checkEvery {
			checked = at
			if err := m.budget(); err != nil {
				return err
			}
		}
	}
}

// step runs one opcode, whatever it is. done says that it was the last.
func (m *machine) step() (done bool, err error) {
	in := m.in
	if in.end-in.pos < 9 && !in.need(1) {
		return false, in.short()
	}
	op := in.buf[in.pos]
	// Most opcodes have at most eight bytes of operand: look for them once.
	if in.end-in.pos < 9 {
		in.need(9)
		if in.end-in.pos <= operandBytes(op) {
			return false, in.short()
		}
	}
	in.pos++
	arg := in.buf[in.pos:in.end]
	switch op {
	case opBinGet, opLongBinGet:
		var i uint32
		if op == opBinGet {
			i = uint32(arg[0])
			in.pos++
		} else {
			i = binary.LittleEndian.Uint32(arg)
			in.pos += 4
		}
		err = m.get(i)
	case opMemoize:
		err = m.put(len(m.memo))
	case opBinPut:
		in.pos++
		err = m.put(int(arg[0]))
	case opLongBinPut:
		in.pos += 4
		err = m.put(int(binary.LittleEndian.Uint32(arg)))
	case opBinInt1:
		in.pos++
		m.push(kInt, int64(arg[0]))
	case opBinInt2:
		in.pos += 2
		m.push(kInt, int64(binary.LittleEndian.Uint16(arg)))
	case opBinInt:
		in.pos += 4
		m.push(kInt, int64(int32(binary.LittleEndian.Uint32(arg))))
	case opLong1:
		in.pos++
		err = m.long(int64(arg[0]))
	case opLong4:
		in.pos += 4
		err = m.long(int64(int32(binary.LittleEndian.Uint32(arg))))
	case opBinFloat:
		in.pos += 8
		m.push(kOther, 0)
	case opNone:
		m.push(kOther, 0)
	case opNewTrue:
		m.push(kBool, 1)
	case opNewFalse:
		m.push(kBool, 0)
	case opShortBinUnicode:
		in.pos++
		err = m.text(uint64(arg[0]))
	case opBinUnicode:
		in.pos += 4
		err = m.text(uint64(binary.LittleEndian.Uint32(arg)))
	case opBinUnicode8:
		in.pos += 8
		err = m.text(binary.LittleEndian.Uint64(arg))
	case opMark:
		if len(m.marks) >= maxMarks {
			return false, m.fail("nested deeper than %d", maxDepth)
		}
		m.marks = append(m.marks, len(m.stack))
	case opEmptyDict, opEmptyList, opEmptyTuple:
		err = m.open(op)
	case opSetItems, opAppends, opTuple:
		err = m.close(op)
	case opSetItem:
		err = m.closeAt(opSetItems, len(m.stack)-2)
	case opAppend:
		err = m.closeAt(opAppends, len(m.stack)-1)
	case opTuple1, opTuple2, opTuple3:
		err = m.closeAt(opTuple, len(m.stack)-int(op-opTuple1)-1)
	case opFrame:
		in.pos += 8
		err = m.frame(binary.LittleEndian.Uint64(arg))
	case opProto:
		in.pos++
		if m.protocol = arg[0]; m.protocol < 2 || m.protocol > 5 {
			return false, m.fail("pickle protocol %d, wanted 2 to 5", m.protocol)
		}
		if in.offset() != 2 {
			return false, m.fail("a second pickle header")
		}
	case opStop:
		return true, m.stop()
	default:
		err = m.refuse(op)
	}
	return false, err
}

// operandBytes is the number of bytes that follow the opcode in any case.
func operandBytes(op byte) int {
	switch op {
	case opBinInt1, opBinGet, opBinPut, opLong1, opShortBinUnicode, opProto:
		return 1
	case opBinInt2:
		return 2
	case opBinInt, opLongBinGet, opLongBinPut, opLong4, opBinUnicode:
		return 4
	case opBinFloat, opBinUnicode8, opFrame:
		return 8
	}
	return 0
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

func (m *machine) refuse(op byte) error {
	at := m.in.offset() - 1
	what, ok := refused[op]
	if !ok {
		return fmt.Errorf("offset %d: 0x%02x is no pickle opcode", at, op)
	}
	asks := ""
	switch op {
	case 'c', 'i':
		// The two lines after the opcode name the object.
		m.in.need(256)
		asks = name(m.in.buf[m.in.pos:min(m.in.end, m.in.pos+256)])
	case 0x93:
		if n := len(m.stack); n >= 2 && m.stack[n-1].kind == kString && m.stack[n-2].kind == kString {
			asks = m.strings[m.stack[n-2].n] + "." + m.strings[m.stack[n-1].n]
		}
	}
	if asks != "" {
		return fmt.Errorf("offset %d: the file asks for %.80q; refusing: a snapshot is plain data", at, asks)
	}
	return fmt.Errorf("offset %d: the file uses the opcode %s; refusing: a snapshot is plain data", at, what)
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
