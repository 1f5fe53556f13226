package estimate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
)

// droppedBranch is the doubt whether the last of a row of modules computes more than the file says: what nothing reads
// is not exported, and yet autograd keeps what it saved. Where the last module lacks submodules that all others have,
// it is taken to have had them: their parameters, and what the same ones of the module before save.
func (b *Bound) droppedBranch(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	p := sim.prog
	children := map[string][]string{}
	known := map[[2]string]bool{}
	for i := range p.Calls {
		for at := p.Calls[i].Scope; at >= 0; at = p.Scopes[at].Parent {
			name, parent := p.Scopes[at].Name, p.Scopes[at].Parent
			if parent < 0 {
				continue
			}
			if of := p.Scopes[parent].Name; !known[[2]string{of, name}] {
				known[[2]string{of, name}] = true
				children[of] = append(children[of], name)
			}
		}
	}
	for name := range children {
		before, missing := lacks(name, children)
		if len(missing) == 0 {
			continue
		}
		g.Places++
		g.Layers = append(g.Layers, name)
		parameters, saved := branchBytes(sim, before, missing)
		if s.Precision == torch.BF16 || s.Precision == torch.FP16 {
			parameters /= 2
		}
		if g.Bytes += parameters; !s.Infer {
			g.Bytes += saved
			if s.Autocast() { // which keeps a copy of each weight
				g.Bytes += parameters / 2
			}
		}
	}
	slices.Sort(g.Layers)
	g.Weighed = true
	g.Name, g.Takes = lostBranch, "what the last of a row of modules lacks, taken for what it does not compute"
	return g, g.Places > 0, nil
}

// fewestLacking is how many submodules make a branch: one alone is more likely to be missing by design, as the last
// stage of a Swin Transformer has no downsampling.
const fewestLacking = 2

// lacks returns the submodules that a module lacks, by the ends of their names, and the module before it. It is the
// last of at least three in a row, of which all others have the same.
func lacks(name string, children map[string][]string) (before string, missing []string) {
	stem := strings.TrimRight(name, "0123456789")
	last, err := strconv.Atoi(strings.TrimPrefix(name, stem))
	if err != nil || last < 2 || children[stem+strconv.Itoa(last+1)] != nil {
		return "", nil
	}
	ends := func(name string) (list []string) {
		for _, c := range children[name] {
			list = append(list, strings.TrimPrefix(c, name+"."))
		}
		slices.Sort(list)
		return list
	}
	before = stem + strconv.Itoa(last-1)
	mine, others := ends(name), ends(before)
	if len(mine) == 0 {
		return "", nil
	}
	for i := range last - 1 {
		if !slices.Equal(ends(stem+strconv.Itoa(i)), others) {
			return "", nil
		}
	}
	for _, c := range others {
		if !slices.Contains(mine, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) < fewestLacking || len(missing)+len(mine) != len(others) {
		return "", nil
	}
	return before, missing
}

// branchBytes is what some submodules of a module hold: their parameters, in float32, and what autograd saves.
func branchBytes(sim *Simulation, module string, submodules []string) (parameters, saved int64) {
	p := sim.prog
	seen := map[program.ValueID]bool{}
	origins := map[int32]bool{}
	for i := range p.Calls {
		c := &p.Calls[i]
		if c.Scope < 0 {
			continue
		}
		rest, ok := strings.CutPrefix(p.Scopes[c.Scope].Name, module+".")
		if first, _, _ := strings.Cut(rest, "."); !ok || !slices.Contains(submodules, first) {
			continue
		}
		origins[c.Origin] = true
		for _, v := range c.In {
			if p.Values[v].Kind == program.Parameter && !seen[v] {
				seen[v] = true
				parameters += p.Values[v].Bytes()
			}
		}
	}
	for o := range origins {
		if o >= 0 && int(o) < len(sim.Run.SavedBy) {
			saved += sim.Run.SavedBy[o]
		}
	}
	return parameters, saved
}
