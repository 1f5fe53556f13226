package program

import (
	"fmt"
	"regexp/syntax"
)

// mostStates is how many states an expression may have: those that name a few hundred modules by their whole paths have
// as many. Matching takes a step for each state and character of each name, and a budget file may say the expression.
const mostStates = 1 << 13

// CheckPattern says whether an expression is a regular one that is matched in reasonable time.
func CheckPattern(expr string) error {
	if expr == "" { // as most are: every simulated step is checked
		return nil
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return err
	}
	if n := len(prog.Inst); n > mostStates {
		return fmt.Errorf("an expression of %d states, want %d at most", n, mostStates)
	}
	return nil
}
