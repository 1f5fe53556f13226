//go:build !unix

package onnxload

const openNonblock = 0
