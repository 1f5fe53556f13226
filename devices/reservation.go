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
	Within      string // the ID of the reservation that its launcher ran under; it uses what that one holds
	PID         int    // of the launcher, for people: in another container the number means nothing
	User        string
	Command     string // the base name of the program
	Started     time.Time

	// Left tells that the launcher's process ended and another still has the reservation: Holder, or 0 where this user
	// may not know, with its program's name.
	Left          bool
	Holder        int
	HolderCommand string

	// Taken is what the command's processes have on the device, when Followed: where the driver's process numbers tell.
	Taken    uint64
	Followed bool

	// Removed tells that somebody deleted the reservation's file while it was held. Nothing but its being there is known
	// then.
	Removed bool
}

// holder returns how messages call the owner.
func (r *Reservation) holder() string {
	switch {
	case r.Removed:
		return "a process whose reservation somebody deleted"
	case r.Left && r.Holder == 0:
		return fmt.Sprintf("what process %d (%s, %s) left behind", r.PID, plain(r.User), plain(r.Command))
	case r.Left:
		return fmt.Sprintf("process %d (%s, %s), which process %d (%s) left behind", r.Holder, plain(r.User),
			plain(r.HolderCommand), r.PID, plain(r.Command))
	}
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
	UUID   string         `json:"uuid"`
	Bytes  uint64         `json:"bytes"`
	Base   uint64         `json:"base_used"`        // the device's used memory when it was granted
	Before map[int]uint64 `json:"before,omitempty"` // what each process had on it then
}

// A record is a reservation as its file has it.
type record struct {
	ID           string    `json:"-"` // the file's name
	Grants       []grant   `json:"grants"`
	Share        bool      `json:"share"`
	Within       string    `json:"within,omitempty"`
	PID          int       `json:"pid"`
	PIDNamespace uint64    `json:"pid_namespace"` // inode of /proc/self/ns/pid; 0 unknown
	Start        uint64    `json:"start"`         // of the process, in clock ticks since boot; 0 unknown
	User         string    `json:"user"`
	Command      string    `json:"command"`
	Started      time.Time `json:"started"`

	holder holder
}

// initialNamespace is the inode of the first process-number namespace (PROC_PID_INIT_INO of
// include/linux/proc_ns.h). The driver numbers processes as that one does.
const initialNamespace = 0xEFFFFFFC

// A holder is who has a reservation now.
type holder struct {
	pid     int // 0: not known
	command string
	left    bool // the launcher, and the command that it became, ended: this is what they left behind
}

// reservation returns what the record holds by one of its grants.
func (r *record) reservation(g *grant) Reservation {
	return Reservation{
		ID: r.ID, Bytes: g.Bytes, Outstanding: g.Bytes, Share: r.Share, Within: r.Within, PID: r.PID, User: r.User,
		Command: r.Command, Started: r.Started,
		Left: r.holder.left, Holder: r.holder.pid, HolderCommand: r.holder.command,
	}
}

// followed tells whether the driver's process numbers say what the record's command has: tree is nil where they are
// not ours.
func (r *record) followed(d *Device, tree func(int, *record) bool) bool {
	return tree != nil && d.KnowsProcesses && (r.PIDNamespace == initialNamespace || r.Start != 0)
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
		var blind []*grant // of the commands whose processes cannot be told from others'
		var blindAt []int
		counted := make([]bool, len(d.Processes)) // for some command
		for j := range records {
			r := &records[j]
			for k := range r.Grants {
				g := &r.Grants[k]
				if g.UUID != d.UUID || d.UUID == "" {
					continue
				}
				v := r.reservation(g)
				if v.Followed = r.followed(d, tree); v.Followed {
					for n, p := range d.Processes {
						if tree(p.PID, r) {
							v.Outstanding -= min(p.Bytes, v.Outstanding)
							v.Taken += p.Bytes
							counted[n] = true
						}
					}
				} else {
					blind, blindAt = append(blind, g), append(blindAt, len(d.Reservations))
				}
				d.Reservations = append(d.Reservations, v)
			}
		}
		d.creditGrowth(blind, blindAt, counted)
		d.creditNested()
	}
}

// creditGrowth takes what the device's used memory grew since the first of these grants off their reservations, oldest
// first. What the driver says that the processes of other commands have, and those that were there before took since,
// is none of it. The rest may still be a stranger's: a job is then thought to have its memory already, which is the
// weaker of the two ways and used only where processes cannot be told apart.
func (d *Device) creditGrowth(blind []*grant, at []int, counted []bool) {
	if len(blind) == 0 || !d.HasMemory {
		return
	}
	first := blind[0]
	for _, g := range blind {
		if g.Base < first.Base {
			first = g
		}
	}
	growth := d.Used - min(first.Base, d.Used)
	for i, p := range d.Processes {
		before, known := first.Before[p.PID]
		switch {
		case counted[i]:
			growth -= min(p.Bytes, growth)
		case known:
			growth -= min(p.Bytes-min(before, p.Bytes), growth)
		}
	}
	for _, i := range at {
		v := &d.Reservations[i]
		credit := min(growth, v.Outstanding)
		v.Outstanding -= credit
		growth -= credit
	}
}

// creditNested takes what a launcher within a command reserved off that command's own reservation, which it uses.
func (d *Device) creditNested() {
	for i := range d.Reservations {
		for j := range d.Reservations {
			if outer := &d.Reservations[j]; outer.ID != "" && outer.ID == d.Reservations[i].Within {
				outer.Outstanding -= min(d.Reservations[i].Outstanding, outer.Outstanding)
			}
		}
	}
}

// chain returns the reservation held and those that it was made within.
func chain(ds []Device, held string) map[string]bool {
	own := map[string]bool{}
	for held != "" && !own[held] {
		outer := ""
		for i := range ds {
			for _, v := range ds[i].Reservations {
				if v.ID == held {
					own[held], outer = true, v.Within
				}
			}
		}
		held = outer
	}
	return own
}
