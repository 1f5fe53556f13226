package timeline

import (
	"slices"
	"sort"
)

// A Copying writes events of a Log once more, some steps later and with blocks of their own.
type Copying struct {
	log    *Log
	later  int32   // how many steps
	at     int     // the event that comes next
	first  int32   // the first block that the events make
	next   int32   // the block that comes next, less that
	blocks []int32 // what stands for each; -1 for one that is left out, and for one that was not made yet
	omit   []int32 // these blocks, ascending
	plans  []Planned
}

// Copying begins to write the events from one on, which make the blocks from first to before after, some steps later.
// Blocks to omit, which are ascending, are not made again.
func (l *Log) Copying(from int, first, after int32, omit []int32, later int32) *Copying {
	c := &Copying{log: l, later: later, at: from, first: first, blocks: make([]int32, after-first), omit: omit}
	i := sort.Search(len(l.plans), func(i int) bool { return l.plans[i].Block >= first })
	c.plans = l.plans[i:len(l.plans):len(l.plans)]
	return c
}

// To writes the events up to one.
func (c *Copying) To(event int) {
	l := c.log
	for ; c.at < event; c.at++ {
		e := *l.entries.At(c.at)
		switch e.Kind() {
		case Mark:
			l.Mark(e.Step()+c.later, e.Phase())
		case Alloc:
			if block, plan, omitted := c.made(); !omitted {
				c.blocks[block-c.first] = l.Alloc(l.request(block), plan)
			}
		case Free:
			l.Free(c.Block(e.Block()), e.layer())
		case Release:
			l.Release(e.layer())
		}
	}
}

// Skip leaves the events up to one out: what they make they give back, or it is to be omitted.
func (c *Copying) Skip(event int) {
	for ; c.at < event; c.at++ {
		if c.log.entries.At(c.at).Kind() == Alloc {
			c.made()
		}
	}
}

// made passes the block that comes next, of which there is no copy yet, and returns its plan and whether it is omitted.
func (c *Copying) made() (block, plan int32, omitted bool) {
	block = c.first + c.next
	c.blocks[c.next] = -1
	c.next++
	if len(c.plans) > 0 && c.plans[0].Block == block {
		plan, c.plans = c.plans[0].Plan, c.plans[1:]
	}
	if omitted = len(c.omit) > 0 && c.omit[0] == block; omitted {
		c.omit = c.omit[1:]
	}
	return block, plan, omitted
}

// Block returns what stands for a block that is copied.
func (c *Copying) Block(block int32) int32 { return c.blocks[block-c.first] }

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

// Copied returns, for each block from one on, the block that it stands for; -1 for what is no copy.
func (c *Copying) Copied() (first int32, of []int32) {
	for i, b := range c.blocks {
		if b < 0 {
			continue
		}
		if of == nil {
			first = b
		}
		for first+int32(len(of)) < b {
			of = append(of, -1)
		}
		of = append(of, c.first+int32(i))
	}
	return first, of
}

// Range calls f with the events from one up to another, which must have been written.
func (l *Log) Range(from, to int, f func(Entry)) {
	for i := from; i < to; i++ {
		f(*l.entries.At(i))
	}
}
