package estimate

import (
	"flag"
	"testing"
)

// everyCase has each test take all of its cases, in some minutes of processor time. Without it go test ./... is through
// in ten minutes a package on two processors that other programs keep busy, too: CI asks for all.
var everyCase = flag.Bool("every", false, "all cases of the accuracy tables and of tests that take some in turn")

// inTurn reports whether a test takes a case: every eighth, or all of them.
func inTurn(i int) bool { return *everyCase || *writeFigures || i%8 == 0 }

// needsEveryCase skips a test whose figures are those of all cases, unless all are asked for.
func needsEveryCase(t *testing.T) {
	t.Helper()
	if !*everyCase && !*writeDoc && !*verbose {
		t.Skip("-every has it compare all cases")
	}
}
