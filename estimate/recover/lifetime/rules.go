package lifetime

import "github.com/memestimate/memestimate/estimate/program"

// A Rule is a guess about Python's variables, which a graph does not keep: how most code is written. Each can be
// switched off, by aten.Program.Without. What is certain is no rule: arguments live until the module that they were
// passed to returns, and where an export has the lines of its program these say what its variables are.
type Rule struct {
	Name     string
	Takes    string
	Unproven bool // fewer than two independent models bear it out: it is not made unless aten.Program.With has it
}

// Rules are all of them: see guess and variables for what they do.
var Rules = []*Rule{usedTwice, keptInList, nextTurn, numbered, factor, unpacked, projected, joinedList, nestedCall,
	preactivated, decoderSkip, embedded, summedFirst, resizedTurns, weightsBeside}

var (
	usedTwice = &Rule{"used-twice",
		"what is used twice is a variable of the function that made it, and lives to its end", false}
	keptInList = &Rule{"kept-in-list",
		"what a loop made and another module reads is in a list, and lives as long as that", true}
	nextTurn  = &Rule{"next-turn", "a variable of a loop over modules is assigned again by the next turn", false}
	numbered  = &Rule{"numbered-modules", "modules whose names differ by numbers alone are those of one loop", false}
	factor    = &Rule{"factor", "what multiplies another activation has a name: attn @ v", false}
	unpacked  = &Rule{"unpacked", "what is taken out of a tuple has a name: q, k, v = qkv.unbind(0)", false}
	projected = &Rule{"projected",
		"the argument of a projection that is unpacked lives until attention assigns it again", false}
	joinedList = &Rule{"joined-list", "the parts that cat joins are in a list", false}
	nestedCall = &Rule{"nested-call",
		"a function around a module's call is part of one expression: x = F.relu(self.conv(x))", false}
	preactivated = &Rule{"preactivated", "norms and activations before a convolution are part of one expression", false}
	embedded     = &Rule{"embedded",
		"what an embedding makes is a variable of the function that calls it: inputs_embeds = self.embed_tokens(ids)", false}
	summedFirst = &Rule{"summed-first",
		"the first operand of a sum that a norm takes is a variable, and the second is another: y = norm(y + x)", false}
	resizedTurns = &Rule{"resized-turns",
		"a loop whose turns change a tensor's size gives its name to the next: b = x * b[..., :-1] + y * b[..., 1:]", false}
	weightsBeside = &Rule{"weights-beside",
		"the second of two names that a line binds has the weights of attention: x, attn = attention(q, k, v)", false}
	decoderSkip = &Rule{"decoder-skip",
		"what a decoder makes larger and joins lives until the module that takes both has run", false}
)

// EveryVariable is the other end of all rules together: what they are worth at most. It is never made by itself.
var EveryVariable = &Rule{"every-variable",
	"each result is a variable of the function that made it, and lives to its end", true}

// takes reports whether a rule is on.
func (l *lives) takes(r *Rule) bool {
	return !l.p.Without[r.Name] && (!r.Unproven || l.p.With[r.Name])
}

// A choice is a guess about how long a value lives.
type choice struct {
	rule  *Rule
	value program.ValueID
	end   int32 // the call that it lives to by the guess
}

// keep lets a value live until a call, by a rule. An unproven rule is only written down.
func (l *lives) keep(v program.ValueID, end int32, r *Rule) {
	if l.last[v] >= end || l.p.Without[r.Name] {
		return
	}
	c := choice{r, v, end}
	if !l.takes(r) {
		l.passed = append(l.passed, c)
		return
	}
	l.chosen = append(l.chosen, c)
	l.last[v] = end
}

// guesses are the choices that still stand where lines of the program settled others.
func (l *lives) guesses(all []choice) (stand []program.Guess) {
	for _, c := range all {
		if l.rank != nil && c.rule != weightsBeside { // lines were followed, and this one is about what they bind
			limit, open := l.open[c.value]
			if !open || !l.takes(c.rule) && min(c.end, limit) <= l.last[c.value] {
				continue
			}
		}
		stand = append(stand, program.Guess{Row: c.rule.Name, Origin: l.p.Calls[l.made[c.value]].Origin})
	}
	return stand
}
