// Package devices knows the GPUs of this machine: it lists them through NVML,
// chooses those that fit a need, holds them against other launchers, and watches
// how much memory a command takes on them.
//
// Live GPUs need Linux and a build with cgo; elsewhere [Open] returns an
// [*InitError] that says so, and what works on a []Device still does: [Choose].
//
// All sizes are bytes.
package devices

import (
	"fmt"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"
)

// A ComputeMode says which processes a GPU accepts, as nvmlComputeMode_t does.
type ComputeMode uint8

// The compute modes.
const (
	ModeDefault          ComputeMode = 0 // any number of processes
	ModeExclusiveThread  ComputeMode = 1 // one thread; removed from CUDA 8 on
	ModeProhibited       ComputeMode = 2 // none
	ModeExclusiveProcess ComputeMode = 3 // one process
	ModeUnknown          ComputeMode = 255
)

// String returns the mode's name: "default", "exclusive-process", ...
func (m ComputeMode) String() string {
	switch m {
	case ModeDefault:
		return "default"
	case ModeExclusiveThread:
		return "exclusive-thread"
	case ModeProhibited:
		return "prohibited"
	case ModeExclusiveProcess:
		return "exclusive-process"
	}
	return "unknown"
}

// A MIG says what a device has to do with MIG, NVIDIA's partitioning of a GPU.
type MIG uint8

// The relations to MIG.
const (
	MIGOff      MIG = iota // a whole GPU; MIG is off or not supported
	MIGParent              // a GPU with MIG on: no process can be given the whole of it
	MIGInstance            // a part of a GPU
)

// String returns "off", "on" (of a GPU cut into instances) or "instance".
func (m MIG) String() string {
	switch m {
	case MIGParent:
		return "on"
	case MIGInstance:
		return "instance"
	}
	return "off"
}

// A Process is one that has memory on a device. The driver numbers processes as the
// host does, also when it is asked from inside a container.
type Process struct {
	PID   int
	Kind  string // "compute", "graphics" or "mps"
	Bytes uint64 // when Known
	Known bool   // false where the driver does not tell (Windows, some MIG and vGPU)

	User, Command string // as Observe found them; empty where /proc does not tell, as in a container
}

// A Device is a GPU or a MIG instance as it was when it was listed.
type Device struct {
	Index  int    // NVML's number of the GPU (PCI order); for an instance that of its GPU
	UUID   string // "GPU-..." or "MIG-..."; empty when the driver did not tell
	Name   string
	BusID  string // PCI address of the GPU; empty when unknown
	Parent string // UUID of the GPU that an instance is part of
	MIG    MIG

	// GPUInstance and ComputeInstance number a MIG instance; -1 for a GPU.
	GPUInstance, ComputeInstance int

	// HasMemory tells whether the four sizes below are known.
	HasMemory bool
	Total     uint64
	Used      uint64 // what processes have; without Reserved where the driver tells it apart (R510 on)
	Free      uint64
	Reserved  uint64 // what driver and firmware keep; 0 where an old driver counts it as used
	Unified   bool   // the memory is the host's: the sizes are the host's MemTotal and MemAvailable

	Mode           ComputeMode
	Processes      []Process
	KnowsProcesses bool // whether Processes is an answer, or the driver would not tell

	Activity Activity // as Observe found it

	Reason   string   // why no process can use it; empty when one can
	Occupied bool     // the reason is a process that will end
	Notes    []string // what could not be learnt about it

	Reservations []Reservation // the live ones, when they were looked up

	claimed bool         // by waiters in front of the one that chooses
	within  *Reservation // that the one that chooses runs under
	handle  gpu          // to sample the device again; nil once listed by others than Session
}

// Usable tells whether a process could be given the device at all; it may yet be
// too full or reserved.
func (d *Device) Usable() bool { return d.Reason == "" }

// Label returns how people call the device: `GPU 1` or `GPU 1 MIG 7/0`.
func (d *Device) Label() string {
	if d.MIG == MIGInstance {
		return fmt.Sprintf("GPU %d MIG %d/%d", d.Index, d.GPUInstance, d.ComputeInstance)
	}
	return fmt.Sprintf("GPU %d", d.Index)
}

// Available returns how much of the device a new process can take: what is free
// less what live reservations still have coming. 0 when the device's memory is not known.
func (d *Device) Available() uint64 {
	if !d.HasMemory {
		return 0
	}
	left := d.Free
	for _, r := range d.Reservations {
		left -= min(left, r.Outstanding)
	}
	return left
}

// exclusive tells whether the device takes one process only.
func (d *Device) exclusive() bool {
	return d.Mode == ModeExclusiveProcess || d.Mode == ModeExclusiveThread
}

// occupied tells whether a process that computes has the device.
func (d *Device) occupied() bool {
	return slices.ContainsFunc(d.Processes, func(p Process) bool { return p.Kind != "graphics" })
}

