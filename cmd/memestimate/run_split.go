package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/devices"
)

// A splitting is the flags that divide a batch over the GPUs.
type splitting struct {
	on    bool
	batch int
	first int
	cost  devices.SplitCost

	fixed, perSample, firstFixed, gathered sizeValue

	exact func(part int) (uint64, error) // a part's estimate; nil without a model
	parts []int                          // the samples on each GPU, once they are chosen
}

func (s *splitting) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.on, "split", false,
		"divide --batch over the GPUs (all that fit, or -n) for data parallelism, so that each part fits")
	fs.IntVar(&s.first, "gpu0-batch", -1,
		"samples on the first GPU, with --split; the rest is divided evenly, as BalancedDataParallel's gpu0_bsz does")
	fs.Var(&s.fixed, "fixed", "memory on each GPU whatever its part, with --split: parameters, context")
	fs.Var(&s.perSample, "per-sample", "memory on each GPU for each sample of its part, with --split")
	fs.Var(&s.firstFixed, "first", "memory on the first GPU besides, with --split: gradients, optimizer")
	fs.Var(&s.gathered, "gathered",
		"memory on the first GPU for each sample of the whole batch, with --split: gathered outputs")
}

// check reads the flags.
func (s *splitting) check(cmd *cobra.Command, c *choice, m *subject) error {
	costs := []string{"fixed", "per-sample", "first", "gathered"}
	if !s.on {
		for _, f := range append(costs, "gpu0-batch") {
			if cmd.Flags().Changed(f) {
				return usagef("run: --%s goes with --split", f)
			}
		}
		return nil
	}
	if m.arg != "" {
		for _, f := range costs[:2] {
			if cmd.Flags().Changed(f) {
				return usagef("run: --%s and a MODEL both say what a part takes", f)
			}
		}
	}
	switch {
	case m.settings.batch < 1:
		return usagef("run: --split divides a batch, of --batch N samples")
	case c.need != 0 || c.share:
		return usagef("run: --split works out what each GPU needs: no --need, no --share").withHint(
			"a MODEL, or --fixed and --per-sample, say what a replica and a sample take")
	case m.arg == "" && s.perSample == 0 && s.fixed == 0:
		return usagef("run: --split needs to know what a replica and a sample take").withHint(
			"give a MODEL, or --fixed SIZE and --per-sample SIZE")
	case s.first < 0 && cmd.Flags().Changed("gpu0-batch"):
		return usagef("run: --gpu0-batch %d: want a number of samples from 0", s.first)
	case int64(s.first) > m.settings.batch:
		return usagef("run: --gpu0-batch %d is more than --batch %d", s.first, m.settings.batch)
	}
	return nil
}

// prepare works out the costs, and makes the request one for all GPUs that hold a replica.
func (s *splitting) prepare(e *env, cmd *cobra.Command, c *choice, m *subject, r *devices.Request) error {
	s.batch = int(m.settings.batch)
	s.cost = devices.SplitCost{Fixed: uint64(s.fixed), PerSample: uint64(s.perSample)}
	if m.arg != "" {
		var err error
		if s.cost, err = m.splitCost(e, cmd.CommandPath()); err != nil {
			return err
		}
		known := map[int]uint64{}
		s.exact = func(part int) (uint64, error) {
			if n, ok := known[part]; ok {
				return n, nil
			}
			n, err := m.need(e, cmd.CommandPath(), int64(part))
			if err == nil {
				n += uint64(c.margin)
				known[part] = n
			}
			return n, err
		}
	}
	if m.arg == "" || cmd.Flags().Changed("gathered") {
		s.cost.Gathered = uint64(s.gathered)
	}
	s.cost.First = uint64(s.firstFixed)
	s.cost.Fixed += r.Margin
	r.Bytes, r.Margin = s.cost.Fixed+s.cost.PerSample, 0
	if !cmd.Flags().Changed("policy") {
		r.Policy = devices.MostRoom // the first GPU gathers
	}
	if !cmd.Flags().Changed("count") {
		r.Count = devices.All
	}
	return nil
}

