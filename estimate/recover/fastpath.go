package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// fastAttention rewrites inference of nn.MultiheadAttention as its fast path runs it: with batch_first, outside
// training and autocast, a module that attends to its own input without weights goes through
// _native_multi_head_attention (torch/nn/modules/activation.py, aten/src/ATen/native/transformers/cuda/attention.cu),
// which projects the input as it lies and splits the projection by views, where the other path swaps the batch with
// the steps and copies.
func fastAttention(p *program.Program) {
	made, users := madeAndRead(p)
	replaced := map[int][]program.Call{}
	for i := range p.Calls {
		a := attended(p, made, users, i)
		if a == nil {
			continue
		}
		project := projection(p, made, a.q)
		if project < 0 || projection(p, made, a.k) != project || projection(p, made, a.v) != project {
			continue
		}
		end := outProjection(p, users, a.out)
		if end < 0 || a.average >= end {
			continue
		}
		out := projection(p, made, p.Calls[end].Out[0])
		swap := made[p.Calls[project].In[0]]
		if swap < 0 || !swapsBatch(p, swap, []int{2, 0, 1}) || p.Calls[swap].Scope != a.call.Scope || out < 0 {
			continue // a caller swaps them before a module that wants the steps first
		}
		x, before := turnedBack(p, p.Calls[swap].In[0], &p.Calls[swap], false)
		y, behind := turnedBack(p, p.Calls[end].Out[0], &p.Calls[end], true)
		if calls := a.native(p, &p.Calls[project], &p.Calls[out], x, y); calls != nil {
			calls = slices.Concat(before, calls, behind)
			p.Guesses = append(p.Guesses, program.Guess{Row: fastPath.Name, Origin: a.call.Origin})
			replaced[end] = calls
			if a.weights != program.NoValue {
				replaced[int(made[a.weights])] = nil
			}
			fuseEncoderLayer(p, users, p.Calls[project].In[1], p.Calls[end].Out[0])
		}
	}
	if len(replaced) == 0 {
		return
	}
	var calls []program.Call
	for i := range p.Calls {
		if r, ok := replaced[i]; ok {
			calls = append(calls, r...)
		} else {
			calls = append(calls, p.Calls[i])
		}
	}
	p.Calls = calls // what only the replaced calls read is dead now
}

// An attention is what F.multi_head_attention_forward computes of its projections: scaled_dot_product_attention, or,
// where the module returns its weights, softmax(q * scale @ k.T + mask) @ v.
type attention struct {
	call          *program.Call
	q, k, v, mask program.ValueID
	out           program.ValueID
	written       bool            // in steps: it returns weights
	scaled        program.ValueID // then, the queries that are multiplied
	dropped       program.ValueID // and the weights
	weights       program.ValueID // these, where something reads them
	average       int             // the call that takes their mean over the heads; -1 where each head's are returned
}

// attended returns the attention of a call, nil where it is none.
func attended(p *program.Program, made []int32, users reads, i int) *attention {
	c := &p.Calls[i]
	switch {
	case program.Of(c.Op).Is(program.Attention) && len(c.In) >= 3 && !c.Args.Causal:
		a := &attention{call: c, q: c.In[0], k: c.In[1], v: c.In[2], out: c.Out[0], average: -1}
		if len(c.In) > 3 {
			a.mask = c.In[3]
		}
		return a
	case c.Op == "softmax" && len(p.Values[c.Out[0]].Shape) == 3:
		if a := (&attention{call: c, written: true, average: -1}); a.scored(p, made) && a.weighted(p, users) {
			return a
		}
	}
	return nil
}

