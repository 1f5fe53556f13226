package snapshot

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"unicode/utf8"
)

// Write writes a snapshot as a pickle of protocol 2, with only the opcodes that
// PyTorch's viewer (MemoryViz.js) knows. Reading it back gives an equal
// Snapshot, and Python's pickle.load the structure that PyTorch itself would
// have dumped.
func Write(w io.Writer, s *Snapshot) error { return newPickler(w, s).write() }

func newPickler(w io.Writer, s *Snapshot) *pickler {
	return &pickler{w: bufio.NewWriterSize(w, 1<<16), s: s, strings: map[string]uint32{}, frames: map[uint32]uint32{},
		stacks: map[StackID]uint32{}}
}

func (p *pickler) write() error {
	p.raw(opProto, 2)
	p.top()
	p.raw(opStop)
	if p.err != nil {
		return p.err
	}
	return p.w.Flush()
}

// batch is how many items one APPENDS adds, as in CPython.
const batch = 1000

// A pickler writes opcodes. Its first error stays; later calls do nothing of use.
type pickler struct {
	w   *bufio.Writer
	s   *Snapshot
	err error

	made iter.Seq[*Event] // the events of the only device, where they are made while they are written

	memo    uint32 // entries used
	strings map[string]uint32
	frames  map[uint32]uint32
	stacks  map[StackID]uint32
}

func (p *pickler) raw(b ...byte) {
	if _, err := p.w.Write(b); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *pickler) int(n int64) {
	switch {
	case n >= 0 && n <= math.MaxUint8:
		p.raw(opBinInt1, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		p.raw(opBinInt2, byte(n), byte(n>>8))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		p.raw(binary.LittleEndian.AppendUint32([]byte{opBinInt}, uint32(n))...)
	default:
		b := binary.LittleEndian.AppendUint64([]byte{opLong1, 8}, uint64(n))
		for len(b) > 3 && (b[len(b)-1] == 0 && b[len(b)-2] < 0x80 || b[len(b)-1] == 0xff && b[len(b)-2] >= 0x80) {
			b = b[:len(b)-1]
		}
		b[1] = byte(len(b) - 2)
		p.raw(b...)
	}
}

// unsigned writes an address, or the number of a line, which PyTorch keeps unsigned: one with the top bit set has nine
// bytes, of which the last is no sign.
func (p *pickler) unsigned(n int64) {
	if n >= 0 {
		p.int(n)
		return
	}
	p.raw(append(binary.LittleEndian.AppendUint64([]byte{opLong1, 9}, uint64(n)), 0)...)
}

func (p *pickler) bool(v bool) {
	if v {
		p.raw(opNewTrue)
	} else {
		p.raw(opNewFalse)
	}
}

func (p *pickler) put() uint32 {
	i := p.memo
	p.memo++
	if i <= math.MaxUint8 {
		p.raw(opBinPut, byte(i))
	} else {
		p.raw(binary.LittleEndian.AppendUint32([]byte{opLongBinPut}, i)...)
	}
	return i
}

func (p *pickler) get(i uint32) {
	if i <= math.MaxUint8 {
		p.raw(opBinGet, byte(i))
	} else {
		p.raw(binary.LittleEndian.AppendUint32([]byte{opLongBinGet}, i)...)
	}
}

func (p *pickler) text(s string) {
	if i, ok := p.strings[s]; ok {
		p.get(i)
		return
	}
	if int64(len(s)) > maxString {
		p.fail("a string of %d bytes, more than %d", len(s), maxString)
		return
	}
	text := legible(s)
	p.raw(binary.LittleEndian.AppendUint32([]byte{opBinUnicode}, uint32(len(text)))...)
	if _, err := p.w.WriteString(text); err != nil && p.err == nil {
		p.err = err
	}
	p.strings[s] = p.put()
}

// legible writes bytes that are no UTF-8 as \xff, since Python refuses a pickle
// with them. Lone surrogates it reads.
func legible(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case n > 1 || s[i] < utf8.RuneSelf:
		case len(s)-i >= 3 && s[i] == 0xed && s[i+1] >= 0xa0 && s[i+1] <= 0xbf && s[i+2]&0xc0 == 0x80:
			n = 3 // a surrogate
		default:
			fmt.Fprintf(&b, `\x%02x`, s[i])
			i++
			continue
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

func (p *pickler) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("snapshot: "+format, args...)
	}
}

// list writes a list of n elements.
func (p *pickler) list(n int, element func(i int)) {
	p.raw(opEmptyList)
	p.elements(n, element)
}

func (p *pickler) elements(n int, element func(i int)) {
	for i := 0; i < n && p.err == nil; {
		p.raw(opMark)
		for end := min(n, i+batch); i < end; i++ {
			element(i)
		}
		p.raw(opAppends)
	}
}

// device adds the list of one device's events to the list that was written last.
func (p *pickler) device(events iter.Seq[*Event]) {
	p.raw(opMark, opEmptyList)
	n := 0
	for e := range events {
		if n%batch == 0 {
			p.raw(opMark)
		}
		p.event(e)
		if n++; n%batch == 0 {
			p.raw(opAppends)
		}
		if p.err != nil {
			return
		}
	}
	if n%batch > 0 {
		p.raw(opAppends)
	}
	p.raw(opAppends)
}

func (p *pickler) begin() { p.raw(opEmptyDict, opMark) }

func (p *pickler) end() { p.raw(opSetItems) }

func (p *pickler) keyInt(key string, n int64) { p.text(key); p.int(n) }

func (p *pickler) keyAddress(key string, n int64) { p.text(key); p.unsigned(n) }

