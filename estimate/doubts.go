package estimate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/caching"
	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/estimate/lifetime"
)

// doubts lists what else a run rests on.
func (b *Bound) doubts(s Step, sim *Simulation) (list []Guess, err error) {
	unknown := maps.Clone(sim.prog.Unknown)
	for _, u := range b.a.Types.Unknown { // of which not even the sizes are known
		if unknown == nil {
			unknown = map[string]int{}
		}
		unknown[u.Op] = max(unknown[u.Op], u.Nodes)
	}
	for _, op := range slices.Sorted(maps.Keys(unknown)) {
		list = append(list, Guess{Name: unmodelledOperator, Made: true, Places: unknown[op],
			Takes: fmt.Sprintf("operator %q taken for one that saves and needs nothing", op)})
	}
	if n := len(b.a.Types.Bounded); n > 0 {
		list = append(list, Guess{Name: dataDependentSize, Made: true, Places: n,
			Takes: "sizes that depend on data taken for the most that they can be"})
	}
	if b.a.Loops > 0 {
		list = append(list, Guess{Name: countedOnce, Made: true, Places: b.a.Loops,
			Takes: "the body of a loop taken for one that runs once"})
	}
	if !s.Infer && lossy(b.way, b.a.Model, sim.prog) {
		list = append(list, Guess{Name: lostInExport, Made: true, Places: len(sim.prog.Lost),
			Takes: "a graph that lost " + strings.Join(sim.prog.Lost, "; ") + " taken for the model that is trained"})
	}
	for _, doubt := range []func(Step, *Simulation) (Guess, bool, error){b.variables, b.criterion, b.convolutions} {
		g, ok, err := doubt(s, sim)
		if err != nil {
			return nil, err
		}
		if ok {
			g.Made, g.Weighed = true, true
			list = append(list, g)
		}
	}
	return list, nil
}

// between sets by how much the peak of what is allocated would be larger and smaller at two ends of a doubt.
func (g *Guess) between(sim *Simulation, peaks ...int64) {
	g.Bytes = max(slices.Max(peaks)-sim.Peak.Allocated, 0)
	g.Fewer = max(sim.Peak.Allocated-slices.Min(peaks), 0)
}

// variables is the doubt how long Python's variables keep what they name, in a run whose lines are unknown: from the
// most, where each result lives to the end of its function, to the least, where none has a name. In training that is
// what autograd does not keep anyway.
func (b *Bound) variables(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if sim.prog.Traced() || b.large() {
		return g, false, nil
	}
	rules := map[string]bool{}
	for _, r := range lifetime.Rules {
		rules[r.Name] = true
	}
	every := map[string]bool{lifetime.EveryVariable.Name: true}
	longest, err := b.again(nil, every, true).peakAllocated(s, sim, true)
	if err != nil {
		return g, false, err
	}
	shortest, err := b.again(rules, nil, true).peakAllocated(s, sim, true)
	if err != nil {
		return g, false, err
	}
	g = Guess{Name: variables, Places: len(sim.prog.Calls),
		Takes: "the common style of code taken for how long the program's variables keep what they name"}
	g.between(sim, longest, shortest)
	return g, true, nil
}

// criterion is the doubt which loss is trained, where nobody named it: from the mean of the output, which keeps
// nothing, to the one that keeps the most of those that a name stands for.
func (b *Bound) criterion(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || s.Loss != "" && s.Loss != "auto" || b.large() {
		return g, false, nil
	}
	var peaks []int64
	for _, s.Loss = range eager.LossEnds {
		if s.Loss == sim.Run.Loss {
			continue
		}
		// It fails where the output is not of a type for it.
		if peak, err := b.again(nil, nil, true).peakAllocated(s, sim, false); err == nil {
			peaks = append(peaks, peak)
		}
	}
	if len(peaks) == 0 {
		return g, false, nil
	}
	g = Guess{Name: criterion, Places: 1, Takes: fmt.Sprintf("%s taken for the loss, which the file does not say",
		sim.Run.Loss)}
	g.between(sim, peaks...)
	return g, true, nil
}

// convolutions is the doubt what cuDNN's engines take beside their results, where it chooses among several: from
// nothing to the most that any tree of the forests names for each.
func (b *Bound) convolutions(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	most := sim.Run.MostWorkspaces
	if len(most) == 0 {
		return g, false, nil
	}
	var peaks []int64
	for _, sizes := range [][]int64{most, make([]int64, len(most))} {
		r, err := caching.NewReplayer(caching.Config{Workspaces: sizes, Total: s.GPU.Memory}).Finish(sim.Run.Log)
		if err != nil {
			return g, false, nil
		}
		peaks = append(peaks, r.PeakAllocated.Allocated)
	}
	g = Guess{Name: convolutions, Places: len(most),
		Takes: "cuDNN's engines taken to be those that most measured convolutions of such shapes had"}
	g.between(sim, peaks...)
	return g, g.Bytes > 0 || g.Fewer > 0, nil
}
