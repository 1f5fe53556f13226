package program

import (
	"errors"
	"fmt"
	"slices"
)

// Operators that generating adds to a program; eager has their rows.
const (
	maskOfCache  = "cache_mask" // the mask that attention to cached keys needs, none where it needs none
	updateCache  = "cache"      // keys and values of new tokens join those before them
	repeatGroups = "repeat_kv"  // keys or values of few heads, for all heads of the queries
)

// A Cache is what generating text keeps, by one more token of all samples, in elements.
type Cache struct {
	Token  int64 // keys and values of all layers
	Layers int   // attentions that keep them
	Prompt int64 // tokens of each sample that are read first
	// how many positions the model has a row for, and the weight that has them; 0 where none is seen
	Positions int64
	Table     string
	Whole     bool // logits are made of the whole prompt, and not of its last token alone
}

// Holds reports, as a MatchError, that the model has fewer positions than tokens are read: the prompt, and all new ones
// but the last.
func (c Cache) Holds(newTokens int64) error {
	read := c.Prompt + newTokens - 1
	if c.Positions == 0 || read <= c.Positions {
		return nil
	}
	return noMatch("new-tokens: %d tokens of each sample are read, and the model has %d positions, the rows of %q: "+
		"want at most %d new ones", read, c.Positions, c.Table, max(0, c.Positions+1-c.Prompt))
}

// ErrNoCache says that a program has nothing to generate text with.
var ErrNoCache = errors.New("the graph shows no causal attention, whose keys and values generating would keep")

// Generating returns the programs of transformers' generate(), both with the values of prog: prefill reads a prompt and
// makes logits of its last token alone (logits_to_keep=1), decode reads one token. The keys and values of each causal
// attention join a cache before it, as few heads as there are. prog reads `from` tokens of each sample, by which it
// knows dimensions that stand for tokens: no dimension of a weight may be that, nor that times the samples. A prompt of
// 0 tokens is of as many.
func Generating(prog *Program, prompt int64) (prefill, decode *Program, c Cache, err error) {
	p := clone(prog)
	c = keepKeys(p)
	if c.Layers == 0 || len(p.Outputs) == 0 || len(p.Inputs) == 0 {
		return nil, nil, c, ErrNoCache
	}
	from, samples := tokensOf(p)
	if c.Token /= max(from, 1); from < 2 {
		return nil, nil, c, fmt.Errorf("the graph is of %d tokens of each sample: export it with two or more", from)
	}
	if prompt == 0 {
		prompt = from
	}
	c.Prompt, c.Whole = prompt, !lastAlone(p)
	if d := sameAs(p, from, samples); d > 0 && prompt != from {
		return nil, nil, c, fmt.Errorf("the graph is exported for %d tokens of %d samples, and has a weight with a "+
			"dimension of %d, which cannot be told from that: export it with a symbolic length", from, samples, d)
	} else if d > 0 {
		return nil, nil, c, fmt.Errorf("a weight has a dimension of %d, which cannot be told from the %d tokens of %d "+
			"samples that the graph is exported for: export it with a symbolic length", d, from, samples)
	}
	c.Positions, c.Table = positionsOf(p, from, samples)
	prefill, decode = clone(p), clone(p)
	ofLength(prefill, from, samples, prompt)
	ofLength(decode, from, samples, 1)
	return prefill, decode, c, nil
}

// positionsOf returns the rows of the embedding that is read at positions: at as many as there are tokens, by what no
// input says.
func positionsOf(p *Program, tokens, samples int64) (rows int64, table string) {
	given := make([]bool, len(p.Values)) // it follows from an input
	for _, id := range p.Inputs {
		given[id] = true
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		follows := slices.ContainsFunc(c.In, func(v ValueID) bool { return given[v] })
		for _, v := range c.Out {
			given[v] = follows
		}
		if !Of(c.Op).Is(Table) || given[c.In[1]] || p.Values[c.In[0]].Kind != Parameter {
			continue
		}
		ids, w := p.Values[c.In[1]].Shape, &p.Values[c.In[0]]
		if n := len(ids); n == 0 || ids[n-1] != tokens || Numel(ids) != tokens && Numel(ids) != tokens*samples {
			continue
		}
		if n := w.Shape[0]; n >= tokens && (rows == 0 || n < rows) { // that of BERT's two types of tokens has fewer
			rows, table = w.Shape[0], w.Name
		}
	}
	return rows, table
}

// clone copies what the transformations here change.
func clone(p *Program) *Program {
	out := *p
	out.Values, out.Calls, out.Outputs = slices.Clone(p.Values), slices.Clone(p.Calls), slices.Clone(p.Outputs)
	return &out
}

// tokensOf returns how many tokens of how many samples a program reads, by its first cache.
func tokensOf(p *Program) (tokens, samples int64) {
	for i := range p.Calls {
		if c := &p.Calls[i]; c.Op == updateCache {
			s := p.Values[c.In[0]].Shape
			return s[len(s)-2], s[0]
		}
	}
	return 0, 0
}

// sameAs returns a dimension of a weight that is a number of tokens, 0 where there is none.
func sameAs(p *Program, tokens, samples int64) int64 {
	for _, id := range p.State {
		for _, d := range p.Values[id].Shape {
			if d == tokens || d == tokens*samples {
				return d
			}
		}
	}
	return 0
}