// scored finds the queries, keys and mask that a softmax is given the scores of.
func (a *attention) scored(p *program.Program, made []int32) bool {
	maker := func(v program.ValueID) *program.Call {
		if made[v] < 0 {
			return &program.Call{}
		}
		return &p.Calls[made[v]]
	}
	scores := maker(a.call.In[0])
	if scores.Op == "add" && len(scores.In) == 2 {
		a.mask = scores.In[1]
		scores = maker(scores.In[0])
	}
	switch {
	case program.Of(scores.Op).Is(program.SecondRowSum) && len(scores.In) == 3:
		a.mask, a.q, a.k = scores.In[0], scores.In[1], scores.In[2]
	case program.Of(scores.Op).Is(program.Product) && len(scores.In) == 2:
		a.q, a.k = scores.In[0], scores.In[1]
	default:
		return false
	}
	scaled := maker(a.q)
	if scaled.Op != "mul" || p.Values[scaled.In[1]].Kind != program.Number {
		return false
	}
	a.scaled, a.q = a.q, scaled.In[0]
	return true
}

// weighted finds the values that a softmax weighs, and which weights are returned.
func (a *attention) weighted(p *program.Program, users reads) bool {
	weights := a.call.Out[0]
	if next := users.of(int32(weights)); len(next) == 1 && p.Calls[next[0]].Op == "dropout" { // which does nothing here
		weights = p.Calls[next[0]].Out[0]
	}
	a.dropped = weights
	for _, u := range users.of(int32(weights)) {
		switch c := &p.Calls[u]; {
		case program.Of(c.Op).Is(program.Product) && len(c.In) == 2 && c.In[0] == weights && a.out == program.NoValue:
			a.v, a.out = c.In[1], c.Out[0]
		case program.Of(c.Op).Is(program.Look) && len(p.Values[c.Out[0]].Shape) == 4 && a.weights == program.NoValue:
			a.weights = c.Out[0]
			if next := users.of(int32(a.weights)); len(next) == 1 && p.Calls[next[0]].Scope == c.Scope &&
				slices.Equal(p.Calls[next[0]].Args.Dims, []int{1}) {
				a.average = int(next[0])
				a.weights = p.Calls[a.average].Out[0]
			}
		default:
			return false
		}
	}
	return a.out != program.NoValue
}

// native returns the calls of _native_multi_head_attention of x to y, nil where the fast path does not take it. With a
// mask or weights it is one call: see runNativeAttention.
func (a *attention) native(p *program.Program, project, out *program.Call, x, y program.ValueID) []program.Call {
	shape, heads := p.Values[x].Shape, p.Values[a.q].Shape               // [B, L, E], [B, H, L, D]
	if a.written && len(shape) == 3 && len(heads) == 3 && shape[0] > 0 { // [B * H, L, D]
		heads = []int64{shape[0], heads[0] / shape[0], heads[1], heads[2]}
	}
	if len(shape) != 3 || len(heads) != 4 || heads[1]%2 != 0 || heads[3]%8 != 0 || heads[1]*heads[3] != shape[2] ||
		heads[0] != shape[0] || heads[2] != shape[1] {
		return nil
	}
	b, l, e, h, d := shape[0], shape[1], shape[2], heads[1], heads[3]
	dtype := p.Values[x].DType
	sdpa := a.call
	if a.written || a.mask != program.NoValue {
		in := []program.ValueID{x, project.In[1], program.NoValue, out.In[1], program.NoValue, a.mask}
		for i, c := range []*program.Call{project, out} { // both have a bias; an optimizer drops one of zeros
			if len(c.In) > 2 {
				in[2+2*i] = c.In[2]
			}
		}
		if in[2] == program.NoValue && in[4] == program.NoValue {
			return nil
		}
		native := program.Call{Op: "native_attention", In: in, Out: []program.ValueID{y}, Layer: sdpa.Layer, Origin: sdpa.Origin,
			Stack: sdpa.Stack, Scope: sdpa.Scope}
		args := program.Args{Groups: h}
		if a.written {
			native.Out, args.Mode = append(native.Out, a.weights), "averaged"
			if a.weights != program.NoValue && a.average < 0 {
				args.Mode = "heads"
			}
		}
		native.Args = args.Kept()
		return []program.Call{native}
	}
	var calls []program.Call
	value := func(shape ...int64) program.ValueID {
		return p.Add(program.Value{DType: dtype, Shape: shape})
	}
	add := func(op string, a program.Args, in []program.ValueID, outs ...program.ValueID) {
		calls = append(calls, program.Call{Op: op, In: in, Out: outs, Args: a.Kept(), Layer: sdpa.Layer, Origin: sdpa.Origin,
			Stack: sdpa.Stack, Scope: sdpa.Scope})
	}
	packed := value(b, l, 3*e)
	add("linear", program.Args{}, append([]program.ValueID{x}, project.In[1:]...), packed)
	parts := []program.ValueID{value(b, l, e), value(b, l, e), value(b, l, e)}
	add("split", program.Args{Dim: 2, Shape: []int64{e, e, e}}, []program.ValueID{packed}, parts...)
	var in []program.ValueID
	for _, part := range parts {
		view, turned := value(b, l, h, d), value(b, h, l, d)
		add("reshape", program.Args{Shape: []int64{b, l, h, d}}, []program.ValueID{part}, view)
		add("permute", program.Args{Dims: []int{0, 2, 1, 3}}, []program.ValueID{view}, turned)
		in = append(in, turned)
	}
	attended, turned, flat := value(b, h, l, d), value(b, l, h, d), value(b, l, e)
	add("sdpa", *sdpa.Args, in, attended)
	add("permute", program.Args{Dims: []int{0, 2, 1, 3}}, []program.ValueID{attended}, turned)
	add("reshape", program.Args{Shape: []int64{b, l, e}}, []program.ValueID{turned}, flat)
	add("linear", program.Args{}, append([]program.ValueID{flat}, out.In[1:]...), y)
	return calls
}

