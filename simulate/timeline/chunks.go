package timeline

import "iter"

// Chunks is a list that grows without moving what it has: growing a slice of millions touches twice the memory.
// The zero Chunks is empty.
type Chunks[T any] struct {
	chunks [][]T
	n      int
}

const (
	chunkBits = 10
	chunkLen  = 1 << chunkBits
)

// Len returns the number of values.
func (c *Chunks[T]) Len() int { return c.n }

// Add appends a value.
func (c *Chunks[T]) Add(v T) {
	k := c.n >> chunkBits
	if k == len(c.chunks) {
		c.grow(k)
	}
	c.chunks[k] = append(c.chunks[k], v)
	c.n++
}

// grow makes room behind k full chunks: first what Reset has left there.
func (c *Chunks[T]) grow(k int) {
	if k < cap(c.chunks) {
		if c.chunks = c.chunks[:k+1]; cap(c.chunks[k]) == chunkLen {
			c.chunks[k] = c.chunks[k][:0]
			return
		}
		c.chunks = c.chunks[:k]
	}
	c.chunks = append(c.chunks, make([]T, 0, chunkLen))
}

// Reset takes all values out and keeps their memory for others.
func (c *Chunks[T]) Reset() { c.chunks, c.n = c.chunks[:0], 0 }

// At returns the value with this index, which must be below Len.
func (c *Chunks[T]) At(i int) *T { return &c.chunks[i>>chunkBits][i&(chunkLen-1)] }

// All ranges over the values.
func (c *Chunks[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, chunk := range c.chunks {
			for i := range chunk {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}
