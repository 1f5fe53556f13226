package parallel

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
)

// A Cache is the keys and values that generating text keeps, of one more token, in elements.
type Cache struct {
	Token   int64 // of all layers
	Largest int64 // of the keys or the values of the layer that has most
	Spread  int64 // of a layer's, spread to all heads of the queries, where its attention needs that
	Prompt  int64 // tokens that the program reads
	Logits  int64 // of one token of each sample
	Whole   bool  // the program makes logits of the whole prompt, and not of its last token alone
}

// Prefill returns the program of a forward pass that fills a cache of keys and values, as generate() of transformers
// starts: they live to its end, and logits are made of the last token alone (logits_to_keep=1). A program without
// attention has no cache.
func Prefill(prog *aten.Program) (*aten.Program, Cache) {
	out := *prog
	out.Values, out.Outputs = slices.Clone(prog.Values), slices.Clone(prog.Outputs)
	made := make([]int32, len(prog.Values))
	for i := range prog.Calls {
		for _, v := range prog.Calls[i].Out {
			if v != aten.NoValue {
				made[v] = int32(i)
			}
		}
	}
	var cache Cache
	for i := range prog.Calls {
		c := &prog.Calls[i]
		if c.Op != "sdpa" || !c.Args.Causal {
			continue
		}
		for _, v := range c.In[1:3] {
			all := aten.Numel(prog.Values[v].Shape)
			for prog.Values[v].Kind == aten.Activation { // back through what spreads keys and values of few heads to all
				m := &prog.Calls[made[v]]
				look := m.Op == "expand" || m.Op == "reshape" || m.Op == "unsqueeze" || m.Op == "contiguous" || m.Op == "clone"
				if !look || m.In[0] == aten.NoValue || prog.Values[m.In[0]].Kind != aten.Activation {
					break
				}
				v = m.In[0]
			}
			shape := prog.Values[v].Shape
			cache.Prompt = prog.Values[c.In[1]].Shape[len(prog.Values[c.In[1]].Shape)-2]
			token := aten.Numel(shape) / max(cache.Prompt, 1)
			cache.Token += token
			cache.Largest = max(cache.Largest, token)
			if spread := all / max(cache.Prompt, 1); spread > token {
				cache.Spread = max(cache.Spread, spread)
			}
			out.Outputs = append(out.Outputs, v)
		}
	}
	if cache.Token == 0 || len(prog.Outputs) == 0 {
		return prog, Cache{}
	}
	cache.Whole = !lastAlone(&out, int(made[prog.Outputs[0]]))
	logits := out.Values[prog.Outputs[0]].Shape
	cache.Logits = aten.Numel(logits)
	if cache.Whole {
		cache.Logits /= max(cache.Prompt, 1)
	}
	return &out, cache
}

// lastAlone has the linear layer that is the program's last read the last token alone.
func lastAlone(p *aten.Program, at int) bool {
	c := p.Calls[at]
	if c.Op != "linear" || len(p.Values[c.In[0]].Shape) != 3 || p.Values[c.In[0]].Kind != aten.Activation {
		return false
	}
	x, y := p.Values[c.In[0]].Shape, p.Values[c.Out[0]].Shape
	one := p.Add(aten.Value{DType: p.Values[c.In[0]].DType, Shape: []int64{x[0], 1, x[2]}})
	slice := c
	slice.Op, slice.Args = "slice", &aten.Args{Dims: []int{1}, Shape: []int64{1}}
	slice.In, slice.Out = []aten.ValueID{c.In[0]}, []aten.ValueID{one}
	c.In = append([]aten.ValueID{one}, c.In[1:]...)
	p.Values[c.Out[0]].Shape = []int64{y[0], 1, y[2]}
	p.Calls = slices.Concat(p.Calls[:at], []aten.Call{slice, c}, p.Calls[at+1:])
	return true
}
