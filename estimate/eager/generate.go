package eager

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/timeline"
)

// A Generation says that an inference is transformers' model.generate(): greedy search from a prompt, which the program
// reads, with a cache of keys and values (cache_utils.py and generation/utils.py of transformers 5.17). The zero value
// generates nothing.
type Generation struct {
	Decode    *aten.Program // reads one token, and has the program's values; the run changes their shapes
	NewTokens int
	Static    bool       // cache_implementation="static", not compiled: room for all tokens from the first on
	Window    int64      // tokens that are seen (sliding_window); 0 is all
	Stored    aten.DType // the element type of the cache; Undefined is that of keys and values
}

// A generator is the state of generate().
type generator struct {
	Generation
	prompt int64
	seen   int64 // tokens before those that are read now
	layers []cached

	largest int64 // bytes of all layers, when they were most
}

// A cached is one layer of the cache.
type cached struct {
	keys, values, length *tensor
}

// most is how many tokens a static cache holds: the last one that is made is not read.
func (g *generator) most() int64 { return g.prompt + int64(g.NewTokens) - 1 }

// kept is how many tokens a layer holds before those that are read now: of a window but one.
func (g *generator) kept() int64 {
	if g.Window > 0 {
		return min(g.seen, g.Window-1)
	}
	return g.seen
}

// width is of how many tokens a layer of a static cache is.
func (g *generator) width() int64 {
	if g.Window > 0 {
		return min(g.Window, g.most())
	}
	return g.most()
}

// cacheOps are what parallel.Generating adds to a program.
var cacheOps = []op{
	{"cache_mask", castNone, runCacheMask}, // sdpa_mask of transformers' masking_utils.py
	{"cache", castNone, runCache},          // Cache.update of cache_utils.py
	{"repeat_kv", castNone, runRepeatKV},   // integrations/sdpa_attention.py
}

