package devices

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Visible is what CUDA_VISIBLE_DEVICES allows of a list of devices.
type Visible struct {
	All     bool  // it was not set
	Indexes []int // into the list, in its order
	Notes   []string
}

// ParseVisible reads CUDA_VISIBLE_DEVICES as the CUDA driver does (CUDA C++ Programming Guide, "CUDA Environment
// Variables", and what driver 580.159 was seen to do): either numbers or UUIDs, as the first entry is. A number is
// what C's strtol makes of the entry's start, cut to 32 bits: after white space and a sign, whatever follows. A UUID's
// digits may be in any case, hyphens among them do not matter, nor does what follows all of them; the start of one
// will do where that fits one device only. A MIG instance is "MIG-<uuid>" or "MIG-GPU-<uuid>/<gpu instance>/<compute
// instance>". The first entry that names nothing, or is of the other kind, hides itself and all that follow; an empty
// value hides everything, and so does a device that is named twice.
//
// Numbers count GPUs in NVML's order when pciOrder tells that CUDA_DEVICE_ORDER is PCI_BUS_ID. Otherwise CUDA counts
// the fastest first, which is the same where the GPUs are all of one model; on another host Notes says which GPU a
// number was taken for. A GPU with MIG on stands for its first instance.
func ParseVisible(value string, ds []Device, pciOrder bool) Visible {
	var v Visible
	first, _, _ := strings.Cut(value, ",")
	find, wanted := byNumber, "a number"
	if isUUID(first) {
		find, wanted = byUUID, "a UUID"
	}
	for entry := range strings.SplitSeq(value, ",") {
		i, wrong := find(entry, ds)
		if i < 0 {
			if wrong == "" {
				wrong = "is not " + wanted
			}
			if entry != "" && entry != "-1" {
				v.Notes = append(v.Notes, fmt.Sprintf("CUDA_VISIBLE_DEVICES: %q %s; it and what follows is hidden", entry, wrong))
			}
			break
		}
		if slices.Contains(v.Indexes, i) {
			v.Indexes = nil
			v.Notes = append(v.Notes, fmt.Sprintf("CUDA_VISIBLE_DEVICES: %q names %s again; CUDA then shows no GPU at all",
				entry, ds[i].Label()))
			return v
		}
		v.Indexes = append(v.Indexes, i)
	}
	if note := doubt(v.Indexes, ds); note != "" && wanted == "a number" && !pciOrder {
		v.Notes = append([]string{note}, v.Notes...)
	}
	return v
}

// isUUID tells whether an entry is meant as a UUID.
func isUUID(entry string) bool {
	return strings.HasPrefix(entry, "GPU-") || strings.HasPrefix(entry, "MIG-")
}

// byNumber returns the place in ds of the device that a number stands for, or -1 and what is wrong.
func byNumber(entry string, ds []Device) (int, string) {
	text := strings.TrimLeft(entry, " \t\n\v\f\r")
	unsigned := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	if len(text)-len(unsigned) > 1 {
		return -1, ""
	}
	digits := unsigned[:len(unsigned)-len(strings.TrimLeft(unsigned, "0123456789"))]
	if digits == "" {
		return -1, ""
	}
	n, _ := strconv.ParseInt(digits, 10, 64) // the largest number where it is out of range, as strtol
	if strings.HasPrefix(text, "-") {
		n = -n
	}
	for i, d := range ds {
		if int64(int32(n)) == int64(d.Index) && d.MIG != MIGInstance {
			return firstInstance(i, ds), ""
		}
	}
	return -1, "is the number of no GPU"
}

// byUUID returns the place in ds of the device that a UUID, or the start of one, names, or -1 and what is wrong.
func byUUID(entry string, ds []Device) (int, string) {
	if !isUUID(entry) {
		return -1, ""
	}
	if rest, ok := strings.CutPrefix(entry, "MIG-GPU-"); ok { // the form of drivers 450 to 460
		uuid, ids, _ := strings.Cut(rest, "/")
		for i, d := range ds {
			if d.MIG == MIGInstance && strings.EqualFold(d.Parent, "GPU-"+uuid) &&
				fmt.Sprintf("%d/%d", d.GPUInstance, d.ComputeInstance) == ids {
				return i, ""
			}
		}
		return -1, "is the name of no MIG instance"
	}
	digits, rest := hexDigits(entry[len("GPU-"):])
	if digits == "" {
		return -1, "is not a UUID"
	}
	found := -1
	for i, d := range ds {
		if !isUUID(d.UUID) {
			continue
		}
		own, _ := hexDigits(d.UUID[len("GPU-"):])
		switch {
		case own == digits:
			return firstInstance(i, ds), ""
		case rest == "" && strings.HasPrefix(own, digits) && found >= 0:
			return -1, "is the start of more than one UUID"
		case rest == "" && strings.HasPrefix(own, digits):
			found = i
		}
	}
	if found < 0 {
		return -1, "is the UUID of no device"
	}
	return firstInstance(found, ds), ""
}

// uuidDigits is how many digits a UUID has.
const uuidDigits = 32

// hexDigits returns a UUID's digits in lower case, up to the first character that is neither one nor a hyphen, and
// what follows.
func hexDigits(s string) (digits, rest string) {
	var b strings.Builder
	for i, c := range []byte(strings.ToLower(s)) {
		switch {
		case b.Len() == uuidDigits:
			return b.String(), s[i:]
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'f':
			b.WriteByte(c)
		case c != '-':
			return b.String(), s[i:]
		}
	}
	return b.String(), ""
}

// firstInstance returns the place of the first instance of the GPU at place i when MIG is on there,
// for that is what CUDA then shows; otherwise i.
func firstInstance(i int, ds []Device) int {
	if ds[i].MIG != MIGParent {
		return i
	}
	for j, d := range ds {
		if d.MIG == MIGInstance && d.Index == ds[i].Index {
			return j
		}
	}
	return i
}

// doubt says for which GPUs numbers were taken on a host with several models, where CUDA may mean others.
func doubt(places []int, ds []Device) string {
	mixed := false
	for i := range ds {
		mixed = mixed || ds[i].Name != ds[0].Name
	}
	if !mixed || len(places) == 0 {
		return ""
	}
	named := make([]string, len(places))
	for i, p := range places {
		named[i] = fmt.Sprintf("%s (%s)", ds[p].Label(), ds[p].Name)
	}
	return fmt.Sprintf("CUDA_VISIBLE_DEVICES names GPUs by number on a host with several models: taken for %s, as "+
		"nvidia-smi counts; "+
		"without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA counts the fastest first, so set that, or name them by UUID",
		strings.Join(named, ", "))
}

func (v *Visible) has(i int) bool { return v.All || slices.Contains(v.Indexes, i) }

// Order returns the places of the visible devices in ds.
func (v *Visible) Order(ds []Device) []int {
	if !v.All {
		return v.Indexes
	}
	all := make([]int, len(ds))
	for i := range all {
		all[i] = i
	}
	return all
}
