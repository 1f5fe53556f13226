package devices

import (
	"strings"
	"time"
)

// A HoldRequest says what to hold, and what to do when it cannot be had.
type HoldRequest struct {
	Request
	Command string // the program's base name, for people

	Wait    bool          // queue until the devices are there
	Timeout time.Duration // how long; 0: for ever
	Status  func(Waiting) // called when waiting begins and now and then; may be nil

	user string
}

// A Waiting tells how a wait goes.
type Waiting struct {
	Since  time.Duration // how long it has lasted
	Ahead  int           // waiters in front in the queue
	Reason error         // why not now: a *NoFit, or nil while others are in front
}

// A WaitError says that a wait came to its end without a device. It wraps the cause: the
// context's error, or ErrTimeout.
type WaitError struct {
	After time.Duration
	Last  error // why there was none when last looked; may be nil
	cause error
}

// Error returns how long the wait lasted and why it was in vain.
func (e *WaitError) Error() string {
	s := e.cause.Error() + " after waiting " + e.After.Round(100*time.Millisecond).String()
	if e.Last != nil {
		s += ": " + e.Last.Error()
	}
	return s
}

// Unwrap returns what ended the wait.
func (e *WaitError) Unwrap() error { return e.cause }

type timeoutError struct{}

func (timeoutError) Error() string { return "timed out" }

// ErrTimeout is the cause of a WaitError whose time ran out.
var ErrTimeout error = timeoutError{}

// A Never says that a request cannot be met however long one waits.
type Never struct{ Reason error }

// Error returns the reason in one line.
func (e *Never) Error() string { return "waiting would be in vain: " + e.Reason.Error() }

// Unwrap returns the reason, a *NoFit as a rule.
func (e *Never) Unwrap() error { return e.Reason }

// Environment returns the variables with which a command sees exactly these devices, in this
// order. UUIDs name them, for CUDA numbers GPUs otherwise than NVML does; the order is set too, so
// that programs which count through NVML agree with it.
func Environment(ds []Device) []string {
	uuids := make([]string, len(ds))
	for i, d := range ds {
		uuids[i] = d.UUID
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strings.Join(uuids, ",")}
}

// HeldVariable names the environment variable that tells a command under which reservation it
// runs, so that a launcher within it may use what the outer one holds.
const HeldVariable = "MEMESTIMATE_RESERVATION"
