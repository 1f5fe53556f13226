package devices

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// TraceOptions say how a Trace measures and reports.
type TraceOptions struct {
	Interval time.Duration // between samples; 0: 10 ms. Peaks between two samples go unseen
	Context  string        // said in every report; may be empty
	Silent   bool          // Report writes nothing
	Out      io.Writer     // where Report writes; nil: nowhere
}

// A Trace measures used memory from its start on, as fastai's GPUMemTrace: how much more is used than at the
// start, and how far beyond that it peaked. It is safe for concurrent use.
type Trace struct {
	read func() (uint64, error)
	opt  TraceOptions

	mu      sync.Mutex
	start   uint64
	peak    uint64
	last    uint64
	samples int
	err     error         // of a sample in the background
	quit    chan struct{} // nil when not running
	done    chan struct{}
}

// A Delta is what a Trace measured, in bytes.
type Delta struct {
	Used    int64 // used now less used at the start
	Peaked  int64 // how far the peak was above the start and above now; never negative
	Samples int
}

// NewTrace returns a Trace of what read says is used, such as a Session's Used. It measures nothing
// until Start.
func NewTrace(read func() (uint64, error), opt TraceOptions) *Trace {
	if opt.Interval <= 0 {
		opt.Interval = 10 * time.Millisecond
	}
	return &Trace{read: read, opt: opt}
}

// Start begins to measure, from now. It does nothing but Reset on a Trace that runs.
func (t *Trace) Start() error {
	if err := t.Reset(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.quit == nil {
		t.quit, t.done = make(chan struct{}), make(chan struct{})
		go t.watch(t.quit, t.done)
	}
	return nil
}

func (t *Trace) watch(quit, done chan struct{}) {
	defer close(done)
	tick := time.NewTicker(t.opt.Interval)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		if err := t.sample(); err != nil {
			t.mu.Lock()
			t.err = err
			t.mu.Unlock()
			return
		}
	}
}

// sample reads once.
func (t *Trace) sample() error {
	used, err := t.read()
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.peak = used, max(t.peak, used)
	t.samples++
	return nil
}

// Reset makes now the start.
func (t *Trace) Reset() error {
	used, err := t.read()
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start, t.peak, t.last, t.samples, t.err = used, used, used, 1, nil
	return nil
}

// Stop ends the measuring; Data then says what it came to.
func (t *Trace) Stop() error {
	t.mu.Lock()
	quit, done := t.quit, t.done
	t.quit, t.done = nil, nil
	t.mu.Unlock()
	if quit == nil {
		return nil
	}
	close(quit)
	<-done
	if err := t.sample(); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// Data returns what was measured: up to now while the Trace runs, up to Stop after that.
func (t *Trace) Data() (Delta, error) {
	t.mu.Lock()
	running := t.quit != nil
	t.mu.Unlock()
	if running {
		if err := t.sample(); err != nil {
			return Delta{}, fmt.Errorf("trace: %w", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return Delta{}, fmt.Errorf("trace: %w", t.err)
	}
	return delta(t.start, t.last, t.peak, t.samples), nil
}

// delta is fastai's pair: what is used in the end is not counted as peaked.
func delta(start, end, peak uint64, samples int) Delta {
	d := Delta{Used: int64(end) - int64(start), Samples: samples}
	d.Peaked = max(int64(peak)-int64(start)-max(d.Used, 0), 0)
	return d
}

// Line returns the report of what was measured, with the context and a sub-context where they are
// not empty: "△Used Peaked MB:  1,234    567 (train: epoch 1)". Its MB are of 1024*1024 bytes, as fastai's.
func (t *Trace) Line(sub string) (string, error) {
	d, err := t.Data()
	if err != nil {
		return "", err
	}
	return d.line(t.opt.Context, sub), nil
}

func (d Delta) line(contexts ...string) string {
	var notes []string
	for _, c := range contexts {
		if c != "" {
			notes = append(notes, c)
		}
	}
	s := fmt.Sprintf("△Used Peaked MB: %6s %6s", thousands(d.Used>>20), thousands(d.Peaked>>20))
	if d.Used < 0 { // rounded towards zero, as fastai does
		s = fmt.Sprintf("△Used Peaked MB: %6s %6s", thousands(-(-d.Used >> 20)), thousands(d.Peaked>>20))
	}
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, ": ") + ")"
	}
	return s
}

// Report writes Line to the Trace's writer, unless it is silent.
func (t *Trace) Report(sub string) error {
	if t.opt.Silent || t.opt.Out == nil {
		return nil
	}
	line, err := t.Line(sub)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.opt.Out, line)
	return err
}

// ReportAndReset is Report, and now is the start of what comes next.
func (t *Trace) ReportAndReset(sub string) error {
	if err := t.Report(sub); err != nil {
		return err
	}
	return t.Reset()
}

// thousands writes a number with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Used reads how many bytes processes use of a device that a Session listed. It is bounded in
// time as a listing is.
func (s *Session) Used(d *Device) (uint64, error) {
	m, _, err := s.look(d, false)
	return m.used, err
}

// look reads a listed device's memory again, and its processes when wanted. processes is nil when
// the driver does not tell.
func (s *Session) look(d *Device, wantProcesses bool) (memory, []Process, error) {
	type looked struct {
		m     memory
		procs []Process
		err   error
	}
	if d.handle == nil {
		return memory{}, nil, fmt.Errorf("%s: not listed by a session", d.Label())
	}
	if d.Unified {
		total, available, err := s.host()
		return memory{total: total, free: available, used: total - available}, nil, err
	}
	a, err := within(s.limit, func() (a looked) {
		a.m, a.err = d.handle.memory()
		if wantProcesses {
			procs, err := d.handle.processes()
			if a.procs = procs; err == nil && procs == nil {
				a.procs = []Process{}
			} else if err != nil {
				a.procs = nil
			}
		}
		return a
	})
	if err == nil {
		err = a.err
	}
	if err != nil {
		return memory{}, nil, fmt.Errorf("%s: %w", d.Label(), err)
	}
	return a.m, a.procs, nil
}
