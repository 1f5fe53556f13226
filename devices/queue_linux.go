package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"
)

// The pace of a waiter. It is woken when a reservation that it could use or the waiter before it ends; what
// nobody announces, memory that a stranger frees, is looked for at this pace.
const (
	wakePause  = time.Millisecond      // at least, so that nothing can make a waiter spin
	quickPause = 50 * time.Millisecond // after something happened: the driver may lag behind
	slowPause  = time.Second           // with a reading of NVML
	queuePause = 2 * time.Second       // behind others: without one, to show that one is there
	idleFactor = 200                   // a reading may take one part in so many of the time
	absence    = 15 * time.Second      // a waiter silent for so long (stopped) is passed over until it is back
)

// A ticket is a waiter's file: the devices that it could ever take. Their names sort by time
// of arrival.
type ticket struct {
	UUIDs   []string `json:"uuids"`
	PID     int      `json:"pid"`
	User    string   `json:"user"`
	Command string   `json:"command"`
}

// A queue is one launcher's way to its devices.
type queue struct {
	state   *State
	request *HoldRequest
	list    func() ([]Device, error)
	started time.Time

	name string   // of the own ticket; "" when there is none
	file *os.File // the own ticket, locked

	behind string        // ticket to wait for; "" when none is in front
	holds  []string      // reservations in the way
	ahead  int           // waiters in front, at most
	reason error         // why there was nothing when last looked
	cost   time.Duration // of the last reading
	nap    time.Duration // the next pause at the head of the queue

	ended map[string]chan struct{} // files whose end is being waited for
}

