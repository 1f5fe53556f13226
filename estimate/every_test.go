package estimate

import "flag"

// everyCase has each test take all of its cases, which CI asks for: go test ./... takes some of them.
var everyCase = flag.Bool("every", false, "all cases of tests that take some in turn")

// inTurn reports whether a test takes a case: every eighth, or all of them.
func inTurn(i int) bool { return *everyCase || i%8 == 0 }