// ofLength gives a program another number of tokens.
func ofLength(p *Program, from, samples, to int64) {
	length := func(shape []int64) []int64 {
		for i, d := range shape {
			if d != from && d != from*samples {
				continue
			}
			changed := slices.Clone(shape)
			for j := i; j < len(changed); j++ {
				switch changed[j] {
				case from:
					changed[j] = to
				case from * samples:
					changed[j] = to * samples
				}
			}
			return changed
		}
		return shape
	}
	for i := range p.Values {
		if v := &p.Values[i]; v.Kind != Parameter && v.Kind != Buffer {
			v.Shape = length(v.Shape)
		}
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		if shape := length(c.Args.Shape); len(shape) > 0 && &shape[0] != &c.Args.Shape[0] {
			args := *c.Args
			args.Shape = shape
			c.Args = args.Kept()
		}
	}
}

// keepKeys has each causal attention read keys and values from a cache, all of them with one mask. Where the program
// spreads few heads of them to those of the queries, that comes after the cache.
func keepKeys(p *Program) (cache Cache) {
	made := make([]int, len(p.Values))
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			made[v] = i
		}
	}
	behind := map[int][]Call{} // by call: what follows it
	var mask ValueID
	first := len(p.Calls)
	for i := range p.Calls {
		c := &p.Calls[i]
		if !Of(c.Op).Is(Attention) || !c.Args.Causal || len(p.Values[c.In[1]].Shape) != 4 {
			continue
		}
		if mask == NoValue {
			mask = p.Add(Value{Name: "mask of the cache", DType: Bool})
		}
		k, spread := beforeSpread(p, made, c.In[1])
		v, _ := beforeSpread(p, made, c.In[2])
		at := max(made[k], made[v])
		first = min(first, at)
		call := Call{Layer: c.Layer, Scope: c.Scope, Origin: c.Origin}
		keys, values := p.Add(p.Values[k]), p.Add(p.Values[v])
		update := call
		update.Op, update.In, update.Out = updateCache, []ValueID{k, v}, []ValueID{keys, values}
		update.Args = Args{Layers: int64(cache.Layers)}.Kept()
		calls := []Call{update}
		heads := p.Values[c.In[0]].Shape[1]
		if p.Values[k].Shape[1] != heads {
			for _, grouped := range []*ValueID{&keys, &values} {
				all := p.Values[*grouped]
				all.Shape = slices.Clone(all.Shape)
				all.Shape[1] = heads
				repeat := call
				repeat.Op, repeat.In, repeat.Out = repeatGroups, []ValueID{*grouped, mask}, []ValueID{p.Add(all)}
				repeat.Args = Args{Groups: heads, Keep: spread}.Kept()
				calls = append(calls, repeat)
				*grouped = repeat.Out[0]
			}
		}
		behind[at] = append(behind[at], calls...)
		cache.Token += Numel(p.Values[k].Shape) + Numel(p.Values[v].Shape)
		cache.Layers++
		c.In = []ValueID{c.In[0], keys, values, mask}
	}
	if cache.Layers == 0 {
		return cache
	}
	scope := p.Calls[first].Scope
	for at := range behind {
		scope = p.CommonScope(scope, p.Calls[at].Scope)
	}
	calls := []Call{{Op: maskOfCache, Out: []ValueID{mask}, Args: Plain, Layer: p.Calls[first].Layer,
		Scope: scope, Origin: p.Calls[first].Origin}}
	for i := range p.Calls {
		calls = append(append(calls, p.Calls[i]), behind[i]...)
	}
	p.Calls = calls
	p.DropDead()
	return cache
}

// beforeSpread goes back from the keys or values of an attention through what spreads few heads of them to all.
func beforeSpread(p *Program, made []int, v ValueID) (from ValueID, spread bool) {
	for p.Values[v].Kind == Activation {
		c := &p.Calls[made[v]]
		look := c.Op == "expand" || c.Op == "reshape" || c.Op == "unsqueeze" || c.Op == "contiguous" || c.Op == "clone"
		if !look || c.In[0] == NoValue || p.Values[c.In[0]].Kind != Activation {
			break
		}
		v, spread = c.In[0], true
	}
	return v, spread
}

// lastAlone has the linear layer that is the program's last read the last token alone.
func lastAlone(p *Program) bool {
	at := slices.IndexFunc(p.Calls, func(c Call) bool { return slices.Contains(c.Out, p.Outputs[0]) })
	if at < 0 {
		return false
	}
	c := p.Calls[at]
	if c.Op != "linear" || len(p.Values[c.In[0]].Shape) != 3 || p.Values[c.In[0]].Kind != Activation {
		return false
	}
	x, y := p.Values[c.In[0]].Shape, p.Values[c.Out[0]].Shape
	one := p.Add(Value{DType: p.Values[c.In[0]].DType, Shape: []int64{x[0], 1, x[2]}})
	slice := c
	slice.Op, slice.Args = "slice", &Args{Dims: []int{1}, Shape: []int64{1}}
	slice.In, slice.Out = []ValueID{c.In[0]}, []ValueID{one}
	c.In = append([]ValueID{one}, c.In[1:]...)
	p.Values[c.Out[0]].Shape = []int64{y[0], 1, y[2]}
	p.Calls = slices.Concat(p.Calls[:at], []Call{slice, c}, p.Calls[at+1:])
	return true
}
