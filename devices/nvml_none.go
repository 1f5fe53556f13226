//go:build !(linux && cgo)

package devices

// openLibrary says that this build cannot see GPUs.
func openLibrary(string) (library, error) {
	return nil, &InitError{Detail: "live GPUs need Linux with cgo, and this build of memestimate has neither or lacks one", cure: "build it on Linux with CGO_ENABLED=1 and a C compiler"}
}