func (p *pickler) keyText(key, s string)           { p.text(key); p.text(s) }
func (p *pickler) keyBool(key string, v bool)      { p.text(key); p.bool(v) }
func (p *pickler) keyStack(key string, id StackID) { p.text(key); p.stack(id) }

func (p *pickler) value(v *Value) {
	switch v.Kind {
	case None:
		p.raw(opNone)
	case Bool:
		p.bool(v.Int != 0)
	case Int:
		p.int(v.Int)
	case Big:
		if len(v.Text) > maxLong {
			p.fail("an integer of %d bytes", len(v.Text))
			return
		}
		p.raw(opLong1, byte(len(v.Text)))
		p.raw([]byte(v.Text)...)
	case Float:
		p.raw(binary.BigEndian.AppendUint64([]byte{opBinFloat}, math.Float64bits(v.Float))...)
	case String:
		p.text(v.Text)
	case List:
		p.list(len(v.Items), func(i int) { p.value(&v.Items[i]) })
	case Tuple:
		p.raw(opMark)
		for i := range v.Items {
			p.value(&v.Items[i])
		}
		p.raw(opTuple)
	case Dict:
		p.begin()
		for i := range v.Items {
			p.value(&v.Items[i])
		}
		p.end()
	}
}

// stack writes a list of frames once, and refers to it from then on.
func (p *pickler) stack(id StackID) {
	if i, ok := p.stacks[id]; ok {
		p.get(i)
		return
	}
	p.raw(opEmptyList)
	p.stacks[id] = p.put()
	frames := p.s.Stack(id)
	p.elements(len(frames), func(k int) {
		if i, ok := p.frames[frames[k]]; ok {
			p.get(i)
			return
		}
		f := &p.s.Frames[frames[k]]
		p.raw(opEmptyDict)
		p.frames[frames[k]] = p.put()
		p.raw(opMark)
		p.keyText("name", f.Name)
		p.keyText("filename", f.File)
		p.text("line")
		p.unsigned(f.Line)
		p.end()
	})
}

func (p *pickler) top() {
	s := p.s
	p.begin()
	p.text("segments")
	p.list(len(s.Segments), func(i int) { p.segment(&s.Segments[i]) })
	p.text("device_traces")
	p.list(len(s.Traces), func(i int) {
		t := s.Traces[i]
		p.list(t.Len(), func(k int) { p.event(t.At(k)) })
	})
	if p.made != nil {
		p.device(p.made)
	}
	if s.hasSettings || len(s.Settings) > 0 {
		p.text("allocator_settings")
		p.begin()
		for i := range s.Settings {
			p.value(&s.Settings[i].Key)
			p.value(&s.Settings[i].Value)
		}
		p.end()
	}
	if s.hasNotes || len(s.Annotations) > 0 {
		p.text("external_annotations")
		p.list(len(s.Annotations), func(i int) {
			a := &s.Annotations[i]
			p.begin()
			p.keyText("stage", a.Stage)
			p.keyText("name", a.Name)
			p.keyInt("device", a.Device)
			p.keyInt("time_us", a.Time)
			p.end()
		})
	}
	p.end()
}

func (p *pickler) segment(s *Segment) {
	p.begin()
	p.keyInt("device", int64(s.Device))
	p.keyAddress("address", s.Addr)
	p.keyInt("total_size", s.Total)
	p.keyInt("allocated_size", s.Allocated)
	if s.lacks&segmentActive == 0 {
		p.keyInt("active_size", s.Active)
	}
	if s.lacks&segmentRequested == 0 {
		p.keyInt("requested_size", s.Requested)
	}
	p.keyInt("stream", s.Stream)
	if s.lacks&segmentType == 0 {
		p.keyText("segment_type", map[bool]string{true: "small", false: "large"}[s.Small])
	}
	if s.lacks&segmentPool == 0 {
		p.text("segment_pool_id")
		p.int(s.Pool[0])
		p.int(s.Pool[1])
		p.raw(opTuple2)
	}
	if s.lacks&segmentExpandable == 0 {
		p.keyBool("is_expandable", s.Expandable)
	}
	if s.lacks&segmentFrames == 0 {
		p.keyStack("frames", s.Stack)
	}
	p.text("blocks")
	p.list(len(s.Blocks), func(i int) {
		b := &s.Blocks[i]
		p.begin()
		if b.lacks&blockAddress == 0 {
			p.keyAddress("address", b.Addr)
		}
		p.keyInt("size", b.Size)
		if b.lacks&blockRequested == 0 {
			p.keyInt("requested_size", b.Requested)
		}
		p.keyText("state", b.State.String())
		if b.lacks&blockFrames == 0 {
			p.keyStack("frames", b.Stack)
		}
		p.end()
	})
	p.end()
}

func (p *pickler) event(e *Event) {
	p.begin()
	p.keyText("action", p.s.ActionName(e.Action))
	if e.Action == OOM {
		p.keyInt("device_free", e.Addr)
	} else {
		p.keyAddress("addr", e.Addr)
	}
	p.keyInt("size", e.Size)
	p.keyInt("stream", p.s.Streams[e.Stream])
	p.keyInt("time_us", e.Time)
	n := &p.s.Notes[e.Note]
	if n.has&hasCompileContext != 0 {
		p.keyText("compile_context", n.CompileContext)
	}
	if n.has&hasUserMetadata != 0 {
		p.keyText("user_metadata", n.UserMetadata)
	}
	if n.has&hasCategory != 0 {
		p.keyText("category", n.Category)
	}
	if e.Stack != 0 {
		p.keyStack("frames", e.Stack)
	}
	p.end()
}
