package devices

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Reservation is what a live launcher, or the command that it became, holds of one device.
type Reservation struct {
	ID          string
	Bytes       uint64 // what it asked for on the device
	Outstanding uint64 // the part of Bytes that does not show as used memory yet
	Share       bool   // it tolerates others that share
	PID         int    // for people: in another container the number means nothing
	User        string
	Command     string // the base name of the program
	Started     time.Time
}

// holder returns how messages call the owner.
func (r *Reservation) holder() string {
	return fmt.Sprintf("process %d (%s, %s)", r.PID, plain(r.User), plain(r.Command))
}

// plain returns s as it is, or quoted when it holds anything but the characters of
// ordinary names: it comes from a file that somebody else wrote.
func plain(s string) string {
	for _, c := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-", c) {
			return strconv.QuoteToASCII(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// A grant is what a reservation takes on one device.
type grant struct {
	UUID  string `json:"uuid"`
	Bytes uint64 `json:"bytes"`
	Base  uint64 `json:"base_used"` // the device's used memory when it was granted
}

// A record is a reservation as its file has it.
type record struct {
	ID           string    `json:"-"` // the file's name
	Grants       []grant   `json:"grants"`
	Share        bool      `json:"share"`
	PID          int       `json:"pid"`
	PIDNamespace uint64    `json:"pid_namespace"` // inode of /proc/self/ns/pid; 0 unknown
	User         string    `json:"user"`
	Command      string    `json:"command"`
	Started      time.Time `json:"started"`
}

// attach hangs the records' reservations on the devices that they name, oldest first, and works
// out what each has outstanding. tree tells whether a process that the driver names belongs to the
// record's command; nil when process numbers here are not the driver's.
func attach(ds []Device, records []record, tree func(pid int, of *record) bool) {
	slices.SortStableFunc(records, func(a, b record) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	for i := range ds {
		d := &ds[i]
		d.Reservations = nil
		base := ^uint64(0)
		for j := range records {
			r := &records[j]
			for _, g := range r.Grants {
				if g.UUID != d.UUID || d.UUID == "" {
					continue
				}
				v := Reservation{ID: r.ID, Bytes: g.Bytes, Outstanding: g.Bytes, Share: r.Share, PID: r.PID, User: r.User, Command: r.Command, Started: r.Started}
				base = min(base, g.Base)
				if shown, ok := d.shownBy(r, tree); ok {
					v.Outstanding -= min(shown, g.Bytes)
				}
				d.Reservations = append(d.Reservations, v)
			}
		}
		if tree == nil || !d.KnowsProcesses {
			d.creditGrowth(base)
		}
	}
}

// shownBy returns the memory that the driver says the record's command has on d. ok is false when
// the driver does not tell of every process.
func (d *Device) shownBy(r *record, tree func(int, *record) bool) (shown uint64, ok bool) {
	if tree == nil || !d.KnowsProcesses {
		return 0, false
	}
	for _, p := range d.Processes {
		if tree(p.PID, r) {
			shown += p.Bytes
		}
	}
	return shown, true
}

// creditGrowth takes what the device's used memory grew since the first reservation off
// the reservations, oldest first. Growth may be a stranger's: a job is then thought to have its memory
// already, which is the weaker of the two ways and used only where processes cannot be told apart.
func (d *Device) creditGrowth(base uint64) {
	if !d.HasMemory || d.Used <= base {
		return
	}
	growth := d.Used - base
	for i := range d.Reservations {
		v := &d.Reservations[i]
		credit := min(growth, v.Outstanding)
		v.Outstanding -= credit
		growth -= credit
	}
}
