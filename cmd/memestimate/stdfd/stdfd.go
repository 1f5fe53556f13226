// Package stdfd tells which of the standard streams were closed when the program began, as by the shell's >&-. Go's runtime opens
// /dev/null in their places before any Go code runs, so that a result written there seems to have gone somewhere. Code in C runs before
// the runtime; builds without it do not know, and see no closed stream.
package stdfd

// Closed reports whether descriptor fd, 0 to 2, was closed when the program began.
func Closed(fd int) bool { return closedAtStart()>>fd&1 != 0 }
