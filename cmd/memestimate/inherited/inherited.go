// Package inherited tells what the program was started with and Go's runtime replaces before any Go code runs:
// standard streams that were closed, as by the shell's >&-, in whose places it opens /dev/null, so that a result
// written there seems to have gone somewhere; and signals that were ignored, as by the shell's trap ” TERM, which it
// catches. Code in C runs before the runtime; builds without it do not know, and see no closed stream and no ignored
// signal.
package inherited

// Closed reports whether descriptor fd, 0 to 2, was closed when the program began.
func Closed(fd int) bool { return closedAtStart()>>fd&1 != 0 }

// Ignored reports whether the signal of that number, 1 to 31, was ignored when the program began.
func Ignored(signal int) bool { return signal > 0 && signal < 32 && ignoredAtStart()>>signal&1 != 0 }
