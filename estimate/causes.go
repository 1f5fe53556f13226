package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/caching"
)

// The causes why an estimate may be off, apart from guesses. --loss decides the criterion and --train-only the adapters;
// no flag decides the others.
const (
	unmodelledOperator = "unmodelled-operator"
	dataDependentSize  = "data-dependent-size"
	variables          = "variables"
	convolutions       = "convolution-workspace"
	criterion          = "criterion"
	adapters           = "adapters"
)

// causes lists the causes that a run may be off by. Those with two ends are weighed by runs of their own, which are
// made at the same time as what weigh does.
func (b *Model) causes(s Step, sim *Simulation, weigh ...func() error) (list []Guess, err error) {
	list = b.unmodelled(sim)
	causes := []func(Step, *Simulation) (Guess, bool, error){b.variables, b.criterion, b.convolutions, b.dataDependent,
		b.adapters}
	weighed := make([]*Guess, len(causes))
	all := slices.Clip(weigh)
	for i, cause := range causes {
		all = append(all, func() error {
			g, ok, err := cause(s, sim)
			if ok {
				g.Made = true
				weighed[i] = &g
			}
			return err
		})
	}
	errs := make([]error, len(all))
	b.each(len(all), func(i int) { errs[i] = all[i]() })
	for _, g := range weighed {
		if g != nil {
			list = append(list, *g)
		}
	}
	return list, cmp.Or(errs...)
}

// unmodelled lists operators that have no row: what they save and need is not known, or not even what they make.
func (b *Model) unmodelled(sim *Simulation) (list []Guess) {
	unknown := map[string]int{}
	maps.Copy(unknown, sim.prog.Unknown)
	for _, u := range b.analysis.Types.Unknown {
		unknown[u.Op] = max(unknown[u.Op], u.Nodes)
	}
	for _, op := range slices.Sorted(maps.Keys(unknown)) {
		list = append(list, Guess{Name: unmodelledOperator, Made: true, Places: unknown[op],
			Takes: fmt.Sprintf("operator %q taken for one that saves and needs nothing", op)})
	}
	return list
}

// between sets by how much the peak of what is allocated would be larger and smaller at the ends of a cause.
func (g *Guess) between(sim *Simulation, peaks ...int64) {
	g.Weighed = true
	g.Bytes = max(slices.Max(peaks)-sim.Peak.Allocated, 0)
	g.Fewer = max(sim.Peak.Allocated-slices.Min(peaks), 0)
}

// variables weighs how long Python's variables keep what they name: from the most, where each result lives to the
// end of its function, to the least, where none has a name. In training that is what autograd does not keep anyway.
// Where lines are known it is about what these leave open: what functions other than forward hold, for the most part.
func (b *Model) variables(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if b.large() {
		return g, false, nil
	}
	rules := map[string]bool{}
	for _, r := range program.VariableGuesses {
		rules[r.Name] = true
	}
	longest, err := b.again(nil, true, true).peakAllocated(s, sim, true)
	if err != nil {
		return g, false, err
	}
	shortest, err := b.again(rules, false, true).peakAllocated(s, sim, true)
	if err != nil {
		return g, false, err
	}
	g = Guess{Name: variables, Places: len(sim.prog.Calls),
		Takes: "the common style of code taken for how long the program's variables keep what they name"}
	g.between(sim, longest, shortest)
	if sim.prog.Traced() {
		g.Takes = "the common style of code taken for how long what the program's lines do not name is kept"
		return g, g.Fewer > 0 || g.Bytes > 0, nil
	}
	return g, true, nil
}

// criterion weighs which loss is trained, where nobody named it: from the mean of the output, which keeps
// nothing, to the one that keeps the most of those that a name stands for.
func (b *Model) criterion(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || s.Loss != "" && s.Loss != "auto" || b.large() {
		return g, false, nil
	}
	var peaks []int64
	for _, s.Loss = range torch.LossEnds {
		if s.Loss == sim.Run.Loss {
			continue
		}
		// It fails where the output is not of a type for it.
		if peak, err := b.peakAllocated(s, sim, false); err == nil {
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

// convolutions weighs what cuDNN's engines take in addition to their results, where it chooses among several: from
// nothing to the most that any tree of the forests names for each.
func (b *Model) convolutions(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	largest := sim.Run.MostWorkspaces
	if len(largest) == 0 {
		return g, false, nil
	}
	var peaks []int64
	for _, sizes := range [][]int64{largest, make([]int64, len(largest))} {
		peak, err := caching.PeakAllocated(sim.Run.Log, caching.Options{}, sizes)
		if err != nil {
			return g, false, nil
		}
		peaks = append(peaks, peak)
	}
	g = Guess{Name: convolutions, Places: len(largest),
		Takes: "cuDNN's engines taken to be those that most measured convolutions of such shapes had"}
	g.between(sim, peaks...)
	return g, g.Bytes > 0 || g.Fewer > 0, nil
}

// dataDependent weighs how large sizes are that depend on data, from one to the most that they can be. The body of a
// loop is counted once, however often it runs.
func (b *Model) dataDependent(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	n := b.analysis.Types.Bounded + b.analysis.Loops
	for i := range sim.prog.Calls {
		if sim.prog.Calls[i].Args.Packed > 0 {
			n++
		}
	}
	if n == 0 {
		return g, false, nil
	}
	g = Guess{Name: dataDependentSize, Places: n,
		Takes: "sizes that depend on data, packed sequences among them, taken for the most that they can be, and loops " +
			"for one turn"}
	other := b.again(nil, false, false)
	other.fewest = true
	// It fails where one is not a size that goes with what else is there: then the list has it without a weight.
	if peak, err := other.peakAllocated(s, sim, false); err == nil {
		g.between(sim, peak)
	}
	return g, true, nil
}

// adapterNames match the parameters of adapters, with which the model's own are frozen as a rule: loralib's
// and peft's lora_A, peft's lora_embedding_A and lora_magnitude_vector, adapter modules.
var adapterNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[._])lora(_|\.|$)|(^|\.)adapter`)
})

// adapters weighs whether a model that has adapters trains its other parameters too.
func (b *Model) adapters(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || s.TrainOnly != "" || s.Freeze != "" || s.LoRA != "" {
		return g, false, nil
	}
	for _, id := range sim.prog.Params {
		if v := &sim.prog.Values[id]; !v.Frozen && adapterNames().MatchString(v.Name) {
			g.Places++
		}
	}
	if g.Places == 0 || g.Places == len(sim.prog.Params) {
		return g, false, nil
	}
	s.TrainOnly = adapterNames().String()
	peak, err := b.peakAllocated(s, sim, false)
	if err != nil {
		return g, false, err
	}
	g.Name, g.Takes = adapters, "what is no adapter taken to train as well, which --train-only decides"
	g.between(sim, peak)
	return g, true, nil
}
