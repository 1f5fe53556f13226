package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/recover/lifetime"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/caching"
)

// doubts lists what else a run rests on, each weighed by runs of its own. The functions beside are called at the same
// time as these.
func (b *Bound) doubts(s Step, sim *Simulation, beside ...func() error) (list []Guess, err error) {
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
	if b.a.Loops > 0 {
		list = append(list, Guess{Name: countedOnce, Made: true, Places: b.a.Loops,
			Takes: "the body of a loop taken for one that runs once"})
	}
	doubts := []func(Step, *Simulation) (Guess, bool, error){b.variables, b.overwritten, b.contiguous,
		b.criterion, b.convolutions, b.dataDependent, b.frozen, b.droppedBranch, b.frozenBackbone, b.sparseGradients,
		b.ownFunctions, b.keptWeights, b.keptParts, b.keptScores, b.keptStates, b.absentSiblings, b.zeroFactors,
		b.checkpoints, b.sparseInputs, b.frozenFrequencies, b.lost}
	weighed := make([]*Guess, len(doubts))
	all := slices.Clip(beside)
	for i, doubt := range doubts {
		all = append(all, func() error {
			g, ok, err := doubt(s, sim)
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

// between sets by how much the peak of what is allocated would be larger and smaller at two ends of a doubt.
func (g *Guess) between(sim *Simulation, peaks ...int64) {
	g.Weighed = true
	g.Bytes = max(slices.Max(peaks)-sim.Peak.Allocated, 0)
	g.Fewer = max(sim.Peak.Allocated-slices.Min(peaks), 0)
}

// variables is the doubt how long Python's variables keep what they name: from the most, where each result lives to the
// end of its function, to the least, where none has a name. In training that is what autograd does not keep anyway.
// Where lines are known it is about what these leave open: what functions other than forward hold, for the most part.
func (b *Bound) variables(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if b.large() {
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
	if sim.prog.Traced() {
		g.Takes = "the common style of code taken for how long what the program's lines do not name is kept"
		return g, g.Fewer > 0 || g.Bytes > 0, nil
	}
	return g, true, nil
}

// criterion is the doubt which loss is trained, where nobody named it: from the mean of the output, which keeps
// nothing, to the one that keeps the most of those that a name stands for.
func (b *Bound) criterion(s Step, sim *Simulation) (g Guess, ok bool, err error) {
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

// convolutions is the doubt what cuDNN's engines take beside their results, where it chooses among several: from
// nothing to the most that any tree of the forests names for each.
func (b *Bound) convolutions(s Step, sim *Simulation) (g Guess, ok bool, err error) {
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

// overwritten is the doubt what else works in place: each activation and each sum that is not taken to, where PyTorch
// lets it.
func (b *Bound) overwritten(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	g = Guess{Name: inPlace,
		Takes: "activations and sums taken to make new tensors that could write over what they read"}
	return b.altered(g, s, sim, func(p *program.Program) (*program.Program, int) {
		return recover.InPlaceWherePossible(p, !s.Infer)
	})
}

// contiguous is the doubt whether sequences that are turned are copied before a recurrent layer reads them.
func (b *Bound) contiguous(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	g = Guess{Name: contiguousCopy,
		Takes: "a turned sequence given to a recurrent layer taken for one that contiguous() did not copy"}
	return b.altered(g, s, sim, recover.ContiguousSequences)
}

// lost is the doubt what a file lost that was not exported for training: of that dropout weighs the most, which keeps
// its result and a mask of each. Where the file says where dropout was, that is a guess of its own.
func (b *Bound) lost(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || !lossy(b.way, b.a.Model, sim.prog) {
		return g, false, nil
	}
	g = Guess{Name: lostInExport,
		Takes: "a graph that lost " + strings.Join(sim.prog.Lost, "; ") + " taken for the model that is trained"}
	if !sim.prog.Restored {
		g, _, err = b.run(g, s, sim, recover.WithDropout)
	}
	g.Places = len(sim.prog.Lost)
	return g, err == nil, err
}

// altered weighs a doubt by running the program as alter has it, which also says in how many places. It is no doubt
// where lines are known.
func (b *Bound) altered(g Guess, s Step, sim *Simulation, alter func(*program.Program) (*program.Program, int)) (Guess,
	bool, error) {
	if sim.prog.Traced() {
		return g, false, nil
	}
	return b.run(g, s, sim, alter)
}

// run weighs a doubt likewise, whatever is known of lines.
func (b *Bound) run(g Guess, s Step, sim *Simulation, alter func(*program.Program) (*program.Program, int)) (Guess, bool,
	error) {
	if b.large() {
		return g, false, nil
	}
	other := b.again(nil, nil, true)
	for k, p := range other.prog {
		if p != nil {
			var places int
			other.prog[k], places = alter(p)
			g.Places = max(g.Places, places)
		}
	}
	if g.Places == 0 {
		return g, false, nil
	}
	peak, err := other.peakAllocated(s, sim, false)
	if err != nil {
		return g, false, err
	}
	g.between(sim, peak)
	return g, g.Fewer > 0 || g.Bytes > 0, nil
}

// dataDependent is the doubt how large sizes are that depend on data: from one to the most that they can be.
func (b *Bound) dataDependent(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	n := len(b.a.Types.Bounded)
	for i := range sim.prog.Calls {
		if sim.prog.Calls[i].Args.Packed > 0 {
			n++
		}
	}
	if n == 0 {
		return g, false, nil
	}
	g = Guess{Name: dataDependentSize, Places: n,
		Takes: "sizes that depend on data, packed sequences among them, taken for the most that they can be"}
	other := b.again(nil, nil, false)
	other.fewest = true
	// It fails where one is not a size that goes with what else is there: then the list has it without a weight.
	if peak, err := other.peakAllocated(s, sim, false); err == nil {
		g.between(sim, peak)
	}
	return g, true, nil
}

// adapterNames are how libraries call the parameters of adapters, beside which the model's own are frozen: loralib's
// and peft's lora_A, peft's lora_embedding_A and lora_magnitude_vector, adapter modules.
var adapterNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[._])lora(_|\.|$)|(^|\.)adapter`)
})

// frozen is the doubt whether a model with adapters trains what is not one.
func (b *Bound) frozen(s Step, sim *Simulation) (g Guess, ok bool, err error) {
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
	g.Name, g.Takes = frozenBeside, "what is no adapter taken to train as well, which --train-only decides"
	g.between(sim, peak)
	return g, true, nil
}
