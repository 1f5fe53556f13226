package devices

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// callLimit bounds how long a query of NVML may take. A driver in trouble blocks its callers
// in the kernel, where nothing can interrupt them; the query is then left behind.
const callLimit = 10 * time.Second

// maxDevices is far more than any host has: it bounds what a broken driver can make us ask.
const maxDevices = 1024

// A Session is an open connection to NVML. It is safe for concurrent use.
type Session struct {
	lib   library
	limit time.Duration
	host  func() (total, available uint64, err error) // the host's memory, for integrated GPUs

	mu   sync.Mutex
	hung map[int]<-chan []Device // queries of GPUs that have not come back yet
	deaf map[int]bool            // GPUs that did not say in time what they do
}

// Open connects to NVML: the library at path, or the system's own when path is empty. It fails
// with an [*InitError].
func Open(path string) (*Session, error) {
	lib, err := within(callLimit, func() (library, error) { return openLibrary(path) })
	if _, late := errors.AsType[noAnswer](err); late {
		return nil, &InitError{Code: codeTimeout, Detail: err.Error(), cure: "look into the kernel log: dmesg | grep -i nvrm"}
	}
	if err != nil {
		return nil, err
	}
	return newSession(lib), nil
}

func newSession(lib library) *Session {
	return &Session{lib: lib, limit: callLimit, host: hostMemory, hung: make(map[int]<-chan []Device),
		deaf: make(map[int]bool)}
}

// Close ends the session; the Devices that it listed can no longer be sampled. It does nothing
// while a query hangs, for NVML must not be shut down under it.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hung) == 0 {
		_, _ = within(s.limit, func() (bool, error) { s.lib.shutdown(); return true, nil })
	}
}

// Driver returns the driver's version, such as "580.95.05".
func (s *Session) Driver() (string, error) { return within(s.limit, s.lib.driver) }

