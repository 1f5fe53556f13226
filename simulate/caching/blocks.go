package caching

// states of a block
const (
	unused   uint8 = iota // the slot is free for a new block
	cached                // mapped, and in its pool
	active                // handed out
	unmapped              // a part of an expandable segment without memory
)

const none = int32(0) // no block; slot 0 is never used

type block struct {
	addr, size int64
	requested  int64
	prev, next int32 // neighbours in the segment
	segment    int32 // the expandable segment it belongs to; none for cudaMalloc's
	stream     int32
	state      uint8
	small      bool
}

type pool struct {
	free     freeBlocks
	unmapped set
	searches int64
	small    bool
}

// cache puts a block into its pool.
func (a *Allocator) cache(p *pool, id int32) {
	b := a.at(id)
	b.state = cached
	if a.gcLimit > 0 {
		for len(a.gcBase) <= int(id) {
			a.gcBase = append(a.gcBase, 0)
		}
		a.gcBase[id] = p.searches
	}
	p.free.insert(a.freeEntry(id))
}

func (a *Allocator) freeEntry(id int32) entry {
	b := a.at(id)
	return entry{stream: b.stream, id: id, size: b.size, addr: b.addr}
}

func (a *Allocator) newBlock(b block) int32 {
	if id := a.spare; id != none {
		slot := a.at(id)
		a.spare = slot.next
		*slot = b
		return id
	}
	a.blocks.Add(b)
	return int32(a.blocks.Len() - 1)
}

// cut makes the lower part of a block, of so many bytes, a block of its own. The rest keeps its identity.
func (a *Allocator) cut(id int32, size int64) int32 {
	b := a.at(id)
	lower := a.newBlock(block{addr: b.addr, size: size, prev: b.prev, next: id, segment: b.segment, stream: b.stream,
		small: b.small, state: b.state})
	if b.prev != none {
		a.at(b.prev).next = lower
	}
	b.prev = lower
	b.addr += size
	b.size -= size
	return lower
}

// at returns a block, which keeps its place.
func (a *Allocator) at(id int32) *block { return a.blocks.At(int(id)) }

func (a *Allocator) drop(id int32) {
	*a.at(id) = block{next: a.spare}
	a.spare = id
}
