package eager

import (
	"slices"
	"strings"
)

// fastAttention rewrites inference of nn.MultiheadAttention as its fast path runs it: with batch_first, outside training
// and autocast, a module that attends to its own input without weights goes through _native_multi_head_attention
// (torch/nn/modules/activation.py, aten/src/ATen/native/transformers/cuda/attention.cu), which projects the input as
// it lies and splits the projection by views, where the other path swaps the batch with the steps and copies.
func (p *Program) fastAttention() {
	made := make([]int32, len(p.Values))
	for i := range made {
		made[i] = -1
	}
	users := make([][]int32, len(p.Values))
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			if v != NoValue {
				made[v] = int32(i)
			}
		}
		for _, v := range p.Calls[i].In {
			if v != NoValue {
				users[v] = append(users[v], int32(i))
			}
		}
	}
	replaced := map[int][]Call{}
	for i := range p.Calls {
		c := &p.Calls[i]
		if c.Op != "sdpa" || len(c.In) < 3 || c.Args.Causal {
			continue
		}
		project := p.projection(made, c.In[0])
		if project < 0 || p.projection(made, c.In[1]) != project || p.projection(made, c.In[2]) != project {
			continue
		}
		end := p.outProjection(users, c.Out[0])
		if end < 0 {
			continue
		}
		out := p.projection(made, p.Calls[end].Out[0])
		swap := made[p.Calls[project].In[0]]
		if swap < 0 || !p.swapsBatch(swap) || out < 0 {
			continue
		}
		if calls := p.nativeAttention(c, &p.Calls[project], &p.Calls[out], p.Calls[swap].In[0], p.Calls[end].Out[0]); calls != nil {
			replaced[end] = calls
			p.fuseEncoderLayer(users, p.Calls[project].In[1], p.Calls[end].Out[0])
		}
	}
	if len(replaced) == 0 {
		return
	}
	var calls []Call
	for i := range p.Calls {
		if r := replaced[i]; r != nil {
			calls = append(calls, r...)
		} else {
			calls = append(calls, p.Calls[i])
		}
	}
	p.Calls = calls // what only the replaced calls read is dead now
}

var viewNames = []string{"reshape", "permute", "select", "contiguous", "unsqueeze", "squeeze"}

// projection follows views of a value back to the linear call that made it; -1 when something else did.
func (p *Program) projection(made []int32, v ValueID) int {
	for range 16 { // a module's views are few
		i := made[v]
		if i < 0 {
			return -1
		}
		c := &p.Calls[i]
		if c.Op == "linear" {
			return int(i)
		}
		if !slices.Contains(viewNames, c.Op) {
			return -1
		}
		v = c.In[0]
	}
	return -1
}

// outProjection follows a result through views and one linear call to the call that swaps the batch with the steps
// again; -1 when it goes elsewhere.
func (p *Program) outProjection(users [][]int32, v ValueID) int {
	linear := false
	for range 16 {
		if len(users[v]) != 1 {
			return -1
		}
		i := users[v][0]
		c := &p.Calls[i]
		switch {
		case c.Op == "linear" && !linear && c.In[0] == v:
			linear = true
		case linear && p.swapsBatch(i):
			return int(i)
		case !slices.Contains(viewNames, c.Op):
			return -1
		}
		v = c.Out[0]
	}
	return -1
}

func (p *Program) swapsBatch(i int32) bool {
	return p.Calls[i].Op == "permute" && slices.Equal(p.Calls[i].Args.Dims, []int{1, 0, 2})
}