// fuseEncoderLayer makes in-place what nn.TransformerEncoderLayer's fast path does so after its attention, whose result
// is y and whose packed weight is w: both sums, and the activation, which is the epilogue of the first product
// (transformer_encoder_layer_forward in aten/src/ATen/native/transformers/transformer.cpp). The layer is known by the
// names that its class gives its parameters.
func fuseEncoderLayer(p *program.Program, users reads, w, y program.ValueID) {
	layer, ok := strings.CutSuffix(p.Values[w].Name, "self_attn.in_proj_weight")
	if !ok {
		return
	}
	sum, at := user(p, users, y, "add")
	if sum == nil {
		return
	}
	norm, _ := user(p, users, sum.Out[0], "layer_norm")
	if norm == nil {
		return
	}
	first, _ := user(p, users, norm.Out[0], "linear")
	if first == nil || p.Values[first.In[1]].Name != layer+"linear1.weight" {
		return
	}
	act, _ := user(p, users, first.Out[0], "relu")
	if act == nil {
		act, _ = user(p, users, first.Out[0], "gelu")
	}
	if act == nil {
		return
	}
	second, _ := user(p, users, act.Out[0], "linear")
	if second == nil || p.Values[second.In[1]].Name != layer+"linear2.weight" {
		return
	}
	last, to := user(p, users, second.Out[0], "add")
	if last == nil {
		return
	}
	act.InPlace()
	for _, s := range []struct {
		call *program.Call
		in   program.ValueID
	}{{sum, at}, {last, to}} {
		if s.call.In[1] == s.in {
			s.call.In[0], s.call.In[1] = s.call.In[1], s.call.In[0]
		}
		s.call.InPlace()
	}
}

// user returns the call of an operator that reads a value, perhaps behind a dropout, which does nothing outside
// training, and the argument by which it does; nil without one.
func user(p *program.Program, users reads, v program.ValueID, op string) (*program.Call, program.ValueID) {
	for range 3 {
		behind := program.NoValue
		for _, i := range users.of(int32(v)) {
			switch c := &p.Calls[i]; {
			case c.Op == op && len(c.Out) > 0 && c.Out[0] != program.NoValue:
				return c, v
			case c.Op == "dropout":
				behind = c.Out[0]
			}
		}
		if behind == program.NoValue {
			return nil, program.NoValue
		}
		v = behind
	}
	return nil, program.NoValue
}
