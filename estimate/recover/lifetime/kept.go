package lifetime

import (
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// What modules keep beside what they return is not in a graph. These are other ends of how long values live, none of
// which is made by itself: see estimate's doubts.
var (
	// KeptWeights is attention that keeps its weights, as annotated-transformer's does: self.attn = p_attn.
	KeptWeights = &Rule{"kept-weights", "modules keep the weights of their attention: self.attn = attn", true}
	// KeptStates is a loop over blocks that puts what each returns in a list that the model returns, as those of
	// transformers do with output_hidden_states.
	KeptStates = &Rule{"kept-states", "what each block of a loop returns is in a list that the model returns", true}
	// KeptParts is a module that keeps a part of what it takes apart, of which it takes parts again, as FocalNet's does:
	// q, ctx, self.gates = torch.split(x, ...). What it is a part of lives as long.
	KeptParts = &Rule{"kept-parts",
		"modules keep a part of what split takes apart, of which they take parts: q, x, self.gates = torch.split(y, ...)",
		true}
	// KeptScores is attention that returns what it was computed from beside its result, for a list that the model
	// returns: the Intermediates of x-transformers' Attend.
	KeptScores = &Rule{"kept-scores",
		"attention returns its scores, before and after softmax, in a list that the model returns", true}
)

// kept lets live on what these rules say.
func (l *lives) kept() {
	if l.p.With[KeptWeights.Name] {
		of := map[int32]int{} // by span: how many weights it has kept
		for _, v := range l.weights(0, int32(len(l.p.Calls))-1) {
			if k := l.spans.frame(l.made[v], l.owner[v]); k >= 0 {
				of[k]++
				l.attribute(int(k), "attn"+strconv.Itoa(of[k]), l.made[v], []program.ValueID{v})
			}
		}
	}
	if l.p.With[KeptParts.Name] {
		for _, v := range l.parts() {
			if k := l.spans.frame(l.made[v], l.owner[v]); k >= 0 {
				l.attribute(int(k), "part", l.made[v], []program.ValueID{v})
			}
		}
	}
	if l.p.With[KeptScores.Name] {
		for i := range l.p.Calls {
			for _, score := range l.scores(&l.p.Calls[i]) {
				l.keep(score, int32(len(l.p.Calls))-1, KeptScores)
			}
		}
	}
	if l.p.With[KeptStates.Name] {
		for _, v := range l.states() {
			l.keep(v, int32(len(l.p.Calls))-1, KeptStates)
		}
	}
}

// parts returns the parts of what split takes apart of which only parts are read, more than one.
func (l *lives) parts() (list []program.ValueID) {
	whole := map[program.ValueID]bool{} // it is read otherwise
	for i := range l.p.Calls {
		c := &l.p.Calls[i]
		for k, v := range c.In {
			if v != program.NoValue && (k > 0 || !program.Of(c.Op).Is(program.Picks) && !program.Of(c.Op).Is(program.Parts)) {
				whole[v] = true
			}
		}
	}
	for i := range l.p.Calls {
		c := &l.p.Calls[i]
		if c.Op != "split" || len(c.Out) < 3 || l.p.Scopes[c.Scope].Cut {
			continue
		}
		for _, v := range c.Out {
			if v != program.NoValue && !whole[v] && (l.reads[v] > 1 || l.reads[v] == 1 &&
				program.Of(l.p.Calls[l.reader[v]].Op).Is(program.Parts)) {
				list = append(list, v)
			}
		}
	}
	return list
}

// scores returns the weights of attention that a product reads and what they were computed from, back to the product of
// queries and keys: not its own result, which is scaled as a rule before it has a name.
func (l *lives) scores(c *program.Call) (list []program.ValueID) {
	if !program.Of(c.Op).Is(program.Product) {
		return nil
	}
	for _, v := range c.In {
		list = list[:0]
		softmax := false
		for v != program.NoValue && l.made[v] >= 0 {
			at := &l.p.Calls[l.made[v]]
			if program.Of(at.Op).Is(program.Product) && len(list) > 1 && softmax {
				return list
			}
			list, softmax = append(list, v), softmax || at.Op == "softmax"
			k := slices.IndexFunc(at.In, func(x program.ValueID) bool {
				return x != program.NoValue && l.made[x] >= 0 &&
					program.Numel(l.p.Values[x].Shape) == program.Numel(l.p.Values[v].Shape)
			})
			if k < 0 {
				break
			}
			v = at.In[k]
		}
	}
	return nil
}

// HasBesides reports whether a line binds two names or more to what a function returns that has attention: the first
// to what it computes, and another to something that the graph does not show.
func HasBesides(p *program.Program) bool {
	if p.Sources == nil {
		return false
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		if c.Op != "softmax" && !program.Of(c.Op).Is(program.Attention) || p.Sources.ReturnsAlone(c.Stack) {
			continue
		}
		for f := c.Stack; f > 0; f = p.Sources.Frames[f-1].Up {
			if besides(p.Sources.Lines[f-1]) {
				return true
			}
		}
	}
	return false
}

// fewestCalls is how many calls make a block: what is shorter is a layer of a Sequential, whose results no list can
// have.
const fewestCalls = 8

// states returns what the blocks of loops return: of the loop in which these are the largest together, or of all loops
// of modules beside whose result a line binds another name, x, outputs = block(x), if that is more. A U-Net whose
// stages have a loop each collects their lists.
func (l *lives) states() (heaviest []program.ValueID) {
	const beside = -1
	of, bytes, most := map[int][]program.ValueID{}, map[int]int64{}, int64(0)
	for k, steps := range l.steps {
		again, loop := rounds(l.p, l.spans, steps), k
		if l.traced && l.bindsBeside(k) {
			loop = beside
		}
		for j, st := range steps {
			if again[j] == 0 || st.child < 0 || st.last-st.first < fewestCalls {
				continue
			}
			for i := st.first; i <= st.last; i++ {
				for _, v := range l.p.Calls[i].Out {
					if v != program.NoValue && l.reads[v] > 0 && l.reader[v] > st.last && l.reader[v] <= l.spans.list[k].last {
						of[loop] = append(of[loop], v)
						bytes[loop] += l.p.Values[v].Bytes()
					}
				}
			}
		}
	}
	for k := beside; k < len(l.steps); k++ {
		if bytes[k] > most {
			heaviest, most = of[k], bytes[k]
		}
	}
	return heaviest
}

// bindsBeside reports whether the line that calls a span's module binds two names or more.
func (l *lives) bindsBeside(k int) bool {
	s := l.spans.list[k]
	if s.up < 0 {
		return false
	}
	f := l.frameOf(int(s.up), step{first: s.first, last: s.last})
	return f > 0 && besides(l.p.Sources.Lines[f-1])
}

// besides reports whether a line binds two names or more to what a call returns.
func besides(line *pysource.Line) bool {
	return slices.ContainsFunc(line.Statements, func(s pysource.Statement) bool {
		return s.Spread && len(s.Targets) > 1 && len(s.Sites) > 0
	})
}