// nativeAttention returns the calls of _native_multi_head_attention of x to y, nil where the fast path does not take it.
// With a mask, which sdpa reads, it is one call: see runNativeAttention.
func (p *Program) nativeAttention(sdpa, project, out *Call, x, y ValueID) []Call {
	shape, heads := p.Values[x].Shape, p.Values[sdpa.In[0]].Shape // [B, L, E], [B, H, L, D]
	if len(shape) != 3 || len(heads) != 4 || heads[1]%2 != 0 || heads[3]%8 != 0 || heads[1]*heads[3] != shape[2] || heads[0] != shape[0] || heads[2] != shape[1] {
		return nil
	}
	b, l, e, h, d := shape[0], shape[1], shape[2], heads[1], heads[3]
	dtype := p.Values[x].DType
	if len(sdpa.In) > 3 && sdpa.In[3] != NoValue {
		if len(project.In) < 3 || project.In[2] == NoValue || len(out.In) < 3 || out.In[2] == NoValue {
			return nil
		}
		in := []ValueID{x, project.In[1], project.In[2], out.In[1], out.In[2]}
		return []Call{{Op: "native_attention", In: in, Out: []ValueID{y}, Args: &Args{Groups: h}, Layer: sdpa.Layer, Node: sdpa.Node, Scope: sdpa.Scope}}
	}
	var calls []Call
	value := func(shape ...int64) ValueID {
		p.Values = append(p.Values, Value{DType: dtype, Shape: shape})
		return ValueID(len(p.Values) - 1)
	}
	add := func(op string, a Args, in []ValueID, outs ...ValueID) {
		calls = append(calls, Call{Op: op, In: in, Out: outs, Args: a.kept(), Layer: sdpa.Layer, Node: sdpa.Node, Scope: sdpa.Scope})
	}
	packed := value(b, l, 3*e)
	add("linear", Args{}, append([]ValueID{x}, project.In[1:]...), packed)
	parts := []ValueID{value(b, l, e), value(b, l, e), value(b, l, e)}
	add("split", Args{Dim: 2, Shape: []int64{e, e, e}}, []ValueID{packed}, parts...)
	var in []ValueID
	for _, part := range parts {
		view, turned := value(b, l, h, d), value(b, h, l, d)
		add("reshape", Args{Shape: []int64{b, l, h, d}}, []ValueID{part}, view)
		add("permute", Args{Dims: []int{0, 2, 1, 3}}, []ValueID{view}, turned)
		in = append(in, turned)
	}
	attended, turned, flat := value(b, h, l, d), value(b, l, h, d), value(b, l, e)
	add("sdpa", *sdpa.Args, in, attended)
	add("permute", Args{Dims: []int{0, 2, 1, 3}}, []ValueID{attended}, turned)
	add("reshape", Args{Shape: []int64{b, l, e}}, []ValueID{turned}, flat)
	add("linear", Args{}, append([]ValueID{flat}, out.In[1:]...), y)
	return calls
}

// fuseEncoderLayer makes in-place what nn.TransformerEncoderLayer's fast path does so after its attention, whose result
// is y and whose packed weight is w: both sums, and the activation, which is the epilogue of the first product
// (transformer_encoder_layer_forward in aten/src/ATen/native/transformers/transformer.cpp). The layer is known by the
// names that its class gives its parameters.
func (p *Program) fuseEncoderLayer(users [][]int32, w, y ValueID) {
	layer, ok := strings.CutSuffix(p.Values[w].Name, "self_attn.in_proj_weight")
	if !ok {
		return
	}
	sum, at := p.user(users, y, "add")
	if sum == nil {
		return
	}
	norm, _ := p.user(users, sum.Out[0], "layer_norm")
	if norm == nil {
		return
	}
	first, _ := p.user(users, norm.Out[0], "linear")
	if first == nil || p.Values[first.In[1]].Name != layer+"linear1.weight" {
		return
	}
	act, _ := p.user(users, first.Out[0], "relu")
	if act == nil {
		act, _ = p.user(users, first.Out[0], "gelu")
	}
	if act == nil {
		return
	}
	second, _ := p.user(users, act.Out[0], "linear")
	if second == nil || p.Values[second.In[1]].Name != layer+"linear2.weight" {
		return
	}
	last, to := p.user(users, second.Out[0], "add")
	if last == nil {
		return
	}
	act.inPlace()
	for _, s := range []struct {
		call *Call
		in   ValueID
	}{{sum, at}, {last, to}} {
		if s.call.In[1] == s.in {
			s.call.In[0], s.call.In[1] = s.call.In[1], s.call.In[0]
		}
		s.call.inPlace()
	}
}

// user returns the call of an operator that reads a value, perhaps behind a dropout, which does nothing outside
// training, and the argument by which it does; nil without one.
func (p *Program) user(users [][]int32, v ValueID, op string) (*Call, ValueID) {
	for range 3 {
		var behind ValueID = NoValue
		for _, i := range users[v] {
			switch c := &p.Calls[i]; {
			case c.Op == op && len(c.Out) > 0 && c.Out[0] != NoValue:
				return c, v
			case c.Op == "dropout":
				behind = c.Out[0]
			}
		}
		if behind == NoValue {
			return nil, NoValue
		}
		v = behind
	}
	return nil, NoValue
}
