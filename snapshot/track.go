package snapshot

import (
	"slices"
	"strings"
)

// A Change is allocations of one size that appeared or went between two
// snapshots of one process.
type Change struct {
	Gone      bool // else they appeared
	Count     int
	Requested int64 // bytes of each
	Site      string
}

// instance tells one allocation from another.
type instance struct {
	device    int
	addr      int64
	requested int64
}

// held is an allocation that a snapshot's segments show in use.
type held struct {
	instance
	made int64 // time of its allocation; 0 where the trace does not show it
	site string
}

// Track compares two snapshots of one process, taken one after the other, and
// groups what appeared and what went by size, the largest groups first. A nil
// before is a process that had nothing. An allocation is the same when address
// and size are, unless the trace shows that it was made after the first snapshot.
func Track(before, after *Snapshot) []Change {
	var old []held
	var taken int64
	if before != nil {
		old, taken = before.held(), before.taken()
	}
	byAddr := make(map[instance]held, len(old))
	for _, h := range old {
		byAddr[h.instance] = h
	}
	same := map[instance]bool{}
	var out []Change
	var appeared, gone []held
	for _, h := range after.held() {
		if o, ok := byAddr[h.instance]; ok && (h.made == 0 || h.made == o.made || o.made == 0 &&
			(taken == 0 || h.made <= taken)) {
			same[h.instance] = true
			continue
		}
		appeared = append(appeared, h)
	}
	for _, h := range old {
		if !same[h.instance] {
			gone = append(gone, h)
		}
	}
	out = append(changes(appeared, false), changes(gone, true)...)
	return out
}

func changes(list []held, gone bool) []Change {
	at := map[int64]int{}
	var out []Change
	for _, h := range list {
		i, ok := at[h.requested]
		if !ok {
			i = len(out)
			at[h.requested] = i
			out = append(out, Change{Gone: gone, Requested: h.requested, Site: h.site})
		}
		out[i].Count++
		if out[i].Site != h.site {
			out[i].Site = "several places"
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		if c := compare(b.Requested*int64(b.Count), a.Requested*int64(a.Count)); c != 0 {
			return c
		}
		return compare(b.Requested, a.Requested)
	})
	return out
}

// held lists the allocations in use at the end.
func (s *Snapshot) held() []held {
	var out []held
	made := make([]map[int64]int64, len(s.Traces))
	stacks := make([]map[int64]StackID, len(s.Traces))
	for d, t := range s.Traces {
		made[d], stacks[d] = map[int64]int64{}, map[int64]StackID{}
		for _, e := range t.All() {
			if e.Action == Alloc {
				made[d][e.Addr], stacks[d][e.Addr] = e.Time, e.Stack
			}
		}
	}
	for i := range s.Segments {
		g := &s.Segments[i]
		for k := range g.Blocks {
			b := &g.Blocks[k]
			if b.State != ActiveAllocated {
				continue
			}
			h := held{instance: instance{g.Device, b.Addr, b.Requested}}
			stack := b.Stack
			if g.Device < len(made) {
				h.made = made[g.Device][b.Addr]
				if len(s.Stack(stack)) == 0 {
					stack = stacks[g.Device][b.Addr]
				}
			}
			event := 0
			if h.made == 0 {
				event = -1
			}
			h.site = s.SiteOf(Live{Stack: stack, Event: event}, true)
			out = append(out, h)
		}
	}
	return out
}

// taken is when the last event was recorded, 0 where there is none.
func (s *Snapshot) taken() int64 {
	var last int64
	for _, t := range s.Traces {
		if n := t.Len(); n > 0 {
			last = max(last, t.At(n-1).Time)
		}
	}
	return last
}

// A Delta is what a place holds in two runs.
type Delta struct {
	Label       string
	Was, Is     int64 // bytes
	WasNo, IsNo int   // allocations
}

// Compare sets the groups of two runs beside each other, the largest difference
// first; equal ones are left out.
func Compare(was, is []Group) []Delta {
	at := map[string]int{}
	var all []Delta
	for i, groups := range [2][]Group{was, is} {
		for _, g := range groups {
			k, ok := at[g.Label]
			if !ok {
				k = len(all)
				at[g.Label] = k
				all = append(all, Delta{Label: g.Label})
			}
			if i == 0 {
				all[k].Was, all[k].WasNo = g.Bytes, g.Count
			} else {
				all[k].Is, all[k].IsNo = g.Bytes, g.Count
			}
		}
	}
	out := slices.DeleteFunc(all, func(d Delta) bool { return d.Was == d.Is && d.WasNo == d.IsNo })
	slices.SortFunc(out, func(a, b Delta) int {
		if c := compare(abs(b.Is-b.Was), abs(a.Is-a.Was)); c != 0 {
			return c
		}
		return strings.Compare(a.Label, b.Label)
	})
	return out
}

func abs(n int64) int64 { return max(n, -n) }
