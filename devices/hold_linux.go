package devices

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Hold is a reservation of this process.
type Hold struct {
	ID      string
	Devices []Device // in the order in which CUDA should number them
	Bytes   uint64   // reserved on each

	state *State
	file  *os.File // nil once it is to be inherited
	fd    uintptr  // then its descriptor, out of reach of the garbage collector
}

// Release gives the devices back. The lock goes before the file does: one without a file means that somebody else
// removed it.
func (h *Hold) Release() {
	if h.file != nil {
		h.file.Close()
	} else {
		syscall.Close(int(h.fd))
	}
	h.state.remove(holdPrefix + h.ID)
}

// inheritFrom is the least descriptor that a command inherits its reservation by: above those
// that shell scripts use themselves.
const inheritFrom = 200

// Inherit makes the reservation pass to the program that this process becomes by exec, and to the programs
// that that one starts: it then lasts until the last of them ends or closes the descriptor.
func (h *Hold) Inherit() error {
	fd, err := dupFrom(h.file, inheritFrom)
	if err == syscall.EINVAL { // the limit on open files is lower
		fd, err = dupFrom(h.file, 10)
	}
	if err != nil {
		return fmt.Errorf("passing the reservation on: %w", err)
	}
	h.file.Close() // the lock belongs to both descriptors
	h.file, h.fd = nil, fd
	return nil
}

// dupFrom duplicates f to the first free descriptor from least on, without close-on-exec.
func dupFrom(f *os.File, least int) (uintptr, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_DUPFD, uintptr(least))
	if errno != 0 {
		return 0, errno
	}
	return fd, nil
}

// staleReading is how old a reading of free memory may be when the lock is got.
const staleReading = 500 * time.Millisecond

// Hold chooses devices and reserves them. It takes the host lock for the choice alone, so of any
// number of launchers each sees what those before it reserved; list is asked for the devices of now.
//
// While it waits, a driver that fails is asked again for as long as driverPatience.
//
// Without Wait it fails with a [*NoFit] when nothing fits, also when what would fit is what others wait
// for. With Wait it queues: first come, first served among those that could take the same
// devices. It then fails with a [*Never] when no device of this host would do even if it were
// free, and with a [*WaitError] when ctx or the timeout ends the wait. A failure leaves no reservation and no place in
// the queue behind, and so does the end of the process, however it comes.
func (s *State) Hold(ctx context.Context, list func() ([]Device, error), r HoldRequest) (*Hold, error) {
	if r.Command == "" {
		r.Command = filepath.Base(os.Args[0])
	}
	r.user = userName() // not under the lock: it may ask a server
	q := &queue{state: s, request: &r, list: list, started: time.Now()}
	if r.Wait && r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Timeout, ErrTimeout)
		defer cancel()
	}
	defer q.leave()
	for {
		h, err := q.try(ctx)
		if ctx.Err() != nil {
			if h != nil {
				h.Release()
			}
			return nil, &WaitError{time.Since(q.started), q.reason, context.Cause(ctx)}
		}
		if h != nil || err != nil {
			return h, err
		}
		if r.Status != nil {
			r.Status(Waiting{time.Since(q.started), q.ahead, q.reason})
		}
		q.pause(ctx)
	}
}

// reserve writes the reservation. The caller has the host lock.
func (s *State) reserve(chosen []Device, r *HoldRequest) (*Hold, error) {
	rec := record{
		Share: r.Share, PID: os.Getpid(), PIDNamespace: pidNamespace(), Start: ownStart(), User: r.user, Command: r.Command,
		Started: time.Now(),
	}
	var marks []int64
	for _, d := range chosen {
		g := grant{UUID: d.UUID, Bytes: r.Bytes + r.Margin, Base: d.Used, Before: map[int]uint64{}}
		for _, p := range d.Processes {
			g.Before[p.PID] = p.Bytes
		}
		rec.Grants = append(rec.Grants, g)
		marks = append(marks, deviceMark(s.mark, d.UUID))
		if d.within != nil {
			rec.Within, rec.Share = d.within.ID, rec.Share || d.within.Share
		}
	}
	id := strconv.FormatInt(rec.Started.UnixNano(), 36) + "-" + strconv.Itoa(rec.PID)
	f, err := s.create(holdPrefix+id, rec, marks...)
	if err != nil {
		return nil, fmt.Errorf("reservation: %w", err)
	}
	return &Hold{ID: id, Devices: chosen, Bytes: r.Bytes + r.Margin, state: s, file: f}, nil
}

// userName returns the user's name, or number where it has none.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// ticketNumber returns the number in the name of a waiter's file, or -1.
func ticketNumber(name string) int64 {
	digits, _, _ := strings.Cut(strings.TrimPrefix(name, waitPrefix), "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
