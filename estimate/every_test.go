package estimate

import (
	"flag"
	"os"
)

// everyCase has each test take all of its cases, which the nightly workflow asks for by MEMESTIMATE_TESTS=every: CI and
// go test ./... take some of them.
var everyCase = flag.Bool("every", os.Getenv("MEMESTIMATE_TESTS") == "every", "all cases of tests that take some in turn")

// inTurn reports whether a test takes a case: every eighth, or all of them.
func inTurn(i int) bool { return *everyCase || i%8 == 0 }
