package devices

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A ticket is a waiter's file: the devices that it could ever take. Its name has the time of arrival, in nanoseconds
// since boot, which all processes read from one clock that nobody sets.
type ticket struct {
	UUIDs        []string `json:"uuids"`
	Within       []string `json:"within,omitempty"` // the reservations that it runs under
	PID          int      `json:"pid"`
	PIDNamespace uint64   `json:"pid_namespace"`
	User         string   `json:"user"`
	Command      string   `json:"command"`
}

// enter takes a ticket, unless there is one already. One that a cleaner took away is written anew: the place stays.
// The caller has the host lock.
func (q *queue) enter(uuids, inside []string) error {
	if q.file != nil && q.state.still(q.file, q.name()) {
		return nil
	}
	if q.file != nil {
		q.file.Close()
		q.file = nil
	}
	if q.number == 0 {
		names, err := q.state.names(waitPrefix)
		if err != nil {
			return err
		}
		q.number = sinceBoot()
		for _, n := range names {
			if last := ticketNumber(n); last >= q.number && q.state.alive(n) {
				q.number = last + 1
			}
		}
	}
	q.mine = ticket{uuids, inside, os.Getpid(), pidNamespace(), q.request.user, q.request.Command}
	var err error
	if q.file, err = q.state.create(q.name(), q.mine, waiterMark(q.state.mark, q.number)); err != nil {
		return fmt.Errorf("place in the queue: %w", err)
	}
	return nil
}

// sinceBoot reads the clock of tickets.
func sinceBoot() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 1
	}
	return t.Nano()
}

// leave gives the place in the queue up.
func (q *queue) leave() {
	if q.file != nil {
		q.file.Close()
		q.state.remove(q.name())
		q.file = nil
	}
}

// claims goes through the waiters in front, nearest first, and returns the wanted devices that they
// could take too. When these leave too few, it stops and returns the waiter to wait for: so the usual
// look at a long queue opens one file of it. Who runs under a reservation waits behind those under the same one
// alone: the others wait for its end. One that somebody stopped is passed over until it goes on. The caller has the
// host lock.
func (q *queue) claims(wanted, inside []string) (taken []string, blocker string) {
	names, err := q.state.names(waitPrefix)
	if err != nil {
		return nil, ""
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(ticketNumber(a), ticketNumber(b)) })
	if q.number != 0 {
		names = slices.DeleteFunc(names, func(n string) bool { return ticketNumber(n) >= q.number })
	}
	q.ahead = len(names)
	for _, name := range slices.Backward(names) {
		var t ticket
		_, ok := q.state.read(name, &t)
		if !ok {
			q.state.remove(name) // as a rule nobody has it any more
		}
		if !ok || stopped(t.PID, t.PIDNamespace) || len(inside) > 0 && !slices.Contains(t.Within, q.request.Held) {
			q.ahead--
			continue
		}
		overlaps := false
		for _, u := range t.UUIDs {
			if slices.Contains(wanted, u) {
				overlaps = true
				if !slices.Contains(taken, u) {
					taken = append(taken, u)
				}
			}
		}
		if overlaps && len(wanted)-len(taken) < q.request.count() {
			return taken, name
		}
	}
	return taken, ""
}