// A DeviceJSON is a device as `memestimate devices --format json` shows it.
type DeviceJSON struct {
	Index           int               `json:"index"`
	UUID            string            `json:"uuid"`
	Name            string            `json:"name"`
	BusID           string            `json:"pci_bus_id,omitempty"`
	TotalBytes      *uint64           `json:"total_bytes"`
	UsedBytes       *uint64           `json:"used_bytes"`
	FreeBytes       *uint64           `json:"free_bytes"`
	ReservedBytes   *uint64           `json:"driver_reserved_bytes"`
	AvailableBytes  *uint64           `json:"available_bytes"`
	Unified         bool              `json:"unified,omitempty"`
	Utilization     *int              `json:"utilization_percent"`
	Temperature     *int              `json:"temperature_celsius"`
	Power           *float64          `json:"power_watts"`
	PowerLimit      *float64          `json:"power_limit_watts"`
	MIG             string            `json:"mig"`
	Parent          string            `json:"parent_uuid,omitempty"`
	GPUInstance     *int              `json:"gpu_instance,omitempty"`
	ComputeInstance *int              `json:"compute_instance,omitempty"`
	Mode            string            `json:"compute_mode"`
	Usable          bool              `json:"usable"`
	Reason          string            `json:"reason"`
	Notes           []string          `json:"notes,omitempty"`
	Processes       []ProcessJSON     `json:"processes"`
	Reservations    []ReservationJSON `json:"reservations"`
}

// A ProcessJSON is a process that has memory of a device.
type ProcessJSON struct {
	PID     int     `json:"pid"`
	Kind    string  `json:"kind"`
	Bytes   *uint64 `json:"used_bytes"`
	User    string  `json:"user,omitempty"`
	Command string  `json:"command,omitempty"`
}

// A ReservationJSON is memory of a device that a launcher holds for a job.
type ReservationJSON struct {
	ID          string `json:"id"`
	Bytes       uint64 `json:"bytes"`
	Outstanding uint64 `json:"outstanding_bytes"`
	Share       bool   `json:"share"`
	Within      string `json:"within,omitempty"`
	PID         int    `json:"pid"`
	User        string `json:"user"`
	Command     string `json:"command"`
	Started     string `json:"started"`
	Left        bool   `json:"left_behind,omitempty"`
	Holder      int    `json:"holder_pid,omitempty"`
	HolderName  string `json:"holder_command,omitempty"`
	Removed     bool   `json:"removed,omitempty"`
}

// MarshalJSON writes the device as a DeviceJSON. Sizes that are not known are null, and so are processes that the
// driver would not list.
func (d Device) MarshalJSON() ([]byte, error) {
	j := DeviceJSON{
		Index: d.Index, UUID: d.UUID, Name: d.Name, BusID: d.BusID, Unified: d.Unified,
		MIG: d.MIG.String(), Parent: d.Parent, Mode: d.Mode.String(),
		Usable: d.Usable(), Reason: d.Reason, Notes: d.Notes,
		Reservations: make([]ReservationJSON, 0, len(d.Reservations)),
	}
	if d.HasMemory {
		available := d.Available()
		j.TotalBytes, j.UsedBytes, j.FreeBytes, j.ReservedBytes = &d.Total, &d.Used, &d.Free, &d.Reserved
		j.AvailableBytes = &available
	}
	if a := d.Activity; a.Utilization >= 0 {
		j.Utilization = &a.Utilization
	}
	if a := d.Activity; a.Temperature >= 0 {
		j.Temperature = &a.Temperature
	}
	j.Power, j.PowerLimit = watts(d.Activity.Power), watts(d.Activity.PowerLimit)
	if d.MIG == MIGInstance {
		j.GPUInstance, j.ComputeInstance = &d.GPUInstance, &d.ComputeInstance
	}
	if d.KnowsProcesses {
		j.Processes = make([]ProcessJSON, 0, len(d.Processes))
	}
	for _, p := range d.Processes {
		pj := ProcessJSON{PID: p.PID, Kind: p.Kind, User: p.User, Command: p.Command}
		if p.Known {
			pj.Bytes = &p.Bytes
		}
		j.Processes = append(j.Processes, pj)
	}
	for _, r := range d.Reservations {
		v := ReservationJSON{
			ID: r.ID, Bytes: r.Bytes, Outstanding: r.Outstanding, Share: r.Share, Within: r.Within, PID: r.PID, User: r.User,
			Command: r.Command,
			Started: r.Started.UTC().Format(time.RFC3339), Removed: r.Removed,
		}
		if r.Left {
			v.Left, v.Holder, v.HolderName = true, r.Holder, r.HolderCommand
		}
		j.Reservations = append(j.Reservations, v)
	}
	return json.Marshal(j)
}

// watts returns milliwatts as watts, or nil for a negative number.
func watts(milli int) *float64 {
	if milli < 0 {
		return nil
	}
	w := float64(milli) / 1000
	return &w
}
