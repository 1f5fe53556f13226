//go:build unix

package onnxload

import "syscall"

// openNonblock keeps the opening of a pipe that nobody writes to from hanging.
const openNonblock = syscall.O_NONBLOCK
