package timeline

import (
	"math/bits"
	"slices"
	"sort"
)

// An Entry is an Event of a Log in eight bytes. What an Alloc is for, and where, the Log knows by its
// block; the phase and step of any Entry are those of the last Mark before it.
type Entry uint64

// An Entry's lowest two bits are its kind. An Alloc has its bytes above them and its stream in the highest eight; a
// Free its block, and above that one more than its layer; a Mark has the phase and above that the step; a Release has
// one more than its layer where a Free does.
const (
	kindBits    = 2
	blockBits   = 32
	streamShift = 56

	// maxBytes is the most that an Alloc says: more than that is as much. No allocator hands it out.
	maxBytes = 1<<(streamShift-kindBits) - 1
)

// Kind says what the Entry does.
func (e Entry) Kind() Kind { return Kind(e & (1<<kindBits - 1)) }

// Bytes returns the size of an Alloc.
func (e Entry) Bytes() int64 { return int64(e & (1<<streamShift - 1) >> kindBits) }

// Stream returns the CUDA stream of an Alloc; 0 is the default one.
func (e Entry) Stream() uint8 { return uint8(e >> streamShift) }

// Block returns the block that a Free gives back. Allocs make blocks in order: it need not be told.
func (e Entry) Block() int32 { return int32(uint32(e >> kindBits)) }

// Phase returns the phase that a Mark begins.
func (e Entry) Phase() Phase { return Phase(e >> kindBits) }

// Step returns the step that a Mark is of.
func (e Entry) Step() int32 { return int32(uint32(e >> (kindBits + 8))) }

func (e Entry) layer() int32 { return int32(e>>(kindBits+blockBits)) - 1 }

// A Log is an ordered list of events, in less than half of the memory that these take: a training step of a large model
// is millions of them. Where a step is known to repeat the one before it, it is not even written again. Blocks are
// numbered from 0 in the order of their Alloc; a block that is never freed lives to the end.
type Log struct {
	Layers []string // names that layers refer to

	entries Chunks[Entry]
	blocks  Chunks[known]
	marks   []int32   // indices of the Marks
	phase   Phase     // of the last
	plans   []Planned // in the order of blocks
	caught  []int     // indices of the Releases at which the program was told that there is no memory
	again   again

	// Full is called with what was written when there is a good deal of it, for a reader at the writer's heels: it may be
	// read while more is written. Nil calls nobody.
	Full func(Part)
}

// A Planned is a block that can be done without: see Event.Plan.
type Planned struct{ Block, Plan int32 }

// A Part is what was written since the last Part, with all that is planned so far.
type Part struct {
	Entries []Entry
	Plans   []Planned
}

// again says that the last entries happen some more times.
type again struct {
	from    int   // index of the first that does
	first   int32 // the first block that these entries allocate
	times   int
	carried [][2]int32 // blocks from before that they give back, each with the one of theirs that takes its place
}

// Reset empties the log, and keeps its memory for what is written next: nothing read of it before may be used any more.
func (l *Log) Reset() {
	l.entries.Reset()
	l.blocks.Reset()
	*l = Log{entries: l.entries, blocks: l.blocks, marks: l.marks[:0], plans: l.plans[:0], caught: l.caught[:0]}
}

// Same reports whether another log has the same events.
func (l *Log) Same(other *Log) bool {
	return l.Written() == other.Written() && l.Len() == other.Len() && l.again.from == other.again.from &&
		l.Begins(other)
}

// Mark begins a phase of a step.
func (l *Log) Mark(step int32, phase Phase) {
	l.phase = phase
	l.marks = append(l.marks, int32(l.entries.Len()))
	l.write(Entry(Mark) | Entry(phase)<<kindBits | Entry(uint32(step))<<(kindBits+8))
}

// Alloc records a request and returns its block. plan is Event.Plan.
func (l *Log) Alloc(r Request, plan int32) int32 {
	block := int32(l.blocks.Len())
	r.Bytes = min(r.Bytes, maxBytes)
	k := known{alloc: int32(l.entries.Len())}
	k.set(r.Layer, l.phase, r.Category)
	l.blocks.Add(k)
	if plan != 0 {
		l.plans = append(l.plans, Planned{block, plan})
	}
	l.write(Entry(Alloc) | Entry(r.Bytes)<<kindBits&(1<<streamShift-1) | Entry(r.Stream)<<streamShift)
	return block
}