// shares returns what divides the batch over chosen GPUs and says what to reserve on each; nil when nothing is
// split. GPUs at the end that get nothing to do are let go.
func (s *splitting) shares() func([]devices.Device) ([]uint64, error) {
	if !s.on {
		return nil
	}
	return func(chosen []devices.Device) ([]uint64, error) {
		if s.first < 0 && len(chosen) > s.batch { // not all can have something to do
			if shares, err := s.over(chosen[:s.batch]); err == nil {
				return shares, nil
			}
		}
		return s.over(chosen)
	}
}

// over divides the batch over these GPUs and says what each part takes.
func (s *splitting) over(chosen []devices.Device) ([]uint64, error) {
	room := make([]uint64, len(chosen))
	for i := range chosen {
		room[i] = chosen[i].Available()
	}
	// The costs are a line through two estimates. Where a part's own estimate lies above it and does not fit, the
	// GPU's room is cut to what the line says of the largest part that does; at most once for each GPU.
	for range len(chosen) + 1 {
		parts, err := s.divide(room)
		if err != nil {
			return nil, err
		}
		shares, over := make([]uint64, len(parts)), -1
		for i, p := range parts {
			if shares[i], err = s.takes(i, p); err != nil {
				return nil, err
			}
			if over < 0 && shares[i] > chosen[i].Available() {
				over = i
			}
		}
		switch {
		case over < 0:
			s.parts = parts
			return shares, nil
		case s.first >= 0 || s.exact == nil:
			return nil, fmt.Errorf("%s on %s take %s, and it has %s", count(parts[over], "sample"), chosen[over].Label(),
				devices.FormatBytes(shares[over]), devices.FormatBytes(chosen[over].Available()))
		}
		if room[over], err = s.roomFor(over, parts[over], chosen[over].Available()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no division of a batch of %d over %d GPUs fits", s.batch, len(chosen))
}

// roomFor returns the room in which the line of costs sees the largest part, below tooMuch, whose estimate is within
// available.
func (s *splitting) roomFor(place, tooMuch int, available uint64) (uint64, error) {
	fits := 0
	for fits+1 < tooMuch {
		middle := (fits + tooMuch) / 2
		n, err := s.takes(place, middle)
		if err != nil {
			return 0, err
		}
		if n <= available {
			fits = middle
		} else {
			tooMuch = middle
		}
	}
	return s.cost.On(place, fits, s.batch), nil
}

// divide returns the samples for GPUs with this room, without the GPUs at the end that get none.
func (s *splitting) divide(room []uint64) ([]int, error) {
	var parts []int
	var err error
	if s.first >= 0 {
		parts, err = devices.Balanced(s.batch, len(room), s.first)
	} else {
		parts, err = devices.Split(s.batch, room, s.cost)
	}
	for len(parts) > 1 && parts[len(parts)-1] == 0 {
		parts = parts[:len(parts)-1]
	}
	return parts, err
}

// takes returns what a part takes on the GPU at place: as estimated where there is a model.
func (s *splitting) takes(place, part int) (uint64, error) {
	if s.exact == nil || part == 0 {
		return s.cost.On(place, part, s.batch), nil
	}
	n, err := s.exact(part)
	rest := devices.SplitCost{Fixed: n, First: s.cost.First, Gathered: s.cost.Gathered}
	return rest.On(place, 0, s.batch), err
}

// estimateAhead divides once before the GPUs are chosen in earnest, which happens under a lock: the parts that it
// tries are then estimated already.
func (s *splitting) estimateAhead(session *devices.Session, r devices.Request) {
	if s.exact == nil {
		return
	}
	if ds, err := session.List(); err == nil {
		if chosen, err := devices.Choose(ds, r); err == nil {
			s.shares()(chosen) // an error comes again when it counts
		}
	}
}

// environment tells the command its parts: the samples on each visible GPU, and on the first.
func (s *splitting) environment(chosen []devices.Device) []string {
	if !s.on {
		return nil
	}
	words := make([]string, len(chosen))
	for i := range chosen {
		words[i] = strconv.Itoa(s.parts[i])
	}
	return []string{
		"MEMESTIMATE_BATCH=" + strconv.Itoa(s.batch),
		"MEMESTIMATE_CHUNKS=" + strings.Join(words, ","),
		"MEMESTIMATE_GPU0_BATCH=" + words[0],
	}
}
