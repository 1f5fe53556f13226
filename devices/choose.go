package devices

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Policy says which of the devices that fit is taken.
type Policy uint8

// The policies. Of equals the first in the order of the devices is taken.
const (
	BestFit  Policy = iota // the one that leaves least free: keeps the larger GPUs for larger jobs
	MostRoom               // the one with most memory available
	First                  // the first
)

var policyNames = []string{"best-fit", "most-free", "first"}

// ParsePolicy returns the policy with that name.
func ParsePolicy(name string) (Policy, error) {
	if i := slices.Index(policyNames, name); i >= 0 {
		return Policy(i), nil
	}
	return 0, fmt.Errorf("policy %q: no such policy, wanted one of %s", name, strings.Join(policyNames, ", "))
}

// A Request says what devices are wanted.
type Request struct {
	Bytes   uint64 // what the job takes on each device
	Margin  uint64 // what it may take beyond that; added to Bytes
	Count   int    // how many devices; 0 means 1
	AtMost  int    // as many as fit up to this number, but no less than Count; 0: Count
	Policy  Policy
	MinFree uint64 // a device with less available is passed over, however little is needed

	MinTotal       uint64 // ... and one with less memory in all
	MaxUtilization *int   // ... and one that is busy for more percent of the time, as Observe finds; nil: any

	Type    *regexp.Regexp // matches the name of a device that may be taken; nil: any
	Exclude []string       // devices not to take: index, UUID, start of a UUID, or part of the name
	Share   bool           // accept a device on which others that share hold memory

	// Visible is CUDA_VISIBLE_DEVICES as it was found; nil when it was not set. Only
	// the devices that it names are taken, and in its order. PCIOrder says that CUDA_DEVICE_ORDER
	// makes its numbers those of NVML.
	Visible  *string
	PCIOrder bool

	// Held is the ID of the reservation that the caller runs under. While that is there, only what it
	// holds is taken, and neither it nor who waits for its end counts against the caller.
	Held string
}

// need returns what a device must have available. The sum stops at the largest number.
func (r *Request) need() uint64 {
	sum := r.Bytes + r.Margin
	if sum < r.Bytes {
		sum = ^uint64(0)
	}
	return max(sum, r.MinFree)
}

func (r *Request) count() int { return max(r.Count, 1) }

// A Rejection says why a device was not taken.
type Rejection struct {
	Device Device
	Why    string
	held   bool // by somebody's reservation, so that waiting helps
}

// A NoFit says that too few devices fit, and which came closest.
type NoFit struct {
	Need     uint64 // bytes wanted on each device
	Wanted   int    // devices wanted
	Found    int    // devices that fit
	Nearest  *Device
	Short    uint64 // bytes that Nearest lacks
	Rejected []Rejection
}

// Held tells whether somebody else holds a device that would do, or waits for it.
func (e *NoFit) Held() bool {
	return slices.ContainsFunc(e.Rejected, func(r Rejection) bool { return r.held })
}

// Error returns the reason in one line.
func (e *NoFit) Error() string {
	var b strings.Builder
	if e.Wanted == 1 {
		fmt.Fprintf(&b, "no GPU has %s available", FormatBytes(e.Need))
	} else {
		fmt.Fprintf(&b, "only %d of %d GPUs have %s available", e.Found, e.Wanted, FormatBytes(e.Need))
	}
	var why []string
	for _, r := range e.Rejected {
		if e.Nearest == nil || r.held {
			why = append(why, r.Device.Label()+" "+r.Why)
		}
	}
	if len(why) > 5 {
		why = append(why[:4], fmt.Sprintf("and %d more", len(why)-4))
	}
	if e.Nearest != nil {
		closest := fmt.Sprintf("%s (%s) comes closest with %s, %s short", e.Nearest.Label(), e.Nearest.Name,
			FormatBytes(e.Nearest.Available()), FormatBytes(e.Short))
		why = append([]string{closest}, why...)
	}
	if len(why) == 0 {
		why = []string{"there is none"}
	}
	return b.String() + ": " + strings.Join(why, "; ")
}

// Choose picks the devices for a request: those that a process can use, that the request and
// CUDA_VISIBLE_DEVICES allow, that nobody else holds, and that have the memory available. It returns
// them in the order in which CUDA should number them, or a [*NoFit]. It only looks at ds, and
// gives the same answer every time.
func Choose(ds []Device, r Request) ([]Device, error) {
	need := r.need()
	free, rejected := offered(ds, r)
	fail := &NoFit{Need: need, Wanted: r.count(), Rejected: rejected}
	var fit []Device
	for _, d := range free {
		available := d.Available()
		if available < need {
			fail.Rejected = append(fail.Rejected, Rejection{d, fmt.Sprintf("has %s available", FormatBytes(available)), false})
			if fail.Nearest == nil || available > fail.Nearest.Available() {
				fail.Nearest, fail.Short = &d, need-available
			}
			continue
		}
		fit = append(fit, d)
	}
	if fail.Found = len(fit); fail.Found < fail.Wanted {
		return nil, fail
	}
	switch r.Policy {
	case BestFit:
		slices.SortStableFunc(fit, func(a, b Device) int { return cmp.Compare(a.Available(), b.Available()) })
	case MostRoom:
		slices.SortStableFunc(fit, func(a, b Device) int { return cmp.Compare(b.Available(), a.Available()) })
	}
	return fit[:min(max(fail.Wanted, r.AtMost), len(fit))], nil
}

