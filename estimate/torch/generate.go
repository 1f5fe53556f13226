package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Generation says that an inference is transformers' model.generate(): greedy search from a prompt, which the program
// reads, with a cache of keys and values (cache_utils.py and generation/utils.py of transformers 5.17). The zero value
// generates nothing.
type Generation struct {
	Decode    *program.Program // reads one token, and has the program's values; the run changes their shapes
	NewTokens int
	Static    bool          // cache_implementation="static", not compiled: room for all tokens from the first on
	Window    int64         // tokens that are seen (sliding_window); 0 is all
	Stored    program.DType // the element type of the cache; Undefined is that of keys and values
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

// capacity is how many tokens a static cache holds: the last one that is made is not read.
func (g *generator) capacity() int64 { return g.prompt + int64(g.NewTokens) - 1 }

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
		return min(g.Window, g.capacity())
	}
	return g.capacity()
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
		t := r.empty(program.Int64, samples, g.seen+1)
		r.release(old)
		return t
	}
	row := func() *tensor { return r.empty(program.Int64, samples, g.prompt) }
	mask, places := row(), row() // attention_mask, position_ids
	var scores *tensor
	r.step = 1
	r.begin(timeline.Forward)
	for made := range g.NewTokens {
		if made == 1 {
			r.prog = g.Decode
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
		next := r.empty(program.Float32, samples, logits.shape[len(logits.shape)-1])
		r.release(scores)
		scores = next
		best := r.empty(program.Int64, samples)
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
		if v.Kind == program.Constant && values[i] != nil && !slices.Equal(v.Shape, values[i].shape) {
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

func countOf(p *program.Program, operator string) (n int) {
	for i := range p.Calls {
		if p.Calls[i].Op == operator {
			n++
		}
	}
	return n
}

// promptOf returns how many tokens a program reads.
func promptOf(p *program.Program) int64 {
	for i := range p.Calls {
		if c := &p.Calls[i]; c.Op == "cache" {
			return p.Values[c.In[0]].Shape[2]
		}
	}
	return 0
}
