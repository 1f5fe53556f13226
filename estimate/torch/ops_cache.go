package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// cacheOps are what parallel.Generating adds to a program.
var cacheOps = []op{
	{"cache_mask", castNone, runCacheMask}, // sdpa_mask of transformers' masking_utils.py
	{"cache", castNone, runCache},          // Cache.update of cache_utils.py
	{"repeat_kv", castNone, runRepeatKV},   // integrations/sdpa_attention.py
}

// runCacheMask makes the mask of causal attention to the cache, where it needs one: one token sees all tokens of a
// dynamic cache, and a prompt is causal; but a window hides what is before it once it is full, and a static cache has
// room that no token has filled.
func runCacheMask(r *run, _ *program.Call, _ []*tensor) []*tensor {
	g := r.generator
	samples, read := g.shape(r)
	keys, masked := g.keys(r)
	if !masked {
		return one(scalar(program.Bool))
	}
	rows := func() *tensor { return r.empty(program.Bool, read, keys) }
	here := r.empty(program.Int64, keys)
	newer := rows() // sliding_window_overlay and causal_mask_function, joined by and_masks
	first := rows()
	r.release(newer)
	causal := rows()
	both := rows()
	r.releaseAll([]*tensor{first, causal})
	all := rows()
	r.release(both)
	padding := r.empty(program.Bool, samples, 1, 1, keys)
	mask := r.empty(program.Bool, samples, 1, read, keys)
	r.releaseAll([]*tensor{all, padding, here})
	return one(mask)
}

// keys returns how many keys attention reads now, and whether it needs a mask.
func (g *generator) keys(r *run) (keys int64, masked bool) {
	_, read := g.shape(r)
	if g.Static && g.seen > 0 {
		return g.width(), true
	}
	keys = g.kept() + read
	return keys, g.Window > 0 && keys >= g.Window
}

// shape returns how many samples there are, and how many tokens of each are read now.
func (g *generator) shape(r *run) (samples, read int64) {
	s := r.prog.Values[r.prog.Inputs[0]].Shape
	if g.seen == 0 {
		return s[0], g.prompt
	}
	return s[0], 1
}

// runCache adds keys and values [samples, heads, tokens, size] to a layer of the cache, and returns what attention
// reads.
func runCache(r *run, c *program.Call, in []*tensor) []*tensor {
	g := r.generator
	layer := &g.layers[c.Args.Layers]
	if g.Static {
		return r.updateStatic(g, layer, in)
	}
	room := func(t, before *tensor) *tensor {
		shape := slices.Clone(t.shape)
		shape[2] += g.kept()
		dtype := t.dtype
		if g.Stored != program.Undefined {
			stored := r.to(t, g.Stored)
			defer r.release(stored)
			dtype = g.Stored
		}
		return r.empty(dtype, shape...)
	}
	old := *layer
	layer.keys = room(in[0], old.keys)
	if g.Window == 0 { // a window lets go of both at once
		r.release(old.keys)
		old.keys = nil
	}
	layer.values = room(in[1], old.values)
	r.release(old.keys)
	r.release(old.values)
	return []*tensor{r.read(layer.keys, in[0].dtype), r.read(layer.values, in[1].dtype)}
}

// read returns a layer's keys or values in the type that attention reads.
func (r *run) read(t *tensor, dtype program.DType) *tensor { return r.to(t, dtype) }

// updateStatic is update of StaticLayer and of StaticSlidingWindowLayer.
func (r *run) updateStatic(g *generator, layer *cached, in []*tensor) []*tensor {
	read, width := in[0].shape[2], g.width()
	if layer.keys == nil {
		zeros := func(t *tensor) *tensor {
			dtype := t.dtype
			if g.Stored != program.Undefined {
				dtype = g.Stored
			}
			return r.empty(dtype, t.shape[0], t.shape[1], width, t.shape[3])
		}
		layer.keys, layer.values, layer.length = zeros(in[0]), zeros(in[1]), r.empty(program.Int64)
	}
	switch {
	case g.seen >= width: // full: rolled by one
		keys, values := r.emptyLike(layer.keys, layer.keys.dtype), r.emptyLike(layer.values, layer.values.dtype)
		last := r.empty(program.Int64, 1)
		r.releaseAll([]*tensor{keys, values, last})
	case g.seen+read > width: // a prompt longer than the window, whose end is kept
		return []*tensor{in[0].retain(), in[1].retain()}
	default:
		places := r.empty(program.Int64, read)
		at := r.empty(program.Int64, read)
		r.release(places)
		for _, t := range in {
			r.release(r.to(t, layer.keys.dtype)) // what index_copy_ copies
		}
		r.release(at)
	}
	whole := func(t, like *tensor) *tensor {
		out := r.read(t, like.dtype)
		if read == 1 || read == width {
			return out
		}
		prompt := r.slice(out, 2, read, 1) // of a prompt only what it has filled
		r.release(out)
		return prompt
	}
	return []*tensor{whole(layer.keys, in[0]), whole(layer.values, in[1])}
}

// runRepeatKV spreads few heads of keys or values to Args.Groups of them: with a mask, without which attention takes
// few (enable_gqa); where Args.Keep is set always.
func runRepeatKV(r *run, c *program.Call, in []*tensor) []*tensor {
	if in[1].host && !c.Args.Keep || len(in[0].shape) != 4 { // a number has no heads
		return one(in[0].retain())
	}
	return one(r.repeatHeads(in[0], c.Args.Groups))
}
