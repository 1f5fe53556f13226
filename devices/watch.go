package devices

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Point is used memory at a time since the start of a Watch.
type Point struct {
	At   time.Duration `json:"seconds,format:sec"`
	Used uint64        `json:"used_bytes"` // the most since the point before
}

// maxPoints bounds a timeline: a longer one is halved by taking pairs together, so that a command of
// days takes no more memory than one of minutes, and no peak is lost.
const maxPoints = 4096

// A series is the memory of one GPU over time, seen one way.
type series struct {
	start, last, peak uint64
	peakAt            time.Duration
	samples           int

	points []Point
	stride int // samples taken together in one point
	inLast int // samples in the last point
}

func (s *series) add(at time.Duration, used uint64) {
	if s.samples == 0 {
		s.start, s.peak, s.peakAt, s.stride = used, used, at, 1
	}
	s.samples++
	s.last = used
	if used > s.peak {
		s.peak, s.peakAt = used, at
	}
	if len(s.points) > 0 && s.inLast < s.stride {
		p := &s.points[len(s.points)-1]
		p.Used = max(p.Used, used)
		s.inLast++
		return
	}
	if len(s.points) == maxPoints {
		for i := range maxPoints / 2 {
			a, b := s.points[2*i], s.points[2*i+1]
			s.points[i] = Point{a.At, max(a.Used, b.Used)}
		}
		s.points = s.points[:maxPoints/2]
		s.stride *= 2
	}
	s.points = append(s.points, Point{at, used})
	s.inLast = 1
}

// A GPUTrace is what a command took of one GPU.
type GPUTrace struct {
	Label  string        `json:"-"` // of the device, as Device.Label
	Index  int           `json:"index"`
	UUID   string        `json:"uuid"`
	Name   string        `json:"name"`
	By     string        `json:"by"` // what is counted: the command's processes, or all that the device has
	Start  uint64        `json:"start_bytes"`
	End    uint64        `json:"end_bytes"`
	Peak   uint64        `json:"peak_bytes"`
	PeakAt time.Duration `json:"peak_seconds,format:sec"`
	Used   int64         `json:"used_bytes"`   // at the end less at the start
	Peaked int64         `json:"peaked_bytes"` // how far the peak was above both

	Samples  int       `json:"samples"`
	All      *AllOfGPU `json:"all_processes,omitempty"` // when by process
	Err      error     `json:"-"`                       // why there is no more of it
	Error    string    `json:"error,omitempty"`         // its text
	Timeline []Point   `json:"timeline"`
}

// What a GPUTrace counts.
const (
	ByProcess = "process"
	ByDevice  = "device"
)

// An AllOfGPU is what all processes of a GPU had while a trace counted the command's alone.
type AllOfGPU struct {
	Start  uint64  `json:"start_bytes"`
	Peak   uint64  `json:"peak_bytes"`
	Others []Other `json:"not_counted"` // the one that took most first
}

// An Other is a process that took memory since the start and does not belong to the command.
type Other struct {
	PID   int    `json:"pid"`
	Bytes uint64 `json:"grown_bytes"` // the most that it had beyond the start
}

// A Watch samples the memory that a command and what it starts take on some GPUs, by process and
// by device.
type Watch struct {
	session *Session
	devices []Device
	tree    func(pid int) bool // nil before there is a command, and where the driver's process numbers are not ours
	begun   time.Time

	process, device []series
	seen            []bool // the driver told what a process of the command has there
	errs            []error
	before          []map[int]uint64 // by process, at the first sample
	others          []map[int]uint64 // what is not the command's, by how much it has grown at most
}

// Watch begins to watch the devices, which s listed, with a first sample. Call Started when
// the command has started, and Sample from then on as often as wanted, from one goroutine.
func (s *Session) Watch(ds []Device) *Watch {
	n := len(ds)
	w := &Watch{
		session: s, devices: ds, begun: time.Now(), process: make([]series, n), device: make([]series, n), seen: make([]bool,
			n), errs: make([]error, n),
		before: make([]map[int]uint64, n), others: make([]map[int]uint64, n),
	}
	w.Sample()
	return w
}