// offered splits the devices into those that the request may take now, however little memory they have available, and
// the others with the reason.
func offered(ds []Device, r Request) (ok []Device, no []Rejection) {
	candidates, no := r.eligible(ds)
	for _, d := range candidates {
		if why := r.blocked(&d); why != "" {
			no = append(no, Rejection{d, why, true})
			continue
		}
		ok = append(ok, d)
	}
	return ok, no
}

// eligible splits the devices into those that the request may take once they are free enough,
// and the others with the reason. What it does to ds follows from the request alone: reservations are
// taken off where they are the caller's own.
func (r *Request) eligible(ds []Device) (ok []Device, no []Rejection) {
	visible := r.visible(ds)
	own := chain(ds, r.Held)
	for _, i := range visible.Order(ds) {
		d := ds[i]
		d.disown(own, r.Held)
		if why := r.refuses(&d, len(own) > 0); why != "" {
			no = append(no, Rejection{d, why, false})
			continue
		}
		ok = append(ok, d)
	}
	for i := range ds {
		if !visible.has(i) {
			no = append(no, Rejection{ds[i], "is not in CUDA_VISIBLE_DEVICES", false})
		}
	}
	return ok, no
}

// disown takes the caller's own reservations off d and keeps the innermost one, held, apart.
func (d *Device) disown(own map[string]bool, held string) {
	d.within = nil
	d.Reservations = slices.DeleteFunc(slices.Clone(d.Reservations), func(v Reservation) bool {
		if v.ID == held && own[v.ID] {
			d.within = &v
		}
		return own[v.ID]
	})
}

func (r *Request) visible(ds []Device) Visible {
	if r.Visible == nil {
		return Visible{All: true}
	}
	return ParseVisible(*r.Visible, ds, r.PCIOrder)
}

// everFits returns the UUIDs of the devices that the request could take if nobody else used
// them: those for which waiting makes sense.
func (r *Request) everFits(ds []Device) []string {
	var uuids []string
	visible := r.visible(ds)
	own := chain(ds, r.Held)
	for _, i := range visible.Order(ds) {
		d := ds[i]
		d.disown(own, r.Held)
		if d.Occupied {
			d.Reason = ""
		}
		if r.refuses(&d, len(own) > 0) == "" && r.need() <= d.Total-d.Reserved {
			uuids = append(uuids, d.UUID)
		}
	}
	return uuids
}

// refuses says why the request can never take d, or "". inside tells whether the caller runs under a reservation.
func (r *Request) refuses(d *Device, inside bool) string {
	switch {
	case inside && d.within == nil:
		return "is not part of the reservation that this runs under"
	case d.within != nil && d.within.Share && r.need() > d.within.Bytes:
		return fmt.Sprintf("is shared, and the reservation that this runs under has %s of it", FormatBytes(d.within.Bytes))
	case !d.Usable():
		return "cannot be used: " + d.Reason
	case !d.HasMemory:
		return "has memory of unknown size"
	case d.MIG == MIGInstance && r.Count > 1:
		return "is a MIG instance, of which CUDA shows a process one only"
	case d.Total < r.MinTotal:
		return fmt.Sprintf("has %s in all, less than the %s wanted", FormatBytes(d.Total), FormatBytes(r.MinTotal))
	case r.MaxUtilization != nil && d.Activity.Utilization < 0:
		return "does not tell how busy it is"
	case r.Type != nil && !r.Type.MatchString(d.Name):
		return fmt.Sprintf("is a %s, not of the wanted type", d.Name)
	}
	for _, x := range r.Exclude {
		if d.answersTo(x) {
			return "is excluded"
		}
	}
	return ""
}

// blocked says who keeps the request from d now, or "".
func (r *Request) blocked(d *Device) string {
	share := r.Share || d.within != nil && d.within.Share // what runs inside a share has no more than that
	for _, v := range d.Reservations {
		if !share || !v.Share || d.exclusive() {
			return fmt.Sprintf("is held by %s", v.holder())
		}
	}
	if d.claimed {
		return "is waited for by others"
	}
	if r.MaxUtilization != nil && d.Activity.Utilization > *r.MaxUtilization {
		return fmt.Sprintf("is busy for %d %% of the time, more than the %d %% wanted", d.Activity.Utilization,
			*r.MaxUtilization)
	}
	return ""
}

// answersTo tells whether x names d: its index, its UUID or the start of it, or a part of its name in
// any case.
func (d *Device) answersTo(x string) bool {
	switch {
	case x == "":
		return false
	case x == fmt.Sprint(d.Index):
		return true
	case strings.HasPrefix(x, "GPU-") || strings.HasPrefix(x, "MIG-"):
		return strings.HasPrefix(d.UUID, x) || strings.HasPrefix(d.Parent, x)
	case strings.Trim(x, "0123456789") == "":
		return false // another index, not a part of "A100"
	}
	return strings.Contains(strings.ToLower(d.Name), strings.ToLower(x))
}

// FormatBytes writes a size in the unit of 1024s that suits it: "20.00 GiB".
func FormatBytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.2f %ciB", v, units[u])
}
