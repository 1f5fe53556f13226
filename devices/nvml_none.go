//go:build !(linux && cgo)

package devices

import "runtime"

// openLibrary says that this build cannot see GPUs.
func openLibrary(string) (library, error) {
	why, cure := "this build is for "+runtime.GOOS+"/"+runtime.GOARCH, "everything that asks no live GPU works here"
	if runtime.GOOS == "linux" {
		why, cure = "this build has no cgo", "build it with CGO_ENABLED=1 and a C compiler"
	}
	return nil, &InitError{Detail: "live GPUs need Linux with cgo, and " + why, cure: cure}
}
