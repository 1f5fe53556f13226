package lifetime

import "github.com/memestimate/memestimate/estimate/aten"

// A Rule is a guess about Python's variables, which a graph does not keep: how most code is written. Each can be switched off, by
// aten.Program.Without. What is certain is no rule: arguments live until the module that they were passed to returns, and where
// an export has the lines of its program these say what its variables are.
type Rule struct {
	Name     string
	Takes    string
	Unproven bool // fewer than two independent models bear it out: it is not made unless aten.Program.Unproven
}

// Rules are all of them: see guess and variables for what they do.
var Rules = []*Rule{usedTwice, keptInList, nextTurn, numbered, factor, unpacked, projected, joinedList, nestedCall, preactivated, decoderSkip}

var (
	usedTwice    = &Rule{"used-twice", "what is used twice is a variable of the function that made it, and lives to its end", false}
	keptInList   = &Rule{"kept-in-list", "what a loop made and another module reads is in a list, and lives as long as that", true}
	nextTurn     = &Rule{"next-turn", "a variable of a loop over modules is assigned again by the next turn", false}
	numbered     = &Rule{"numbered-modules", "modules whose names differ by numbers alone are those of one loop", false}
	factor       = &Rule{"factor", "what multiplies another activation has a name: attn @ v", false}
	unpacked     = &Rule{"unpacked", "what is taken out of a tuple has a name: q, k, v = qkv.unbind(0)", false}
	projected    = &Rule{"projected", "the argument of a projection that is unpacked lives until attention assigns it again", false}
	joinedList   = &Rule{"joined-list", "the parts that cat joins are in a list", false}
	nestedCall   = &Rule{"nested-call", "a function around a module's call is part of one expression: x = F.relu(self.conv(x))", false}
	preactivated = &Rule{"preactivated", "norms and activations before a convolution are part of one expression", false}
	decoderSkip  = &Rule{"decoder-skip", "what a decoder makes larger and joins lives until the module that takes both has run", true}
)

// takes reports whether a rule is on.
func (l *lives) takes(r *Rule) bool { return !l.p.Without[r.Name] && (!r.Unproven || l.p.Unproven) }

// chose writes down that a rule lets the result of a call live on.
func (l *lives) chose(r *Rule, call int32) {
	l.guesses = append(l.guesses, aten.Guess{Row: r.Name, Origin: l.p.Calls[call].Origin})
}
