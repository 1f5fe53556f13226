package lifetime

import (
	"strconv"

	"github.com/memestimate/memestimate/estimate/aten"
)

// What modules keep beside what they return is not in a graph. These are other ends of how long values live, none of
// which is made by itself: see estimate's doubts.
var (
	// KeptWeights is attention that keeps its weights, as annotated-transformer's does: self.attn = p_attn.
	KeptWeights = &Rule{"kept-weights", "modules keep the weights of their attention: self.attn = attn", true}
	// KeptStates is a loop over blocks that puts what each returns in a list that the model returns, as those of
	// transformers do with output_hidden_states.
	KeptStates = &Rule{"kept-states", "what each block of a loop returns is in a list that the model returns", true}
)

// kept lets live on what these rules say.
func (l *lives) kept() {
	if l.p.With[KeptWeights.Name] {
		of := map[int32]int{} // by span: how many weights it has kept
		for _, v := range l.weights(0, int32(len(l.p.Calls))-1) {
			if k := l.spans.frame(l.made[v], l.owner[v]); k >= 0 {
				of[k]++
				l.attribute(int(k), "attn"+strconv.Itoa(of[k]), l.made[v], []aten.ValueID{v})
			}
		}
	}
	if l.p.With[KeptStates.Name] {
		for _, v := range l.states() {
			l.keep(v, int32(len(l.p.Calls))-1, KeptStates)
		}
	}
}

// fewestCalls is how many calls make a block: what is shorter is a layer of a Sequential, whose results no list can
// have.
const fewestCalls = 8

// states returns what the blocks of a loop return, of the loop in which these are the largest together.
func (l *lives) states() (heaviest []aten.ValueID) {
	most := int64(0)
	for k, steps := range l.steps {
		again := rounds(l.p, l.spans, steps)
		var states []aten.ValueID
		bytes := int64(0)
		for j, st := range steps {
			if again[j] == 0 || st.child < 0 || st.last-st.first < fewestCalls {
				continue
			}
			for i := st.first; i <= st.last; i++ {
				for _, v := range l.p.Calls[i].Out {
					if v != aten.NoValue && l.reads[v] > 0 && l.reader[v] > st.last && l.reader[v] <= l.spans.list[k].last {
						states = append(states, v)
						bytes += l.p.Values[v].Bytes()
					}
				}
			}
		}
		if bytes > most {
			heaviest, most = states, bytes
		}
	}
	return heaviest
}
