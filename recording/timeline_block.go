package recording

import (
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// category is what a storage that begins now is for, unless the recording says so.
func (p *player) category() timeline.Category {
	switch p.phase {
	case timeline.Forward, timeline.Loss:
		if p.run.Trains {
			return timeline.Activation
		}
	case timeline.Backward:
		return timeline.AutogradDetail
	}
	return timeline.Temporary
}

// is says what a storage turned out to be for. A name of a parameter, or of something of one, says in which module it
// is.
func (p *player) is(storage int32, r Role, name string) {
	b := p.blocks[p.root(storage)]
	if b == noBlock {
		return
	}
	p.log.SetCategory(b, categories[r])
	if r == Input || r == Label {
		return
	}
	name = name[strings.LastIndexByte(name, ' ')+1:]
	p.log.SetLayer(b, p.named(name[:max(strings.LastIndexByte(name, '.'), 0)]))
}

// root returns the storage that stands for another.
func (p *player) root(storage int32) int32 {
	for p.same[storage] != 0 {
		storage = p.same[storage] - 1
	}
	return storage
}

// alloc makes the block of a storage.
func (p *player) alloc(storage int32, bytes int64) {
	p.blocks[storage] = p.request(bytes, p.category(), 0)
	p.users[storage] = 1
}

func (p *player) request(bytes int64, c timeline.Category, plan int32) int32 {
	if bytes <= 0 {
		return noBlock
	}
	p.run.Of = append(p.run.Of, p.site)
	return p.log.Alloc(timeline.Request{Bytes: bytes, Layer: p.layer, Category: c, Stream: p.numbered()}, plan)
}

// numbered returns the number that the stream in use has in a Log.
func (p *player) numbered() uint8 {
	if i := slices.Index(p.pools, p.stream); i >= 0 {
		return uint8(min(timeline.PrivatePools+i, math.MaxUint8))
	}
	return uint8(min(p.stream, timeline.PrivatePools-1))
}

// give frees a block.
func (p *player) give(block int32) {
	if block != noBlock {
		p.run.Of = append(p.run.Of, p.site)
		p.log.Free(block, p.layer)
	}
}

// release gives cached memory back to the device.
func (p *player) release() {
	p.run.Of = append(p.run.Of, p.site)
	p.log.Release(p.layer)
}

func (p *player) free(storage int32) {
	root := p.root(storage)
	if p.users[root]--; p.users[root] > 0 {
		return
	}
	b := p.blocks[root]
	p.blocks[root] = noBlock
	crossed := p.crossed[root]
	delete(p.crossed, root)
	if crossed || p.stashed[root] {
		p.run.Doubtful |= kernels.OfGuesses
	}
	if p.stashed[root] && b != noBlock {
		if p.phase != timeline.Backward {
			p.raced += p.log.Of(b).Bytes
			p.run.Raced = max(p.run.Raced, p.raced)
		}
	}
	switch {
	case b == noBlock || p.atMost&kernels.OfGuesses == 0:
		p.give(b)
	case p.stashed[root]:
		p.late = append(p.late, b)
	case crossed:
		p.fallBehind(b)
	default:
		p.give(b)
	}
}

// fallBehind frees a block that another stream uses, which serves no request before that stream has passed it
// (insert_events in CUDACachingAllocator.cpp). How far the host is ahead is not known: FSDP1 lets it be by two units
// (limit_all_gathers), so at most the last two of a stream are still in use.
func (p *player) fallBehind(block int32) {
	stream := int(p.log.Of(block).Stream)
	for len(p.behind) <= stream {
		p.behind = append(p.behind, nil)
	}
	queue := append(p.behind[stream], block)
	if len(queue) > 2 {
		p.give(queue[0])
		queue = queue[1:]
	}
	p.behind[stream] = queue
}

// reduced plays an all-reduce. What a backward pass gives to one is held by NCCL's process group until its watchdog
// has seen that the work ended, for which it looks every 100 ms, and another collective begins: DDP waits for a future,
// which does not let go of it. So whether the one bucket of the first step is there until the second step has reduced
// its first or its last bucket is a race (stashed_for_allocator_safety_ in ProcessGroupNCCL.cpp).
func (p *player) reduced(c *Call) {
	if p.phase != timeline.Backward {
		return
	}
	p.reduces = true
	for _, v := range p.rec.Args(c) {
		if v.Kind() == Tensor {
			if s, ok := v.Storage(); ok {
				p.stashed[p.root(s)] = true
			}
		}
	}
}

// share puts a new storage in the place of another. One that is to stand for itself, as no recorder writes, has a block
// of its own: a circle has no root.
func (p *player) share(b *born, with int32) {
	root := p.root(with)
	if root == b.storage {
		p.alloc(b.storage, b.bytes)
		return
	}
	p.same[b.storage] = root + 1
	p.users[root]++
}
