package program

import (
	"slices"
)

// Whole stands for no module at all: the model is sharded as one.
const Whole = "none"

// groups says which parameters fully_shard keeps together: those that only the calls of one wrapped module read, and
// all others, which are the model's.
func (p Plan) groups(prog *Program) ([]Group, error) {
	marked := make([]bool, len(prog.Scopes))
	switch p.Shard {
	case Whole:
	case "", Blocks:
		if marked = Repeated(prog); p.Shard == Blocks && !slices.Contains(marked, true) {
			return nil, noMatch("shard: the graph shows no blocks that repeat: name the modules by a regular expression")
		}
	default:
		var err error
		if marked, err = wrapped(prog, "shard", p.Shard); err != nil {
			return nil, err
		}
	}
	of := map[int32]int{} // by scope
	var groups []Group
	for _, span := range spansOf(prog, marked) {
		s := within(prog, prog.Calls[span.First].Scope, marked)
		k, ok := of[s]
		if !ok {
			k = len(groups)
			of[s] = k
			groups = append(groups, Group{})
		}
		groups[k].Spans = append(groups[k].Spans, span)
	}
	root := len(groups)
	groups = append(groups, Group{})
	reader := make([]int, len(prog.Values)) // one more than the group
	at := make([]int, len(prog.Calls))
	for i := range at {
		at[i] = root
	}
	for k, g := range groups {
		for _, span := range g.Spans {
			for i := span.First; i <= span.Last; i++ {
				at[i] = k
			}
		}
	}
	for i := range prog.Calls {
		for _, v := range prog.Calls[i].In {
			if v == NoValue || prog.Values[v].Kind != Parameter {
				continue
			}
			if reader[v] == 0 {
				reader[v] = at[i] + 1
			} else if reader[v] != at[i]+1 {
				reader[v] = root + 1
			}
		}
	}
	for _, v := range prog.Params {
		k := root
		if reader[v] > 0 {
			k = reader[v] - 1
		}
		groups[k].Params = append(groups[k].Params, v)
	}
	return groups, nil
}
