package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// A cellKind is a module of one step, nn.LSTMCell or nn.GRUCell: what exporters write of it, which is what it computes
// on a CPU, and the one kernel that it is on a GPU (LSTMCell and GRUCell of aten/src/ATen/native/RNN.cpp).
type cellKind struct {
	calls []string // of CellParams.linear_ih and linear_hh the order differs between the two
	gates int64
	// calls, by place: what ends with the new states, and what reads the old ones beside a product
	states []int
	reads  int
}

var cells = []cellKind{
	{strings.Fields("linear linear add split sigmoid sigmoid tanh sigmoid mul mul add tanh mul"), 4,
		[]int{12, 10}, 8},
	{strings.Fields("linear split linear split add sigmoid add sigmoid mul add tanh sub mul add"), 3,
		[]int{13}, 11},
}

// fuseCells rewrites the steps of nn.LSTMCell and nn.GRUCell as a GPU runs them: two products without their biases, and
// _thnn_fused_lstm_cell or _thnn_fused_gru_cell.
func fuseCells(p *program.Program) {
	var reads []int32
	var kept []program.Call // nil as long as nothing is fused
	for i := 0; i < len(p.Calls); i++ {
		c := &p.Calls[i]
		if cellWeight(p, c) != "" {
			if reads == nil {
				reads = timesRead(p)
			}
			if calls, n := fusedCell(p, i, reads); n > 0 {
				if kept == nil {
					kept = slices.Grow(slices.Clone(p.Calls[:i]), len(p.Calls)-i)
				}
				kept = append(kept, calls...)
				i += n - 1
				continue
			}
		}
		if kept != nil {
			kept = append(kept, *c)
		}
	}
	if kept != nil {
		p.Calls = kept
	}
}

// timesRead counts how often each value is read, as a result of the model too.
func timesRead(p *program.Program) []int32 {
	n := make([]int32, len(p.Values))
	for i := range p.Calls {
		for _, v := range p.Calls[i].In {
			n[v]++
		}
	}
	for _, v := range p.Outputs {
		n[v]++
	}
	return n
}

// cellWeight returns which module's weight_ih or weight_hh a product takes: so nn.RNNCellBase calls them, without the
// numbers that whole layers put behind.
func cellWeight(p *program.Program, c *program.Call) (module string) {
	if len(c.In) < 2 {
		return ""
	}
	w := &p.Values[c.In[1]]
	if w.Kind != program.Parameter || len(w.Shape) != 2 {
		return ""
	}
	if m, ok := strings.CutSuffix(w.Name, "weight_ih"); ok {
		return m + "."
	}
	if m, ok := strings.CutSuffix(w.Name, "weight_hh"); ok {
		return m + "."
	}
	return ""
}

// fusedCell returns the calls of the cell that begins with call i, and how many calls they replace; 0 where it is none.
func fusedCell(p *program.Program, i int, reads []int32) (calls []program.Call, n int) {
	for k := range cells {
		kind := &cells[k]
		at := matchCell(p, i, kind)
		if at == nil || !onlyStatesAreRead(p, at, kind, reads) {
			continue
		}
		n = at[len(at)-1] - i + 1
		for j := i; j < i+n; j++ { // the zeros that a state begins with
			if len(p.Calls[j].In) == 0 {
				calls = append(calls, p.Calls[j])
			}
		}
		var first, second *program.Call
		for _, j := range at {
			if c := &p.Calls[j]; cellWeight(p, c) == "" {
				continue
			} else if strings.HasSuffix(p.Values[c.In[1]].Name, "weight_ih") {
				first = c
			} else {
				second = c
			}
		}
		last := &p.Calls[at[len(at)-1]]
		fused := program.Call{Op: "gru_cell", Args: program.Plain, Layer: last.Layer, Scope: last.Scope, Origin: last.Origin,
			Stack: last.Stack}
		if len(kind.states) > 1 {
			fused.Op = "lstm_cell"
		}
		for _, c := range []*program.Call{first, second} {
			product := *c
			product.In, product.Args = slices.Clone(c.In[:2]), program.Plain
			gates := p.Values[c.Out[0]]
			product.Out = []program.ValueID{p.Add(program.Value{DType: gates.DType, Shape: gates.Shape})}
			calls, fused.In = append(calls, product), append(fused.In, product.Out[0])
		}
		fused.In = append(fused.In, oldState(p, at, kind, second))
		for _, c := range []*program.Call{first, second} {
			if len(c.In) > 2 && c.In[2] != program.NoValue {
				fused.In = append(fused.In, c.In[2])
			}
		}
		for _, j := range kind.states {
			fused.Out = append(fused.Out, p.Calls[at[j]].Out[0])
		}
		return append(calls, fused), n
	}
	return nil, 0
}

// matchCell returns where the calls of a cell are that begins with call i; nil where these are others.
func matchCell(p *program.Program, i int, kind *cellKind) (at []int) {
	module := cellWeight(p, &p.Calls[i])
	var weights []program.ValueID
	for j := i; j < len(p.Calls) && len(at) < len(kind.calls); j++ {
		c := &p.Calls[j]
		if len(c.In) == 0 { // zeros
			continue
		}
		if c.Op != kind.calls[len(at)] || c.Scope != p.Calls[i].Scope {
			return nil
		}
		if weight := cellWeight(p, c); weight != "" {
			if weight != module || slices.Contains(weights, c.In[1]) || len(p.Values[c.In[0]].Shape) != 2 {
				return nil
			}
			weights = append(weights, c.In[1])
		}
		if n := int64(len(c.Out)); n > 1 && n != kind.gates {
			return nil
		}
		at = append(at, j)
	}
	if len(at) < len(kind.calls) {
		return nil
	}
	return at
}

// onlyStatesAreRead reports whether nothing else reads what a cell computes on its way.
func onlyStatesAreRead(p *program.Program, at []int, kind *cellKind, reads []int32) bool {
	within := map[program.ValueID]int32{}
	for _, j := range at {
		for _, v := range p.Calls[j].In {
			within[v]++
		}
	}
	for k, j := range at {
		for _, v := range p.Calls[j].Out {
			if !slices.Contains(kind.states, k) && v != program.NoValue && reads[v] != within[v] {
				return false
			}
		}
	}
	return true
}

// oldState returns the state that the kernel reads: the cell's of an LSTM, the hidden one of a GRU.
func oldState(p *program.Program, at []int, kind *cellKind, hidden *program.Call) program.ValueID {
	if len(kind.states) == 1 {
		return hidden.In[0]
	}
	made := map[program.ValueID]bool{}
	for _, j := range at {
		for _, v := range p.Calls[j].Out {
			made[v] = true
		}
	}
	in := p.Calls[at[kind.reads]].In
	if made[in[0]] {
		return in[1]
	}
	return in[0]
}
