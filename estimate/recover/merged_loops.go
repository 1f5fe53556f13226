package recover

import (
	"reflect"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// maxAligned is how many calls of a loop's body are compared with those of the next.
const maxAligned = 1 << 9

// unmergeLoops gives the iterations of a Python loop back the calls that an exporter made one: those of equal arguments.
// The TorchScript exporter runs _jit_pass_cse (torch/onnx/utils.py, _optimize_graph), and onnxscript's optimizer
// eliminates common subexpressions likewise; eager mode makes each call, and autograd saves what each returns.
//
// Of a product that does not change from step to step, such as that of the keys in an attention of a hand-written
// decoder, only the first iteration's is left, where it was: behind calls that every iteration makes, with the same
// parameters. One that the model computes ahead of its loop stands before all of them.
func (b *recovery) unmergeLoops() {
	p := b.prog
	calls := p.Calls
	made, uses := madeAndRead(p)
	out := returned(p)
	copies, total := map[int32][]program.Call{}, 0 // by the call that they come before
	for x := range calls {
		if len(calls[x].Out) != 1 || calls[x].Out[0] == program.NoValue {
			continue
		}
		v := calls[x].Out[0]
		at := uses.of(int32(v))
		chain, after, ok := mergedAt(p, int32(x), at, made, uses)
		if !ok || total+len(chain)*len(at) > maxAgain || out[v] {
			continue
		}
		if b.at = int(calls[x].Origin); !b.guess(mergedCalls) {
			continue
		}
		for _, c := range at[1:] {
			total += len(chain)
			again, w := b.again(chain)
			copies[c-after] = append(copies[c-after], again...)
			readInstead(&calls[c], v, w)
		}
	}
	insert(p, copies)
}

// again returns some calls, in order, as others that make values of their own, and what the last of them makes. Each
// makes what only those behind it need, or the result.
func (b *recovery) again(chain []int32) (list []program.Call, result program.ValueID) {
	renamed := map[program.ValueID]program.ValueID{}
	for _, i := range chain {
		c := b.prog.Calls[i]
		c.In, c.Out = slices.Clone(c.In), slices.Clone(c.Out)
		for k, in := range c.In {
			if to, ok := renamed[in]; ok {
				c.In[k] = to
			}
		}
		for k, out := range c.Out {
			if out != program.NoValue {
				renamed[out] = b.add(b.prog.Values[out])
				c.Out[k] = renamed[out]
				result = c.Out[k]
			}
		}
		list = append(list, c)
	}
	return list, result
}

// mergedAt reports whether every iteration of a loop made call x, whose result the calls at read, one in each. chain
// are x and the calls that only it needs, and after is how many calls an iteration makes between x and the one that
// reads it.
func mergedAt(p *program.Program, x int32, at, made []int32, uses reads) (chain []int32, after int32, ok bool) {
	if !evenly(p, at) || !slices.ContainsFunc(p.Calls[x].In, func(v program.ValueID) bool {
		return v != program.NoValue && (p.Values[v].Kind == program.Activation || p.Values[v].Kind == program.InputValue)
	}) {
		return nil, 0, false
	}
	chain = []int32{x}
	inChain := func(i int32) bool { return slices.Contains(chain, i) }
	bound, parameters := false, false
	first := x
	i, j := at[0]-1, at[1]-1
	for steps := 0; i >= 0 && j > at[0] && steps < maxAligned; steps++ {
		c := &p.Calls[i]
		switch {
		case i == x:
		case i < x && len(c.Out) == 1 && c.Out[0] != program.NoValue && len(uses.of(int32(c.Out[0]))) > 0 &&
			!slices.ContainsFunc(uses.of(int32(c.Out[0])), func(u int32) bool { return !inChain(u) }):
			chain = append(chain, i)
		case alike(p, i, j):
			if i > x {
				after++
			} else if readsOf(p, i) {
				parameters = true
			}
			first, j = i, j-1
		case len(c.Out) == 1 && c.Out[0] != program.NoValue && evenly(p, uses.of(int32(c.Out[0]))): // merged, too
		default:
			bound = true
		}
		if bound {
			break
		}
		i--
	}
	if !parameters {
		return nil, 0, false
	}
	for _, i := range chain {
		for _, v := range p.Calls[i].In {
			if v != program.NoValue && (int(v) >= len(made) || made[v] >= first && !inChain(made[v])) {
				return nil, 0, false // it differs from one iteration to the next
			}
		}
	}
	slices.Sort(chain)
	return chain, after, true
}

// evenly reports whether calls are those of a loop's iterations: equal ones at equal distances.
func evenly(p *program.Program, at []int32) bool {
	if len(at) < 2 || at[1] == at[0] {
		return false
	}
	for k := 1; k < len(at); k++ {
		if at[k]-at[k-1] != at[1]-at[0] || !alike(p, at[0], at[k]) {
			return false
		}
	}
	return true
}

// alike reports whether two calls are one line of a program at different times: the same operator and arguments, with
// the same parameters and tensors of the same sizes.
func alike(p *program.Program, i, j int32) bool {
	c, d := &p.Calls[i], &p.Calls[j]
	if c.Op != d.Op || len(c.In) != len(d.In) || len(c.Out) != len(d.Out) || c.Args != d.Args &&
		!reflect.DeepEqual(c.Args, d.Args) {
		return false
	}
	same := func(v, w program.ValueID) bool {
		if v == w || v == program.NoValue || w == program.NoValue {
			return v == w
		}
		x, y := &p.Values[v], &p.Values[w]
		return x.Kind != program.Parameter && y.Kind != program.Parameter && x.DType == y.DType && slices.Equal(x.Shape, y.Shape)
	}
	return slices.EqualFunc(c.In, d.In, same) && slices.EqualFunc(c.Out, d.Out, same)
}
