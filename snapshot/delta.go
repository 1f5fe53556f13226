package snapshot

import (
	"slices"
	"strings"
)

// A Delta is what a place holds in two runs.
type Delta struct {
	Label string `json:"where"`
	Was   int64  `json:"base_bytes"`
	Is    int64  `json:"head_bytes"`
	WasNo int    `json:"base_count"` // allocations
	IsNo  int    `json:"head_count"`
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
