//go:build !linux

package devices

import (
	"context"
	"errors"
)

var errLinux = errors.New("holding GPUs needs Linux")

// A State is the directory in which the launchers of a host know of each other. It needs Linux.
type State struct{}

// OpenState returns an error: holding GPUs needs Linux.
func OpenState(string) (*State, error) { return nil, errLinux }

// Dir returns "".
func (*State) Dir() string { return "" }

// Owner returns "".
func (*State) Owner() string { return "" }

// Free returns an error: holding GPUs needs Linux.
func (*State) Free(string) ([]int, error) { return nil, errLinux }

// Attach returns an error: holding GPUs needs Linux.
func (*State) Attach([]Device) error { return errLinux }

// Hold returns an error: holding GPUs needs Linux.
func (*State) Hold(context.Context, func() ([]Device, error), HoldRequest) (*Hold, error) {
	return nil, errLinux
}

// A Hold is a reservation of this process. It needs Linux.
type Hold struct {
	ID      string
	Devices []Device
	Bytes   uint64
}

// Inherit returns an error: holding GPUs needs Linux.
func (*Hold) Inherit() error { return errLinux }

// Release does nothing.
func (*Hold) Release() {}