// runCacheMask makes the mask of causal attention to the cache, where it needs one: one token sees all tokens of a
// dynamic cache, and a prompt is causal; but a window hides what is before it once it is full, and a static cache has
// room that no token has filled.
func runCacheMask(r *run, _ *aten.Call, _ []*tensor) []*tensor {
	g := r.generator
	samples, read := g.shape(r)
	keys, masked := g.keys(r)
	if !masked {
		return one(scalar(aten.Bool))
	}
	rows := func() *tensor { return r.empty(aten.Bool, read, keys) }
	here := r.empty(aten.Int64, keys)
	newer := rows() // sliding_window_overlay and causal_mask_function, joined by and_masks
	first := rows()
	r.release(newer)
	causal := rows()
	both := rows()
	r.releaseAll([]*tensor{first, causal})
	all := rows()
	r.release(both)
	padding := r.empty(aten.Bool, samples, 1, 1, keys)
	mask := r.empty(aten.Bool, samples, 1, read, keys)
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
func runCache(r *run, c *aten.Call, in []*tensor) []*tensor {
	g := r.generator
	layer := &g.layers[c.Args.Layers]
	if g.Static {
		return r.updateStatic(g, layer, in)
	}
	room := func(t, before *tensor) *tensor {
		shape := slices.Clone(t.shape)
		shape[2] += g.kept()
		dtype := t.dtype
		if g.Stored != aten.Undefined {
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
func (r *run) read(t *tensor, dtype aten.DType) *tensor { return r.to(t, dtype) }

// updateStatic is update of StaticLayer and of StaticSlidingWindowLayer.
func (r *run) updateStatic(g *generator, layer *cached, in []*tensor) []*tensor {
	read, width := in[0].shape[2], g.width()
	if layer.keys == nil {
		zeros := func(t *tensor) *tensor {
			dtype := t.dtype
			if g.Stored != aten.Undefined {
				dtype = g.Stored
			}
			return r.empty(dtype, t.shape[0], t.shape[1], width, t.shape[3])
		}
		layer.keys, layer.values, layer.length = zeros(in[0]), zeros(in[1]), r.empty(aten.Int64)
	}
	switch {
	case g.seen >= width: // full: rolled by one
		keys, values := r.emptyLike(layer.keys, layer.keys.dtype), r.emptyLike(layer.values, layer.values.dtype)
		last := r.empty(aten.Int64, 1)
		r.releaseAll([]*tensor{keys, values, last})
	case g.seen+read > width: // a prompt longer than the window, whose end is kept
		return []*tensor{in[0].retain(), in[1].retain()}
	default:
		places := r.empty(aten.Int64, read)
		at := r.empty(aten.Int64, read)
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
func runRepeatKV(r *run, c *aten.Call, in []*tensor) []*tensor {
	if in[1].host && !c.Args.Keep {
		return one(in[0].retain())
	}
	return one(r.repeatHeads(in[0], c.Args.Groups))
}

// generate is greedy search: _sample of GenerationMixin. The prompt is step 1 of the log, all tokens that are made one
// by one are step 2.
func (r *run) generate(values []*tensor) error {
	g := &generator{Generation: r.opts.Generation}
	r.generator = g
	g.layers = make([]cached, countOf(r.prog, "cache"))
	g.prompt = promptOf(r.prog)
	tokens := values[r.prog.Inputs[0]].retain()
	samples := tokens.shape[0]
	longer := func(old *tensor) *tensor { // torch.cat of a column
		t := r.empty(aten.Int64, samples, g.seen+1)
		r.release(old)
		return t
	}
	row := func() *tensor { return r.empty(aten.Int64, samples, g.prompt) }
	mask, places := row(), row() // attention_mask, position_ids
	var scores *tensor
	r.step = 1
	r.begin(timeline.Forward)
	for made := range g.NewTokens {
		if made == 1 {
			r.prog, r.ends, r.unread = g.Decode, nil, nil
			r.step = 2
			r.begin(timeline.Forward)
			r.shorten(values)
		}
		if made > 0 {
			for _, id := range r.prog.Inputs {
				r.release(values[id])
				values[id] = r.empty(r.prog.Values[id].DType, r.prog.Values[id].Shape...)
			}
		}
		g.fit(r)
		r.enterAutocast()
		if err := r.forward(values); err != nil {
			return err
		}
		logits := r.takeFirst(values)
		r.exitAutocast()
		if g.seen == 0 {
			g.seen = g.prompt
		} else {
			g.seen++
		}
		g.largest = max(g.largest, g.bytes())
		places, mask = longer(places), longer(mask)
		next := r.empty(aten.Float32, samples, logits.shape[len(logits.shape)-1])
		r.release(scores)
		scores = next
		best := r.empty(aten.Int64, samples)
		tokens = longer(tokens)
		r.releaseAll([]*tensor{logits, best})
		r.recycle()
	}
	r.begin(timeline.Finish)
	for _, l := range g.layers {
		r.releaseAll([]*tensor{l.keys, l.values, l.length})
	}
	r.releaseAll([]*tensor{scores, mask, places, tokens})
	return r.err
}

// shorten has constants that say something of each token say it of one.
func (r *run) shorten(values []*tensor) {
	for i := range r.prog.Values {
		v := &r.prog.Values[i]
		if v.Kind == aten.Constant && values[i] != nil && !slices.Equal(v.Shape, values[i].shape) {
			one := r.empty(values[i].dtype, v.Shape...)
			r.release(values[i])
			values[i] = one
		}
	}
}

func (g *generator) bytes() (sum int64) {
	for _, l := range g.layers {
		sum += l.keys.st.bytes + l.values.st.bytes
	}
	return sum
}

// fit gives what the cache returns the shapes that it will have.
func (g *generator) fit(r *run) {
	keys, masked := g.keys(r)
	samples, read := g.shape(r)
	for i := range r.prog.Calls {
		c := &r.prog.Calls[i]
		switch c.Op {
		case "cache_mask":
			r.prog.Values[c.Out[0]].Shape = []int64{samples, 1, read, keys}
			continue
		case "cache", "repeat_kv":
		default:
			continue
		}
		for j, id := range c.Out {
			v := &r.prog.Values[id]
			v.Shape = slices.Clone(r.prog.Values[c.In[j]].Shape)
			v.Shape[2] = keys
			if c.Op == "repeat_kv" && (masked || c.Args.Keep) {
				v.Shape[1] = c.Args.Groups
			}
		}
	}
}

func countOf(p *aten.Program, operator string) (n int) {
	for i := range p.Calls {
		if p.Calls[i].Op == operator {
			n++
		}
	}
	return n
}

// promptOf returns how many tokens a program reads.
func promptOf(p *aten.Program) int64 {
	for i := range p.Calls {
		if c := &p.Calls[i]; c.Op == "cache" {
			return p.Values[c.In[0]].Shape[2]
		}
	}
	return 0
}