// Started tells the Watch that the command runs: every process that this one started, at any remove, is the command's.
// A daemon that it leaves behind is too where this process becomes its parent (PR_SET_CHILD_SUBREAPER of prctl(2)).
func (w *Watch) Started() { w.tree = started() }

// Sample reads all devices once. A device that fails is left out from then on.
func (w *Watch) Sample() {
	for i := range w.devices {
		if w.errs[i] != nil {
			continue
		}
		m, procs, err := w.session.look(&w.devices[i])
		if err != nil {
			w.errs[i] = err
			continue
		}
		if w.before[i] == nil {
			w.before[i], w.others[i] = map[int]uint64{}, map[int]uint64{}
			for _, p := range procs {
				w.before[i][p.PID] = p.Bytes
			}
		}
		at := time.Since(w.begun)
		w.device[i].add(at, m.used)
		var sum uint64
		for _, p := range procs {
			if !p.Known || w.tree == nil {
				continue
			}
			if w.tree(p.PID) {
				sum += p.Bytes
				w.seen[i] = true
			} else if before := w.before[i][p.PID]; p.Bytes > before {
				w.others[i][p.PID] = max(w.others[i][p.PID], p.Bytes-before)
			}
		}
		w.process[i].add(at, sum)
	}
}

// Settle samples until the devices are quiet, at most for limit: a driver takes a moment to
// free what a process leaves.
func (w *Watch) Settle(limit time.Duration) {
	const quiet = 5
	same := 0
	for end := time.Now().Add(limit); same < quiet && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		before := make([]uint64, len(w.device))
		for i := range w.device {
			before[i] = w.device[i].last
		}
		w.Sample()
		same++
		for i := range w.device {
			if w.device[i].last != before[i] {
				same = 0
			}
		}
	}
}

// Traces returns what was seen, a trace a device. Where the driver named the command's
// processes on any device, the traces are by process, and devices without one are left out.
func (w *Watch) Traces() []GPUTrace {
	named := false
	for _, seen := range w.seen {
		named = named || seen
	}
	all := []GPUTrace{}
	for i := range w.devices {
		if named && !w.seen[i] && w.errs[i] == nil {
			continue
		}
		s, d := &w.device[i], &w.devices[i]
		t := GPUTrace{Label: d.Label(), Index: d.Index, UUID: d.UUID, Name: d.Name, By: ByDevice, Err: w.errs[i]}
		if w.seen[i] {
			t.By, t.All = ByProcess, &AllOfGPU{s.start, s.peak, []Other{}}
			for pid, grown := range w.others[i] {
				t.All.Others = append(t.All.Others, Other{pid, grown})
			}
			slices.SortFunc(t.All.Others, func(a, b Other) int {
				return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID))
			})
			s = &w.process[i]
		}
		if t.Err != nil {
			t.Error = t.Err.Error()
		}
		t.Start, t.End, t.Peak, t.PeakAt, t.Samples = s.start, s.last, s.peak, s.peakAt, s.samples
		t.Timeline = append([]Point{}, s.points...)
		t.Used = int64(t.End) - int64(t.Start)
		t.Peaked = max(int64(t.Peak)-int64(t.Start)-max(t.Used, 0), 0)
		all = append(all, t)
	}
	return all
}

// look reads a listed device's memory again, and its processes where the driver tells them.
func (s *Session) look(d *Device) (memory, []Process, error) {
	type looked struct {
		m     memory
		procs []Process
	}
	if d.Unified {
		total, available, err := s.host()
		return memory{total: total, free: available, used: total - available}, nil, err
	}
	a, err := within(s.limit, func() (a looked, err error) {
		if a.m, err = d.handle.memory(); err == nil {
			a.procs, _ = d.handle.processes() // a driver may not tell
		}
		return a, err
	})
	if err != nil {
		return memory{}, nil, fmt.Errorf("%s: %w", d.Label(), err)
	}
	return a.m, a.procs, nil
}
