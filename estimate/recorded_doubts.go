package estimate

import (
	"cmp"
	"slices"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// An engineDoubt is a recorded convolution that may take a larger workspace, and what the run then comes to.
type engineDoubt struct {
	plan                int     // of Run.Convolutions
	bytes               int64   // the workspace
	chance              float64 // that the convolution takes as much or more
	allocated, reserved int64   // with it
}

// doubts are what a recording leaves open of its run. Its requests are as they are, but for which of cuDNN's engines run,
// what other kernels take that is guessed, and where the driver puts segments, which decides between cached blocks of
// equal size. Figures are what the run reserves.
type doubts struct {
	engines   []engineDoubt // the largest first
	choices   int64         // with other workspaces everywhere, the most of some
	addresses int64         // with segments at other addresses, the most of some
	guesses   int64         // with all guesses at their most
	full      fullness
}

// What is tried of a recording: so many convolutions at larger workspaces by each of two measures, one at a time, and
// so many orders of addresses.
const (
	mostReplays    = 16
	scatteredSeeds = uint64(4)
)

// doubt replays a recorded run in every way that is in doubt.
func (s *Simulation) doubt(cfg caching.Config) {
	large := caching.LargeOf(s.Run.Log, cfg.Options)
	r := replays{run: s}
	choices, addresses := r.choices(cfg, large), make([]int64, 1+scatteredSeeds)
	for i := range addresses {
		other := cfg
		if other.Address = caching.Scattered(uint64(i)); i == 0 {
			other.Address = caching.Rising()
		}
		r.under(other, large, &addresses[i])
	}
	d := &s.doubts
	likely := workspaces(s.Recorded.Convolutions)
	if s.Recorded.Doubtful&kernels.OfEngines != 0 {
		most := caching.LargeOf(s.Recorded.AtMost(kernels.OfEngines), cfg.Options)
		d.engines = engineDoubts(s.Recorded.Convolutions, likely, most)
		for i := range d.engines {
			e := &d.engines[i]
			other := cfg
			other.Workspaces = slices.Clone(likely)
			other.Workspaces[e.plan] = e.bytes
			r.under(other, most, &e.reserved)
		}
	}
	if d.guesses = s.Peak.Reserved; s.Recorded.Doubtful&kernels.OfGuesses != 0 {
		r.under(cfg, caching.LargeOf(s.Recorded.AtMost(kernels.OfGuesses), cfg.Options), &d.guesses)
	}
	r.end()
	d.choices, d.addresses = max(s.Peak.Reserved, slices.Max(append(choices, 0))), slices.Max(addresses)
	slices.SortStableFunc(d.engines, func(a, b engineDoubt) int { return cmp.Compare(b.reserved, a.reserved) })
}

// workspaces are the likely ones of convolutions, by plan less 1.
func workspaces(plans []kernels.ConvPlan) []int64 {
	likely := make([]int64, len(plans))
	for i := range plans {
		likely[i] = plans[i].Bytes
	}
	return likely
}

// engineDoubts are the larger workspaces of convolutions that are worth a replay: those with which the most would be
// allocated, and those that grow the most: late in a backward pass, where little is live, a workspace that no cached
// block holds costs a segment all the same.
func engineDoubts(plans []kernels.ConvPlan, likely []int64, run *caching.LargeRequests) (all []engineDoubt) {
	live := run.Needs(make([]int64, len(plans)))
	for i := range plans {
		for _, c := range plans[i].Larger {
			all = append(all, engineDoubt{plan: i, bytes: c.Bytes, chance: c.Chance, allocated: live[i] + c.Bytes})
		}
	}
	var worth []engineDoubt
	for _, by := range []func(d *engineDoubt) int64{
		func(d *engineDoubt) int64 { return d.allocated },
		func(d *engineDoubt) int64 { return d.bytes - likely[d.plan] },
	} {
		slices.SortStableFunc(all, func(a, b engineDoubt) int { return cmp.Compare(by(&b), by(&a)) })
		for _, d := range all[:min(len(all), mostReplays)] {
			if !slices.Contains(worth, d) {
				worth = append(worth, d)
			}
		}
	}
	return worth
}

// engine returns what the run reserves at most but with some chance, by which engines run that are in doubt.
func (d *doubts) engine(reserved int64, chance float64) int64 {
	sum, of := 0.0, map[int]float64{}
	for _, e := range d.engines { // the largest first
		if more := e.chance - of[e.plan]; more > 0 {
			sum, of[e.plan] = sum+more, e.chance
		}
		if sum > chance {
			return max(reserved, e.reserved)
		}
	}
	return reserved
}

// most is what the run reserves at most.
func (d *doubts) most(reserved int64) int64 {
	return max(d.choices, d.addresses, d.engine(reserved, 0)) + max(d.guesses-reserved, 0)
}
