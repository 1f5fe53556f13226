package devices

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The pace of a waiter. It is woken when a reservation that it could use or the waiter before it ends; what
// nobody announces, memory that a stranger frees, is looked for at this pace.
const (
	wakePause  = time.Millisecond      // at least, so that nothing can make a waiter spin
	quickPause = 50 * time.Millisecond // after something happened: the driver may lag behind
	slowPause  = time.Second           // with a reading of NVML
	queuePause = 2 * time.Second       // behind others: without one
	idleFactor = 200                   // a reading may take one part in so many of the time
)

// driverPatience is how long a waiter bears with a driver that fails: as it does while it is upgraded or reset.
const driverPatience = 5 * time.Minute

// lostPatience is how long waiters whose tickets somebody removed are let go first: they notice it within queuePause
// and write them anew, unless they are stopped.
const lostPatience = 5 * time.Second

// A queue is one launcher's way to its devices.
type queue struct {
	state   *State
	request *HoldRequest
	list    func() ([]Device, error)
	started time.Time

	number int64 // of the own ticket; 0 when there was none yet
	mine   ticket
	file   *os.File // the own ticket, locked; nil when there is none

	behind  string        // ticket to wait for; "" when none is in front
	holds   []string      // reservations in the way
	ahead   int           // waiters in front, at most
	reason  error         // why there was nothing when last looked
	cost    time.Duration // of the last reading
	nap     time.Duration // the next pause at the head of the queue
	failing time.Time     // since when the driver fails; zero when it does not
	losing  time.Time     // since when waiters without tickets are seen; zero when none are

	ended map[string]chan struct{} // files whose end is being waited for
}

func (q *queue) name() string { return fmt.Sprintf("%s%018d-%d", waitPrefix, q.number, os.Getpid()) }

// try looks once. It returns a Hold, an error that ends the search, or neither when the caller
// is to wait.
func (q *queue) try(ctx context.Context) (*Hold, error) {
	if q.behind != "" {
		if first, err := q.first(ctx); err != nil || !first {
			return nil, err
		}
	}
	// The devices are read before the lock is taken, for that may be slow, and again when it took long to get it. The
	// last reading is made with the lock, or it might never do.
	for tries := 3; ; tries-- {
		start := time.Now()
		ds, err := q.devices(ctx)
		q.cost = time.Since(start)
		if err != nil {
			return nil, q.bear(ctx, err)
		}
		q.failing = time.Time{}
		start = time.Now()
		unlock, err := q.state.lock(ctx)
		if err != nil {
			return nil, err
		}
		if time.Since(start) > staleReading {
			if tries > 0 {
				unlock()
				continue
			}
			if ds, err = q.devices(ctx); err != nil {
				unlock()
				return nil, q.bear(ctx, err)
			}
		}
		h, err := q.choose(ds)
		if good := unlock(); h != nil && !good {
			h.Release() // another launcher may have chosen the same
			continue
		}
		return h, err
	}
}

// first tells whether the waiters in front are gone.
func (q *queue) first(ctx context.Context) (bool, error) {
	unlock, err := q.state.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if _, q.behind = q.claims(q.mine.UUIDs, q.mine.Within); q.behind != "" {
		return false, q.enter(q.mine.UUIDs, q.mine.Within)
	}
	return true, nil
}

// bear takes the driver's error for a reason to wait, when the request waits and the driver does not fail for long.
func (q *queue) bear(ctx context.Context, err error) error {
	switch {
	case !q.request.Wait || ctx.Err() != nil:
		return err
	case q.failing.IsZero():
		q.failing = time.Now()
	case time.Since(q.failing) > driverPatience:
		return fmt.Errorf("the driver fails for %v: %w", driverPatience, err)
	}
	q.reason, q.behind, q.holds = err, "", nil
	return nil
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
	b, err := q.state.book()
	if err != nil {
		return nil, err
	}
	q.state.sweep(b)
	b.attach(q.state, ds, r.Held)
	wanted, inside := r.everFits(ds), q.inside(ds)
	taken, blocker := q.claims(wanted, inside)
	lost := inside == nil && q.losers(b)
	if lost {
		taken = wanted
	}
	chosen, fit := Choose(without(ds, taken), r.Request)
	if fit == nil {
		return q.state.reserve(chosen, r)
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
	for _, rec := range b.records {
		if slices.ContainsFunc(rec.Grants, func(g grant) bool { return slices.Contains(wanted, g.UUID) }) {
			q.holds = append(q.holds, holdPrefix+rec.ID)
		}
	}
	if lost {
		q.nap = 0
	}
	return nil, q.enter(wanted, inside)
}

// inside returns the reservations that the request runs under, or nil.
func (q *queue) inside(ds []Device) []string {
	var ids []string
	for id := range chain(ds, q.request.Held) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// losers tells whether waiters that came before this one live and have no ticket, because somebody removed it.
func (q *queue) losers(b *book) bool {
	least, most := waiterMarks(q.state.mark), waiterMarks(q.state.mark)|(1<<40-1)
	if q.number != 0 {
		most = waiterMark(q.state.mark, q.number) - 1
	}
	names, err := q.state.names(waitPrefix)
	if err != nil {
		return false
	}
	known := map[int64]bool{}
	for _, name := range names {
		known[waiterMark(q.state.mark, ticketNumber(name))] = true
	}
	lost := false
	for _, on := range b.removed {
		for _, m := range on {
			lost = lost || m >= least && m <= most && !known[m]
		}
	}
	switch {
	case !lost:
		q.losing = time.Time{}
	case q.losing.IsZero():
		q.losing = time.Now()
	}
	return lost && time.Since(q.losing) < lostPatience
}

// everReserves returns why the request would fail even if nobody used or held the devices.
func (r *HoldRequest) everReserves(ds []Device) error {
	empty := slices.Clone(ds)
	own := chain(ds, r.Held)
	for i := range empty {
		d := &empty[i]
		d.Free, d.claimed, d.Activity.Utilization = d.Total-d.Reserved, false, min(d.Activity.Utilization, 0)
		d.Reservations = slices.DeleteFunc(slices.Clone(d.Reservations), func(v Reservation) bool { return !own[v.ID] })
		if d.Occupied {
			d.Reason = ""
		}
	}
	_, err := Choose(empty, r.Request)
	return err
}

// without marks the devices that waiters in front could take.
func without(ds []Device, uuids []string) []Device {
	for i := range ds {
		ds[i].claimed = slices.Contains(uuids, ds[i].UUID)
	}
	return ds
}

// pause waits until something may have changed.
func (q *queue) pause(ctx context.Context) {
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
		if f, err := q.state.open(name, os.O_RDONLY); err == nil {
			setLock(f, unix.F_OFD_SETLKW, unix.F_RDLCK, 0)
			f.Close()
		}
	}()
	return c
}
