package torch

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// Bytes of a weight of 4096 x 4096 as bitsandbytes stores it: the figures of its QuantState, in blocks of the
// allocator's 512 bytes where they are small. Multiplying with it and going back gives all else back.
func TestPackedWeights(t *testing.T) {
	const n = 4096 * 4096
	for stored, want := range map[program.Storage]int64{
		program.NF4:     n/2 + n/64 + 4*(n/64/256) + 64 + 1024 + 512,
		program.LLMInt8: n + 4*4096,
	} {
		for _, grad := range []bool{true, false} {
			l := newLab()
			l.r.opts.Precision = BF16
			l.r.grad = true
			w := l.plain(program.BFloat16, 4096, 4096)
			before := liveBytes(l) - w.bytes()
			l.r.quantise(w, stored)
			if got := liveBytes(l) - before; got != want {
				t.Errorf("%s: %d bytes, want %d", program.Stored[stored], got, want)
			}
			x := l.plain(program.Float32, 2, 8, 4096)
			if grad {
				x = l.leaf(program.Float32, 2, 8, 4096)
			}
			l.r.linear(l.plain(program.BFloat16, 2, 2), l.plain(program.BFloat16, 2, 2), nil) // cuBLAS has its workspace
			before = liveBytes(l)
			y := runLinear(l.r, program.PlainCall, []*tensor{x, w})[0]
			if y.dtype != program.Float32 || y.requiresGrad != grad {
				t.Errorf("%s: the result is of %s, with a gradient %v", program.Stored[stored], y.dtype, y.requiresGrad)
			}
			saved := int64(0)
			if grad && stored == program.LLMInt8 {
				saved = 2 * 2 * 8 * 4096 // its argument in 16 bits
			}
			if got := liveBytes(l) - before - y.bytes(); got != saved {
				t.Errorf("%s: %d bytes are kept, want %d", program.Stored[stored], got, saved)
			}
			l.r.release(y)
			if got := liveBytes(l) - before; got != 0 {
				t.Errorf("%s: %d bytes stay", program.Stored[stored], got)
			}
		}
	}
}
