package estimate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/lifetime"
	"github.com/memestimate/memestimate/estimate/torch"
)

// keptWeights is the doubt whether modules keep the weights of their attention as attributes, which a graph does not
// say: they live until the next forward pass makes them anew. Where lines are known these say it.
func (b *Bound) keptWeights(s Step, sim *Simulation) (Guess, bool, error) {
	return b.untracedLivesLonger(s, sim, lifetime.KeptWeights,
		"the weights of attention taken to be let go, and not kept as an attribute: self.attn = attn")
}

// keptParts is the doubt whether modules keep as an attribute a part of what they take apart, of which they take parts
// again. Where lines are known these say it.
func (b *Bound) keptParts(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if !s.Infer || !slices.ContainsFunc(sim.prog.Calls, func(c program.Call) bool { return c.Op == "split" }) {
		return g, false, nil
	}
	return b.untracedLivesLonger(s, sim, lifetime.KeptParts,
		"a part of what split takes apart taken to be let go, and not kept as an attribute: q, self.gates = torch.split(x)")
}

// keptStates is the doubt whether a model returns what each of its blocks made, of which a graph has what was asked
// for alone. In training autograd keeps most of that anyway.
func (b *Bound) keptStates(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if !s.Infer || sim.prog.Traced() && !lifetime.HasBesides(sim.prog) {
		return g, false, nil
	}
	return b.livesLonger(s, sim, lifetime.KeptStates,
		"what each of a loop's blocks returns taken to be let go, and not kept in a list that the model returns")
}

// keptScores is the doubt whether attention returns what it was computed from, for a list. Where lines are known it is
// one where a name beside its result holds something: out, intermediates = self.attend(q, k, v).
func (b *Bound) keptScores(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if !slices.ContainsFunc(sim.prog.Calls, func(c program.Call) bool { return c.Op == "softmax" }) ||
		sim.prog.Traced() && !lifetime.HasBesides(sim.prog) {
		return g, false, nil
	}
	return b.livesLonger(s, sim, lifetime.KeptScores,
		"what attention's weights were computed from taken to be let go, and not returned in a list")
}

// untracedLivesLonger is livesLonger of a program whose lines are not known: else these say what lives.
func (b *Bound) untracedLivesLonger(s Step, sim *Simulation, r *lifetime.Rule, takes string) (g Guess, ok bool,
	err error) {
	if sim.prog.Traced() {
		return g, false, nil
	}
	return b.livesLonger(s, sim, r, takes)
}

// livesLonger weighs how much larger the peak is where values live as a rule says that is not made.
func (b *Bound) livesLonger(s Step, sim *Simulation, r *lifetime.Rule, takes string) (g Guess, ok bool, err error) {
	if b.large() {
		return g, false, nil
	}
	peak, err := b.again(nil, map[string]bool{r.Name: true}, true).peakAllocated(s, sim, true)
	if err != nil {
		return g, false, err
	}
	g = Guess{Name: r.Name, Places: 1, Takes: takes}
	g.between(sim, peak)
	return g, g.Bytes > 0, nil
}

// absentSiblings is the doubt whether modules of a row are on the GPU that the file lacks: classifiers.classifier10
// without the nine before it, or a ResNet without its last stage, see absentStages. Nothing in the graph reads what
// they compute, so that they are not exported; their parameters are there all the same, and have no gradients. Each of
// a row is taken to be as large as the one that is there.
func (b *Bound) absentSiblings(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	type row struct{ parent, stem string }
	bytes, member := map[row]int64{}, map[row]string{}
	for _, id := range sim.prog.Params {
		v := &sim.prog.Values[id]
		parts := strings.Split(v.Name, ".")
		for i := 1; i < len(parts)-1; i++ {
			stem := strings.TrimRight(parts[i], "0123456789")
			if stem == parts[i] || parts[i-1] != stem+"s" {
				continue
			}
			r := row{strings.Join(parts[:i], "."), stem}
			if m, seen := member[r]; seen && m != parts[i] {
				bytes[r] = -1
			} else if bytes[r] >= 0 {
				member[r] = parts[i]
				bytes[r] += v.Bytes()
			}
		}
	}
	byName := func(a, b row) int { return cmp.Or(cmp.Compare(a.parent, b.parent), cmp.Compare(a.stem, b.stem)) }
	for _, r := range slices.SortedFunc(maps.Keys(bytes), byName) {
		n := bytes[r]
		last, err := strconv.ParseInt(strings.TrimPrefix(member[r], r.stem), 10, 32)
		if n <= 0 || err != nil || last < 3 || n > sim.Peak.Allocated/last {
			continue
		}
		g.Places += int(last) - 1
		g.Bytes += n * (last - 1)
		if len(g.Layers) < someLayers {
			g.Layers = append(g.Layers, r.parent+"."+member[r])
		}
	}
	stages, n := absentStages(sim.prog)
	g.Places, g.Bytes = g.Places+len(stages), g.Bytes+n
	g.Layers = append(g.Layers, stages[:min(len(stages), someLayers-len(g.Layers))]...)
	g.Weighed = true
	g.Name = absentSiblings
	g.Takes = "what the file has of a row of numbered modules taken for all that is on the GPU: those before the only " +
		"one, or the last stage of a ResNet, would hold their parameters without being in the file"
	return g, g.Places > 0, nil
}

// zeroFactors is the doubt whether what prod multiplies has zeros: its backward then computes the products of all
// other factors, which takes several times as much.
func (b *Bound) zeroFactors(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || b.large() {
		return g, false, nil
	}
	for i := range sim.prog.Calls {
		if c := &sim.prog.Calls[i]; program.Of(c.Op).Is(program.AsksForZeros) && len(c.Args.Dims) == 1 {
			g.Places++
		}
	}
	if g.Places == 0 {
		return g, false, nil
	}
	peak, err := b.again(nil, map[string]bool{torch.ZeroFactors: true}, true).peakAllocated(s, sim, false)
	if err != nil {
		return g, false, err
	}
	g.Name = torch.ZeroFactors
	g.Takes = "what prod multiplies taken to have no zeros, which decides what its backward computes"
	g.between(sim, peak)
	return g, g.Bytes > 0, nil
}
