package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// endAttention writes down where F.multi_head_attention_forward ends, which nn.MultiheadAttention calls: until then its
// variables hold the projections, the queries that it scales and the weights, and where these are computed it returns
// their mean over the heads (torch/nn/functional.py). An export has no lines of that function, and not the mean where
// nothing reads it. In training autograd keeps all of these longer. The fast path, _native_multi_head_attention, holds
// its packed projection as long.
func endAttention(p *program.Program) {
	modules := map[string]bool{} // by path, those that have its parameters
	for _, v := range p.State {
		for _, name := range []string{".in_proj_weight", ".in_proj_bias", ".q_proj_weight"} {
			if path, ok := strings.CutSuffix(p.Values[v].Name, name); ok {
				modules[path] = true
			}
		}
	}
	if len(modules) == 0 {
		return
	}
	made, users := madeAndRead(p)
	ends := map[int]program.Call{}
	for i := range p.Calls {
		s := &p.Scopes[p.Calls[i].Scope]
		if !modules[s.Name] || p.Traced() && s.Class != "MultiheadAttention" {
			continue
		}
		a := attended(p, made, users, i)
		if a == nil {
			continue
		}
		c := a.call
		end := program.Call{Op: "attention_end", Args: program.Plain, In: []program.ValueID{a.q, a.k, a.v}, Layer: c.Layer,
			Scope: c.Scope, Origin: c.Origin, Stack: c.Stack, Out: []program.ValueID{program.NoValue}}
		if a.written {
			end.In = append(end.In, a.scaled, a.dropped)
			if a.weights == program.NoValue {
				end.Args = program.Args{Groups: p.Values[a.dropped].Shape[0] / max(a.batch(p, made), 1), Mode: "averaged"}.Kept()
			}
		}
		ends[max(lastOf(p, users, a.out, c.Scope), a.average)] = end
	}
	calls := make([]program.Call, 0, len(p.Calls)+len(ends))
	for i := range p.Calls {
		calls = append(calls, p.Calls[i])
		if end, ok := ends[i]; ok {
			calls = append(calls, end)
		}
	}
	p.Calls = calls
}

// batch returns how many samples queries of attention are of, [B * H, L, D], by the projection that they are views of:
// [L, B, E].
func (a *attention) batch(p *program.Program, made []int32) int64 {
	v := a.q
	for range 16 {
		i := made[v]
		if s := p.Values[v].Shape; len(s) == 3 && s[0] == p.Values[a.q].Shape[1] && s[1] != p.Values[a.q].Shape[0] {
			return s[1]
		}
		if i < 0 || len(p.Calls[i].In) == 0 {
			break
		}
		v = p.Calls[i].In[0]
	}
	return 1
}

// lastOf follows a value through calls of one scope to the last that hands it on.
func lastOf(p *program.Program, users reads, v program.ValueID, scope int32) int {
	last := -1
	for range 16 {
		k := slices.IndexFunc(users.of(int32(v)), func(u int32) bool {
			c := &p.Calls[u]
			return c.Scope == scope && len(c.Out) == 1 && c.Out[0] != program.NoValue && c.In[0] == v
		})
		if k < 0 {
			break
		}
		last = int(users.of(int32(v))[k])
		v = p.Calls[last].Out[0]
	}
	return last
}