// Free records that a block is given back, in a layer or NoLayer.
func (l *Log) Free(block, layer int32) {
	l.write(Entry(Free) | Entry(uint32(block))<<kindBits | Entry(uint32(layer+1))<<(kindBits+blockBits))
}

// Release records that cached memory is given back to the device, in a layer or NoLayer.
func (l *Log) Release(layer int32) {
	l.write(Entry(Release) | Entry(uint32(layer+1))<<(kindBits+blockBits))
}

// Caught is a Release after which the program is told that there is no memory left, and goes on.
func (l *Log) Caught(layer int32) {
	l.caught = append(l.caught, l.entries.Len())
	l.Release(layer)
}

// Attempts returns the indices of the events that Caught wrote: each ends an attempt of the program.
func (l *Log) Attempts() []int { return l.caught }

func (l *Log) write(e Entry) {
	l.entries.Add(e)
	if l.Full != nil && l.entries.Len()%chunkLen == 0 {
		l.Full(Part{l.entries.chunks[len(l.entries.chunks)-1], l.plans})
	}
}

// Plan returns the plan of a block, mostly 0: see Event.Plan.
func (l *Log) Plan(block int32) int32 {
	block = l.First(block)
	i := sort.Search(len(l.plans), func(i int) bool { return l.plans[i].Block >= block })
	if i < len(l.plans) && l.plans[i].Block == block {
		return l.plans[i].Plan
	}
	return 0
}

// Plans returns all that is planned, repetitions left out.
func (l *Log) Plans() []Planned { return l.plans }

// Blocks returns how many blocks there are, those of repetitions included.
func (l *Log) Blocks() int32 {
	n := int32(l.blocks.Len())
	return n + int32(l.again.times)*(n-l.again.first)
}

// Written returns how many events were written; those of repetitions are not.
func (l *Log) Written() int { return l.entries.Len() }

// Begins reports whether another log begins with all that was written.
func (l *Log) Begins(other *Log) bool {
	for i, c := range l.entries.chunks {
		if i == len(other.entries.chunks) || len(c) > len(other.entries.chunks[i]) ||
			!slices.Equal(c, other.entries.chunks[i][:len(c)]) {
			return false
		}
	}
	return true
}

// Len returns the number of events, those of repetitions included.
func (l *Log) Len() int {
	n := l.entries.Len()
	return n + l.again.times*(n-l.again.from)
}

// Repeat says that everything from the event from on, which was when the Log had first blocks, happens some more
// times, each time a step later and with blocks of its own. Blocks of before that it gives back are carried: each must
// be named, with the block that has its place at the end. Nothing may be written after it.
func (l *Log) Repeat(from int, first int32, times int, carried [][2]int32) {
	l.again = again{from, first, times, carried}
}

// First returns the block that a block of a repetition repeats; others are themselves.
func (l *Log) First(block int32) int32 {
	if n := int32(l.blocks.Len()); block >= n {
		return l.again.first + (block-l.again.first)%(n-l.again.first)
	}
	return block
}

// Keeping returns the same requests where a block is given back, outside of any layer, as late as just before an event:
// the Log itself where it lives as long anyway. Both are before what is repeated.
func (l *Log) Keeping(block int32, until int) *Log {
	freed := 0
	for freed < until {
		if e := *l.entries.At(freed); e.Kind() == Free && e.Block() == block {
			break
		}
		freed++
	}
	if freed == until {
		return l
	}
	c := &Log{Layers: l.Layers, marks: slices.Clone(l.marks), phase: l.phase, plans: l.plans,
		again: l.again}
	for i, m := range c.marks {
		if int(m) > freed && int(m) < until {
			c.marks[i]--
		}
	}
	for k := range l.blocks.All() {
		moved := *k
		if int(k.alloc) > freed && int(k.alloc) < until {
			moved.alloc--
		}
		c.blocks.Add(moved)
	}
	for i := range l.entries.Len() {
		if i == until {
			c.Free(block, NoLayer)
		}
		if i != freed {
			c.write(*l.entries.At(i))
		}
	}
	return c
}

