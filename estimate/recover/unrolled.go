package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// An unrolledKind is a recurrent module of torch.nn whose steps torch.export writes out: those of nn.RNN (rnn_tanh and
// rnn_relu in torch/_decomp/decompositions.py), and of nn.LSTM and nn.GRU (lstm_impl, gru_impl) where the exporter's
// onnxscript has no function for them yet.
// The call is named as the module is.
type unrolledKind struct {
	class  string
	gates  int64
	states int
}

var unrolledKinds = []unrolledKind{{"RNN", 1, 1}, {"LSTM", 4, 2}, {"GRU", 3, 1}}

// foldUnrolled makes one call of each recurrent module of torch.nn whose steps are written out: a GPU runs it as
// _cudnn_rnn, whatever its length.
func foldUnrolled(p *program.Program, train bool) {
	var reads []int32
	var kept []program.Call // nil as long as nothing is folded
	for i := 0; i < len(p.Calls); i++ {
		scope := p.Calls[i].Scope
		k := slices.IndexFunc(unrolledKinds, func(k unrolledKind) bool { return k.class == p.Scopes[scope].Class })
		end := i + 1
		for k >= 0 && end < len(p.Calls) && p.Calls[end].Scope == scope {
			end++
		}
		if k >= 0 {
			if reads == nil {
				reads = timesRead(p)
			}
			if calls := foldedLayers(p, p.Calls[i:end], &unrolledKinds[k], reads, train); calls != nil {
				if kept == nil {
					kept = slices.Grow(slices.Clone(p.Calls[:i]), len(p.Calls)-i)
				}
				kept = append(kept, calls...)
				i = end - 1
				continue
			}
		}
		if kept != nil {
			kept = append(kept, p.Calls[i:end]...)
		}
		i = end - 1
	}
	if kept != nil {
		p.Calls = kept
	}
}

// unrolled is what the calls of a recurrent module show of its layers, of which there is one for each direction.
type unrolled struct {
	inputs []*program.Call   // W_ih of all steps at once, one for each layer
	steps  [][]*program.Call // W_hh of each step, for each layer
	last   int               // the call that is the last of these
}

// layersOf finds the products of a module's layers. Those of steps read a state, [1, N, H].
func layersOf(p *program.Program, calls []program.Call, kind *unrolledKind) (u unrolled) {
	byWeight := map[program.ValueID]int{}
	for i := range calls {
		c := &calls[i]
		if !program.Of(c.Op).Is(program.RowSum) || len(c.In) < 2 || c.In[0] == program.NoValue {
			continue
		}
		x, w := p.Values[c.In[0]].Shape, &p.Values[c.In[1]]
		y := p.Values[c.Out[0]].Shape
		if w.Kind != program.Parameter || len(x) != 3 || len(y) != 3 || y[2]%kind.gates != 0 {
			continue
		}
		u.last = i
		if x[0] != 1 {
			u.inputs = append(u.inputs, c)
			continue
		}
		k, known := byWeight[c.In[1]]
		if !known {
			k = len(u.steps)
			byWeight[c.In[1]], u.steps = k, append(u.steps, nil)
		}
		u.steps[k] = append(u.steps[k], c)
	}
	return u
}

// settings returns the sizes that all of a module's layers have, false where the products are not those of one.
func (u *unrolled) settings(p *program.Program, kind *unrolledKind, train bool) (args program.Args, x []int64, ok bool) {
	layers := len(u.steps)
	if layers == 0 || len(u.inputs) != layers {
		return args, nil, false
	}
	x = p.Values[u.inputs[0].In[0]].Shape
	args = program.Args{Hidden: p.Values[u.steps[0][0].In[0]].Shape[2], Layers: int64(layers), Train: train}
	for k := range layers {
		y := p.Values[u.inputs[k].Out[0]].Shape
		if int64(len(u.steps[k])) != x[0] || y[0] != x[0] || y[1] != x[1] || y[2] != kind.gates*args.Hidden {
			return args, nil, false
		}
	}
	if layers > 1 && u.inputs[0].In[0] == u.inputs[1].In[0] {
		args.Both, args.Layers = true, int64(layers)/2
	}
	return args, x, true
}

