package snapshot

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// write writes a snapshot whose only device has these events as a pickle of protocol 2, with only the opcodes that
// PyTorch's viewer (MemoryViz.js) knows. Python's pickle.load gives the structure that PyTorch would have dumped.
func (s *Snapshot) write(w io.Writer, events iter.Seq[*Event]) error {
	p := &pickler{w: bufio.NewWriterSize(w, 1<<16), s: s, strings: map[string]uint32{}, frames: map[uint32]uint32{},
		stacks: map[StackID]uint32{}}
	p.raw(opProto, 2)
	p.top(events)
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

// appendAll adds elements to the list that was begun last.
func appendAll[T any](p *pickler, elements iter.Seq[T], write func(T)) {
	n := 0
	for e := range elements {
		if n%batch == 0 {
			p.raw(opMark)
		}
		write(e)
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
}

func (p *pickler) begin() { p.raw(opEmptyDict, opMark) }

func (p *pickler) end() { p.raw(opSetItems) }

func (p *pickler) keyInt(key string, n int64)      { p.text(key); p.int(n) }
func (p *pickler) keyUnsigned(key string, n int64) { p.text(key); p.unsigned(n) }
func (p *pickler) keyText(key, s string)           { p.text(key); p.text(s) }

// stack writes a list of frames once, and refers to it from then on.
func (p *pickler) stack(id StackID) {
	if i, ok := p.stacks[id]; ok {
		p.get(i)
		return
	}
	p.raw(opEmptyList)
	p.stacks[id] = p.put()
	appendAll(p, slices.Values(p.s.Stack(id)), p.frame)
}

func (p *pickler) frame(id uint32) {
	if i, ok := p.frames[id]; ok {
		p.get(i)
		return
	}
	f := &p.s.Frames[id]
	p.raw(opEmptyDict)
	p.frames[id] = p.put()
	p.raw(opMark)
	p.keyText("name", f.Name)
	p.keyText("filename", f.File)
	p.keyUnsigned("line", f.Line)
	p.end()
}

func (p *pickler) top(events iter.Seq[*Event]) {
	s := p.s
	p.begin()
	p.text("segments")
	p.raw(opEmptyList)
	appendAll(p, slices.Values(s.Segments), p.segment)
	p.text("device_traces")
	p.raw(opEmptyList, opMark, opEmptyList)
	appendAll(p, events, p.event)
	p.raw(opAppends)
	p.text("allocator_settings")
	p.begin()
	p.keyText("PYTORCH_CUDA_ALLOC_CONF", s.AllocConf)
	p.end()
	p.text("external_annotations")
	p.raw(opEmptyList)
	p.end()
}

func (p *pickler) segment(s Segment) {
	p.begin()
	p.keyInt("device", int64(s.Device))
	p.keyUnsigned("address", s.Addr)
	p.keyInt("total_size", s.Total)
	p.keyInt("allocated_size", s.Allocated)
	p.keyInt("active_size", s.Active)
	p.keyInt("requested_size", s.Requested)
	p.keyInt("stream", s.Stream)
	p.keyText("segment_type", map[bool]string{true: "small", false: "large"}[s.Small])
	p.text("segment_pool_id")
	p.int(s.Pool[0])
	p.int(s.Pool[1])
	p.raw(opTuple2)
	p.text("is_expandable")
	p.bool(s.Expandable)
	p.text("frames")
	p.stack(s.Stack)
	p.text("blocks")
	p.raw(opEmptyList)
	appendAll(p, slices.Values(s.Blocks), p.block)
	p.end()
}

func (p *pickler) block(b Block) {
	p.begin()
	p.keyUnsigned("address", b.Addr)
	p.keyInt("size", b.Size)
	p.keyInt("requested_size", b.Requested)
	p.keyText("state", b.State.String())
	p.text("frames")
	p.stack(b.Stack)
	p.end()
}

func (p *pickler) event(e *Event) {
	p.begin()
	p.keyText("action", p.s.ActionName(e.Action))
	if e.Action == OOM {
		p.keyInt("device_free", e.Addr)
	} else {
		p.keyUnsigned("addr", e.Addr)
	}
	p.keyInt("size", e.Size)
	p.keyInt("stream", p.s.Streams[e.Stream])
	p.keyInt("time_us", e.Time)
	p.keyText("compile_context", "N/A")
	p.keyText("user_metadata", "")
	p.keyText("category", p.s.Categories[e.Category])
	if e.Stack != 0 {
		p.text("frames")
		p.stack(e.Stack)
	}
	p.end()
}
