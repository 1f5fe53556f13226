//go:build !cgo || !unix

package inherited

// Known says whether this build can tell.
const Known = false

func closedAtStart() int { return 0 }

func ignoredAtStart() uint64 { return 0 }