// weights returns a module's parameters as cuDNN's block has them: each layer's matrices, and its biases.
func (u *unrolled) weights() (weights []program.ValueID) {
	for k := range u.steps {
		for slot := 1; slot < 3; slot++ {
			for _, c := range []*program.Call{u.inputs[k], u.steps[k][0]} {
				if slot < len(c.In) && c.In[slot] != program.NoValue {
					weights = append(weights, c.In[slot])
				}
			}
		}
	}
	return weights
}

// foldedLayers returns the calls of a module as a GPU runs them, nil where they are not what torch.export writes.
func foldedLayers(p *program.Program, calls []program.Call, kind *unrolledKind, reads []int32, train bool) []program.Call {
	u := layersOf(p, calls, kind)
	args, x, ok := u.settings(p, kind, train)
	if !ok {
		return nil
	}
	letGoOfZeros(p, calls, reads)
	states := []int64{int64(len(u.steps)), x[1], args.Hidden}
	within, given := ownReads(p, calls, u.inputs[0].In[0], states)
	end := &calls[len(calls)-1]
	rnn := program.Call{Op: strings.ToLower(kind.class), Args: args.Kept(), Layer: end.Layer, Scope: end.Scope,
		Origin: end.Origin, Stack: end.Stack, In: []program.ValueID{u.inputs[0].In[0], program.NoValue, program.NoValue},
		Out: make([]program.ValueID, 1+kind.states)}
	copy(rnn.In[1:], given[:min(len(given), kind.states)])
	sequence := []int64{x[0], x[1], states[0] / args.Layers * args.Hidden}
	var before, after []program.Call
	found := 0
	for i := range calls {
		c := &calls[i]
		out := c.Out[0]
		switch {
		case slices.Contains(c.Out, rnn.In[0]): // batch_first
			before = append(before, *c)
			continue
		case rnn.Out[0] != program.NoValue && len(c.Args.Dims) == len(sequence) && c.In[0] == rnn.Out[0]: // likewise
			after = append(after, *c)
			continue
		case i > u.last && rnn.Out[0] == program.NoValue && slices.Equal(p.Values[out].Shape, sequence):
			rnn.Out[0] = out
			continue
		}
		for _, v := range c.Out {
			if reads[v] <= within[v] {
				continue
			}
			if found == kind.states || !slices.Equal(p.Values[v].Shape, states) {
				return nil
			}
			found++
			rnn.Out[found] = v
		}
	}
	if rnn.Out[0] == program.NoValue {
		rnn.Out[0] = p.Add(program.Value{DType: p.Values[u.inputs[0].Out[0]].DType, Shape: sequence})
	}
	weights := u.weights()
	rnn.In = append(rnn.In, weights...)
	p.Flat = append(p.Flat, weights)
	return append(append(before, rnn), after...)
}

// ownReads counts how often what calls make is read within them, and returns what they are given in the shape of
// states.
func ownReads(p *program.Program, calls []program.Call, x program.ValueID, states []int64) (map[program.ValueID]int32,
	[]program.ValueID) {
	within := map[program.ValueID]int32{}
	for i := range calls {
		for _, v := range calls[i].Out {
			within[v] += 0
		}
	}
	var given []program.ValueID
	for i := range calls {
		for _, v := range calls[i].In {
			if _, own := within[v]; own {
				within[v]++
			} else if s := &p.Values[v]; v != x && s.Kind != program.Number && slices.Equal(s.Shape, states) &&
				!slices.Contains(given, v) {
				given = append(given, v)
			}
		}
	}
	return within, given
}

// letGoOfZeros takes from a program's state the zeros that a module begins with when it is called, which optimizers
// compute once for all: torch.export names them after torch.zeros.
func letGoOfZeros(p *program.Program, calls []program.Call, reads []int32) {
	within := map[program.ValueID]int32{}
	for i := range calls {
		for _, v := range calls[i].In {
			if s := &p.Values[v]; s.Kind != program.Activation && strings.HasPrefix(s.Name, "zeros") {
				within[v]++
			}
		}
	}
	for v, n := range within {
		if n == reads[v] {
			p.Values[v].Kind = program.Number
		}
	}
	p.State = slices.DeleteFunc(p.State, func(v program.ValueID) bool { return p.Values[v].Kind == program.Number })
}