// A Stretch is a part of a Log for a reader: Entries that follow each other. In a repetition, Block tells which block
// an Entry frees, and Later is how many steps later than their Marks say the Entries happen.
type Stretch struct {
	Entries []Entry
	First   int // index of the first Entry among all events
	Later   int32

	Shift   int32 // what the numbers of blocks are larger by than when they were written
	first   int32
	carried [][2]int32
	each    int32 // blocks of one repetition
}

// Block returns the block that a Free of the Stretch gives back.
func (s *Stretch) Block(e Entry) int32 {
	b := e.Block()
	if s.Later == 0 {
		return b
	}
	if b >= s.first {
		return b + s.Shift
	}
	for _, c := range s.carried {
		if c[0] == b {
			return c[1] + s.Shift - s.each
		}
	}
	return b
}

// Stretches returns the events in order, for a range statement. Blocks that Allocs make are numbered in order, from 0.
func (l *Log) Stretches(yield func(*Stretch) bool) {
	at := 0
	for _, c := range l.entries.chunks {
		if !yield(&Stretch{Entries: c, First: at}) {
			return
		}
		at += len(c)
	}
	each := int32(l.blocks.Len()) - l.again.first
	for k := range l.again.times {
		skip := l.again.from
		for _, c := range l.entries.chunks {
			n := min(skip, len(c))
			skip -= n
			if n == len(c) {
				continue
			}
			s := &Stretch{
				Entries: c[n:], First: at, Later: int32(k + 1), Shift: int32(k+1) * each,
				first: l.again.first, carried: l.again.carried, each: each,
			}
			if !yield(s) {
				return
			}
			at += len(c) - n
		}
	}
}

// When returns the phase and the step of the event with this index.
func (l *Log) When(event int) (Phase, int32) {
	later := int32(0)
	if n := l.entries.Len(); event >= n {
		each := n - l.again.from
		later = int32((event - l.again.from) / each)
		event = l.again.from + (event-l.again.from)%each
	}
	i := sort.Search(len(l.marks), func(i int) bool { return int(l.marks[i]) > event }) - 1
	if i < 0 {
		return Load, 0
	}
	e := *l.entries.At(int(l.marks[i]))
	return e.Phase(), e.Step() + later
}

// Live returns the blocks that are live just after the given event, the oldest first.
func (l *Log) Live(event int) []int32 {
	live := make([]uint64, (l.Blocks()+63)/64) // a bit for each block
	next, n := 0, 0
	for s := range l.Stretches {
		for i, e := range s.Entries {
			if s.First+i > event {
				break
			}
			switch e.Kind() {
			case Alloc:
				live[next/64] |= 1 << (next % 64)
				next++
				n++
			case Free:
				b := s.Block(e)
				live[b/64] &^= 1 << (b % 64)
				n--
			}
		}
	}
	blocks := make([]int32, 0, max(n, 0))
	for i, word := range live {
		for ; word != 0; word &= word - 1 {
			blocks = append(blocks, int32(64*i+bits.TrailingZeros64(word)))
		}
	}
	return blocks
}

// Events ranges over the events, each written out.
func (l *Log) Events(yield func(Event) bool) {
	phase, step, block := Load, int32(0), int32(0)
	for s := range l.Stretches {
		for _, entry := range s.Entries {
			e := Event{Kind: entry.Kind()}
			switch e.Kind {
			case Alloc:
				k := l.blocks.At(int(l.First(block)))
				e.Category, e.Layer, e.Block, e.Bytes, e.Stream = k.category(), k.layer(), block, entry.Bytes(), entry.Stream()
				if len(l.plans) > 0 {
					e.Plan = l.Plan(block)
				}
				block++
			case Free:
				e.Layer, e.Block = entry.layer(), s.Block(entry)
				e.Bytes = l.entries.At(int(l.blocks.At(int(l.First(e.Block))).alloc)).Bytes()
			case Mark:
				phase, step = entry.Phase(), entry.Step()+s.Later
				e.Layer = NoLayer
			case Release:
				e.Layer, e.Block = entry.layer(), -1
			}
			e.Phase, e.Step = phase, step
			if !yield(e) {
				return
			}
		}
	}
}
