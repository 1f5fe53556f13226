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

// ParseVisible reads CUDA_VISIBLE_DEVICES as the CUDA driver does (CUDA C++ Programming Guide,
// "CUDA Environment Variables"): numbers, UUIDs, starts of UUIDs that fit one device only, and MIG
// instances as "MIG-<uuid>" or "MIG-GPU-<uuid>/<gpu instance>/<compute instance>". The first entry that
// names nothing hides itself and all that follow; an empty value hides everything.
//
// Numbers count GPUs in NVML's order. CUDA's own is another unless CUDA_DEVICE_ORDER is PCI_BUS_ID
// or the GPUs are all of one model; Notes then says so. A GPU with MIG on stands for its first instance.
func ParseVisible(value string, ds []Device) Visible {
	var v Visible
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		i, note := resolve(entry, ds)
		if i < 0 {
			if entry != "" && entry != "-1" {
				v.Notes = append(v.Notes, fmt.Sprintf("CUDA_VISIBLE_DEVICES: %q %s; it and what follows is hidden", entry, note))
			}
			break
		}
		if note != "" && !slices.Contains(v.Notes, note) {
			v.Notes = append(v.Notes, note)
		}
		if !slices.Contains(v.Indexes, i) {
			v.Indexes = append(v.Indexes, i)
		}
	}
	return v
}

// resolve returns the place in ds of the device that an entry names and what to say about
// it, or -1 and what is wrong.
func resolve(entry string, ds []Device) (int, string) {
	if n, err := strconv.Atoi(entry); err == nil {
		for i, d := range ds {
			if d.Index == n && d.MIG != MIGInstance {
				return firstInstance(i, ds), mixedOrder(ds)
			}
		}
		return -1, "is the number of no GPU"
	}
	if rest, ok := strings.CutPrefix(entry, "MIG-GPU-"); ok { // the form of drivers 450 to 460
		uuid, ids, _ := strings.Cut(rest, "/")
		for i, d := range ds {
			if d.MIG == MIGInstance && d.Parent == "GPU-"+uuid && fmt.Sprintf("%d/%d", d.GPUInstance, d.ComputeInstance) == ids {
				return i, ""
			}
		}
	}
	if entry == "GPU-" || entry == "MIG-" || !strings.HasPrefix(entry, "GPU-") && !strings.HasPrefix(entry, "MIG-") {
		return -1, "is neither a number nor a UUID"
	}
	found := -1
	for i, d := range ds {
		if d.UUID == entry {
			return firstInstance(i, ds), ""
		}
		if strings.HasPrefix(d.UUID, entry) {
			if found >= 0 {
				return -1, "is the start of more than one UUID"
			}
			found = i
		}
	}
	if found < 0 {
		return -1, "is the UUID of no device"
	}
	return firstInstance(found, ds), ""
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

// mixedOrder warns when numbers are ambiguous: with GPUs of several models CUDA counts the fastest first.
func mixedOrder(ds []Device) string {
	for _, d := range ds {
		if d.Name != ds[0].Name {
			return "CUDA_VISIBLE_DEVICES names GPUs by number on a host with several models: taken in PCI order; UUIDs or CUDA_DEVICE_ORDER=PCI_BUS_ID leave no doubt"
		}
	}
	return ""
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