// List returns every GPU in NVML's order (that of their PCI addresses), each followed by its MIG
// instances. What goes wrong with one GPU is told in that GPU's Reason and Notes; an error
// means that none could be listed.
func (s *Session) List() ([]Device, error) {
	n, err := within(s.limit, func() (int, error) {
		n, err := s.lib.count()
		if s.mayRestart(err) && s.lib.restart() == nil {
			return s.lib.count()
		}
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("counting GPUs: %w", err)
	}
	if n < 0 || n > maxDevices {
		return nil, fmt.Errorf("counting GPUs: the driver names %d of them, wanted at most %d", n, maxDevices)
	}
	answers := make([]<-chan []Device, n)
	stuck := make([]bool, n)
	for i := range answers {
		answers[i], stuck[i] = s.ask(i)
	}
	deadline := time.NewTimer(s.limit)
	defer deadline.Stop()
	var all []Device
	late := false // once one query ran out of time nobody waits for another
	for i, answer := range answers {
		var ds []Device
		if !stuck[i] && !late {
			select {
			case ds = <-answer:
			case <-deadline.C:
				late = true
			}
		}
		if ds == nil {
			select {
			case ds = <-answer:
			default:
			}
		}
		s.remember(i, answer, ds == nil)
		if ds == nil {
			d := blank(i)
			d.Reason = noAnswer(s.limit).Error()
			ds = []Device{d}
		}
		all = append(all, ds...)
	}
	return all, nil
}

// mayRestart tells whether the error is one of a driver that was unloaded, upgraded or reset since, which a new
// connection may see working again, and no query hangs in the old one.
func (s *Session) mayRestart(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return err != nil && len(s.hung) == 0 && slices.ContainsFunc(gone, func(c Code) bool { return errors.Is(err, c) })
}

// gone are the errors of a connection whose driver went away.
var gone = []Code{codeUninitialized, codeDriverNotLoaded, codeNotFound, codeLost, codeMismatch, codeUnknown}

// ask queries GPU i in the background, unless an earlier query of it still hangs: then it
// returns that one, and true.
func (s *Session) ask(i int) (<-chan []Device, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.hung[i]; ok {
		return old, true
	}
	answer := make(chan []Device, 1)
	go func() { answer <- s.query(i) }()
	return answer, false
}

// remember notes whether the query of GPU i hangs.
func (s *Session) remember(i int, answer <-chan []Device, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hangs {
		s.hung[i] = answer
	} else {
		delete(s.hung, i)
	}
}

// noAnswer is the error of a query that takes longer than that.
type noAnswer time.Duration

func (e noAnswer) Error() string {
	return fmt.Sprintf("the driver did not answer in %v", time.Duration(e))
}

// within runs f and returns its answer, or noAnswer when it takes longer than limit; f is then
// left running.
func within[T any](limit time.Duration, f func() (T, error)) (T, error) {
	var answer, none T
	done := make(chan error, 1)
	go func() {
		var err error
		answer, err = f()
		done <- err
	}()
	select {
	case err := <-done:
		return answer, err
	case <-time.After(limit):
		return none, noAnswer(limit)
	}
}

// blank returns a device of which nothing is known but its number.
func blank(i int) Device {
	return Device{Index: i, GPUInstance: -1, ComputeInstance: -1, Mode: ModeUnknown, Activity: unobserved}
}

// query asks everything about GPU i and its instances.
func (s *Session) query(i int) []Device {
	d := blank(i)
	g, err := s.lib.gpu(i)
	if err != nil {
		d.Reason = reasonOf(err)
		return []Device{d}
	}
	d.handle = g
	s.describe(&d)
	if d.BusID, err = g.busID(); err != nil {
		d.BusID = ""
		d.note("PCI address", err)
	}
	mig, err := g.migMode()
	if err != nil && !errors.Is(err, codeNotSupported) && !errors.Is(err, codeNoFunction) {
		d.note("MIG mode", err)
	}
	if err != nil || !mig {
		return []Device{d}
	}
	d.MIG = MIGParent
	d.Reason = "MIG is on: only its instances can be used"
	parts, err := g.instances()
	if err != nil {
		d.note("MIG instances", err)
	}
	ds := []Device{d}
	for _, part := range parts {
		ds = append(ds, s.instance(&d, part))
	}
	if len(ds) == 1 && err == nil {
		ds[0].Reason = "MIG is on, and it has no instances"
	}
	return ds
}

// instance describes a MIG instance of parent.
func (s *Session) instance(parent *Device, part gpu) Device {
	d := blank(parent.Index)
	d.MIG, d.Parent, d.BusID, d.handle = MIGInstance, parent.UUID, parent.BusID, part
	var err error
	if d.GPUInstance, d.ComputeInstance, err = part.ids(); err != nil {
		d.GPUInstance, d.ComputeInstance = -1, -1
		d.note("instance number", err)
	}
	s.describe(&d)
	if d.Name == "" {
		d.Name = parent.Name
	}
	if d.Mode == ModeUnknown { // the mode belongs to the GPU
		d.Mode = parent.Mode
		d.refuse()
	}
	return d
}

// describe fills in what GPUs and instances have in common.
func (s *Session) describe(d *Device) {
	var err error
	if d.Name, err = d.handle.name(); err != nil {
		d.Name = ""
		d.note("name", err)
	}
	if d.Mode, err = d.handle.computeMode(); err != nil {
		d.Mode = ModeUnknown
		if d.MIG != MIGInstance {
			d.note("compute mode", err)
		}
	}
	d.Processes, err = d.handle.processes()
	if d.KnowsProcesses = err == nil; err != nil {
		d.note("processes", err)
	}
	s.measure(d)
	if d.UUID, err = d.handle.uuid(); err != nil {
		d.UUID = ""
		d.note("UUID", err)
		d.because("it has no UUID to name it by: " + reasonOf(err))
	} else if d.UUID == "" {
		d.because("it has no UUID to name it by")
	}
	d.refuse()
}

// refuse says why nobody may use the device, if that follows from its mode.
func (d *Device) refuse() {
	switch d.Mode {
	case ModeProhibited:
		d.because("compute mode is prohibited")
	case ModeExclusiveProcess, ModeExclusiveThread:
		switch {
		case !d.KnowsProcesses:
			d.because("exclusive-process mode, and the driver does not list its processes")
		case d.occupied():
			d.Occupied = d.Reason == ""
			d.because("exclusive-process mode, and a process has it")
		}
	}
}

// because gives the reason why the device cannot be used, unless there is one already.
func (d *Device) because(reason string) {
	if d.Reason == "" {
		d.Reason = reason
	}
}

// note keeps what could not be learnt. A GPU that is lost says so whatever it is asked.
func (d *Device) note(what string, err error) {
	if errors.Is(err, codeLost) || errors.Is(err, codeResetRequired) {
		d.because(reasonOf(err))
	}
	d.Notes = append(d.Notes, fmt.Sprintf("%s: %s", what, reasonOf(err)))
}

// reasonOf puts an error without the NVML number that repeats it, where it is well known.
func reasonOf(err error) string {
	var c Code
	if errors.As(err, &c) {
		for _, t := range codeTexts {
			if t.code == c {
				return t.text
			}
		}
	}
	return err.Error()
}
