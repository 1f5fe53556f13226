package estimate

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// frozenFrequencies is the doubt whether frequencies train: parameters of which nothing but angles are computed, whose
// sines and cosines the model reads. Rotary embeddings and Fourier features have theirs as
// nn.Parameter(..., requires_grad=False) as a rule, which no export says; where they train, what they turn is kept.
func (b *Bound) frozenFrequencies(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || s.TrainOnly != "" || s.Freeze != "" || s.LoRA != "" || b.large() {
		return g, false, nil
	}
	g = Guess{Name: frozenAngles,
		Takes: "frequencies, of which angles alone are computed, taken to train as well, which --freeze decides"}
	ids := frequencies(sim.prog)
	for _, id := range ids[:min(len(ids), someLayers)] {
		g.Layers = append(g.Layers, sim.prog.Values[id].Name)
	}
	return b.run(g, s, sim, freezeFrequencies)
}

// freezeFrequencies is a program whose frequencies do not train, and how many they are: none where nothing else does.
func freezeFrequencies(p *program.Program) (*program.Program, int) {
	ids := frequencies(p)
	if len(ids) == 0 || len(ids) == len(p.Params) {
		return p, 0
	}
	frozen := *p
	frozen.Values = slices.Clone(p.Values)
	for _, id := range ids {
		frozen.Values[id].Frozen = true
	}
	return &frozen, len(ids)
}

// mostFrequencies is of how many parameters an angle may be computed: of time and places, each by its own.
const mostFrequencies = 8

// frequencies returns the rows of parameters that are read, by products and as other views, as angles alone: by their
// sine and their cosine.
func frequencies(p *program.Program) (list []program.ValueID) {
	of := map[program.ValueID][]program.ValueID{} // by value: the parameters that its angles are of
	for _, id := range p.Params {
		if v := &p.Values[id]; len(v.Shape) == 1 && !v.Frozen {
			of[id] = []program.ValueID{id}
		}
	}
	turns := map[program.ValueID]int{} // by angle: how many of the two are read of it
	both, besides := map[program.ValueID]bool{}, map[program.ValueID]bool{}
	for i := range p.Calls {
		c := &p.Calls[i]
		var from []program.ValueID
		for _, v := range c.In {
			from = append(from, of[v]...)
		}
		if len(from) == 0 {
			continue
		}
		slices.Sort(from)
		from = slices.Compact(from)
		is := program.Of(c.Op)
		if is.Is(program.Periodic) {
			turns[c.In[0]]++
			for _, id := range from {
				both[id] = both[id] || turns[c.In[0]] > 1
			}
			continue
		}
		passes := is.Is(program.Product|program.Same|program.Joins|program.Picks|program.Spreads) ||
			is.Is(program.Pointwise) && len(c.In) == 2
		if !passes || len(from) > mostFrequencies {
			for _, id := range from {
				besides[id] = true
			}
			continue
		}
		for _, v := range c.Out {
			if v != program.NoValue {
				of[v] = from
			}
		}
	}
	for _, v := range p.Outputs {
		for _, id := range of[v] {
			besides[id] = true
		}
	}
	for _, id := range p.Params {
		if both[id] && !besides[id] {
			list = append(list, id)
		}
	}
	return list
}