// try looks once. It returns a Hold, an error that ends the search, or neither when the caller
// is to wait.
func (q *queue) try(ctx context.Context) (*Hold, error) {
	var ds []Device
	read := func() (err error) {
		start := time.Now()
		ds, err = q.devices(ctx)
		q.cost = time.Since(start)
		return err
	}
	waiting := q.behind != ""
	if !waiting {
		if err := read(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	unlock, err := q.state.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if waiting {
		if _, q.behind = q.claims(q.ticketUUIDs()); q.behind != "" {
			return nil, nil
		}
	}
	if waiting || time.Since(start) > staleReading {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return q.choose(ds)
}

// devices asks for the list; a driver that hangs does not keep ctx from ending that.
func (q *queue) devices(ctx context.Context) ([]Device, error) {
	type listed struct {
		ds  []Device
		err error
	}
	answer := make(chan listed, 1)
	go func() {
		ds, err := q.list()
		answer <- listed{ds, err}
	}()
	select {
	case a := <-answer:
		return a.ds, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// choose picks and reserves, or finds out what to wait for. It has the host lock.
func (q *queue) choose(ds []Device) (*Hold, error) {
	r := q.request
	records, err := q.state.records()
	if err != nil {
		return nil, err
	}
	q.state.sweep()
	attach(ds, records, ownTree())
	wanted := r.everFits(ds)
	taken, blocker := q.claims(wanted)
	chosen, fit := Choose(without(ds, taken), r.Request)
	if fit == nil {
		h, err := q.state.reserve(chosen, r)
		var u *unfit
		if !errors.As(err, &u) {
			return h, err
		}
		fit = u.err
	}
	if !r.Wait {
		return nil, fit
	}
	if err := r.everReserves(ds); q.file == nil && err != nil {
		return nil, &Never{err}
	}
	if q.reason = fit; blocker != "" {
		q.reason = nil
	}
	q.behind, q.holds = blocker, nil
	for _, rec := range records {
		if slices.ContainsFunc(rec.Grants, func(g grant) bool { return slices.Contains(wanted, g.UUID) }) {
			q.holds = append(q.holds, holdPrefix+rec.ID)
		}
	}
	return nil, q.enter(wanted)
}

// everReserves returns why the request would fail even if nobody used or held the devices.
func (r *HoldRequest) everReserves(ds []Device) error {
	empty := slices.Clone(ds)
	for i := range empty {
		d := &empty[i]
		d.Free, d.Reservations, d.claimed = d.Total-d.Reserved, nil, false
		if d.Occupied {
			d.Reason = ""
		}
	}
	chosen, err := Choose(empty, r.Request)
	if err == nil && r.Shares != nil {
		_, err = r.Shares(chosen)
	}
	return err
}

// without marks the devices that waiters in front could take.
func without(ds []Device, uuids []string) []Device {
	for i := range ds {
		ds[i].claimed = slices.Contains(uuids, ds[i].UUID)
	}
	return ds
}

// enter takes a ticket, unless there is one already. It has the host lock.
func (q *queue) enter(uuids []string) error {
	if q.file != nil && q.state.still(q.file, q.name) {
		return nil
	}
	if q.file != nil { // a cleaner took it away: the place is lost with it
		q.file.Close()
		q.file = nil
	}
	names, err := q.state.names(waitPrefix)
	if err != nil {
		return err
	}
	last := int64(0)
	for _, n := range names {
		last = max(last, ticketNumber(n))
	}
	q.name = fmt.Sprintf("%s%015d-%d", waitPrefix, last+1, os.Getpid())
	q.file, err = q.state.create(q.name, ticket{uuids, os.Getpid(), q.request.user, q.request.Command}, true)
	if err != nil {
		return fmt.Errorf("place in the queue: %w", err)
	}
	return nil
}

// leave gives the place in the queue up.
func (q *queue) leave() {
	if q.file != nil {
		os.Remove(q.state.path(q.name))
		q.file.Close()
		q.file = nil
	}
}

// ticketUUIDs reads the own ticket's devices.
func (q *queue) ticketUUIDs() []string {
	t, f := q.state.ticket(q.name)
	if f == nil {
		return nil
	}
	f.Close()
	return t.UUIDs
}

// ticket reads a waiter's file if the waiter lives. The caller closes the file.
func (s *State) ticket(name string) (ticket, *os.File) {
	var t ticket
	f := s.alive(name)
	if f != nil && json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&t) != nil {
		f.Close()
		f = nil
	}
	return t, f
}

// claims goes through the waiters in front, nearest first, and returns the wanted devices that they
// could take too. When these leave too few, it stops and returns the waiter to wait for: so the usual
// look at a long queue opens one file of it. The caller has the host lock.
func (q *queue) claims(wanted []string) (taken []string, blocker string) {
	names, err := q.state.names(waitPrefix)
	if err != nil {
		return nil, ""
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(ticketNumber(a) - ticketNumber(b)) })
	if q.file != nil {
		if i := slices.Index(names, q.name); i >= 0 {
			names = names[:i]
		}
	}
	q.ahead = len(names)
	for _, name := range slices.Backward(names) {
		t, f := q.state.ticket(name)
		if f == nil {
			q.ahead--
			continue
		}
		fi, err := f.Stat()
		f.Close()
		if err != nil || time.Since(fi.ModTime()) > absence {
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

// pause waits until something may have changed.
func (q *queue) pause(ctx context.Context) {
	now := time.Now()
	os.Chtimes(q.state.path(q.name), now, now) // a waiter that does this lives and is not stopped
	limit := queuePause
	files := q.holds
	if q.behind != "" {
		files = []string{q.behind}
	} else {
		q.nap = min(max(q.nap*2, quickPause), max(slowPause, idleFactor*q.cost))
		limit = q.nap
	}
	woken := make(chan struct{}, 1)
	stop := make(chan struct{})
	defer close(stop)
	for _, name := range files {
		end := q.end(name)
		go func() {
			select {
			case <-end:
				select {
				case woken <- struct{}{}:
				default:
				}
			case <-stop:
			}
		}()
	}
	timer := time.NewTimer(limit + rand.N(limit/8))
	defer timer.Stop()
	select {
	case <-woken:
		q.nap = 0
		clear(q.ended)
		time.Sleep(wakePause)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// end returns a channel that closes when nobody holds the file any more. The kernel wakes the
// goroutine that waits for the lock; nothing is polled.
func (q *queue) end(name string) <-chan struct{} {
	if c, ok := q.ended[name]; ok {
		return c
	}
	if q.ended == nil {
		q.ended = make(map[string]chan struct{})
	}
	c := make(chan struct{})
	q.ended[name] = c
	go func() {
		defer close(c)
		if f, err := openOthers(q.state.path(name)); err == nil {
			flock(f, syscall.LOCK_SH)
			f.Close()
		}
	}()
	return c
}
