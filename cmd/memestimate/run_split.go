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

	parts []int // the samples on each GPU, once they are chosen
}

func (s *splitting) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.on, "split", false, "divide --batch over the GPUs (all that fit, or -n) for data parallelism, so that each part fits")
	fs.IntVarP(&s.batch, "batch", "b", 0, "samples of the whole batch, with --split")
	fs.IntVar(&s.first, "gpu0-batch", -1, "samples on the first GPU, with --split; the rest is divided evenly, as BalancedDataParallel's gpu0_bsz does")
	fs.Var(&s.fixed, "fixed", "memory on each GPU whatever its part, with --split: parameters, context")
	fs.Var(&s.perSample, "per-sample", "memory on each GPU for each sample of its part, with --split")
	fs.Var(&s.firstFixed, "first", "memory on the first GPU besides, with --split: gradients, optimizer")
	fs.Var(&s.gathered, "gathered", "memory on the first GPU for each sample of the whole batch, with --split: gathered outputs")
}

// check reads the flags, and makes the request one for all GPUs that hold a replica.
func (s *splitting) check(cmd *cobra.Command, c *choice, r *devices.Request) error {
	if !s.on {
		for _, f := range []string{"batch", "gpu0-batch", "fixed", "per-sample", "first", "gathered"} {
			if cmd.Flags().Changed(f) {
				return usagef("run: --%s goes with --split", f)
			}
		}
		return nil
	}
	switch {
	case s.batch < 1:
		return usagef("run: --split divides --batch N; %d samples cannot be divided", s.batch)
	case c.need != 0 || c.share:
		return usagef("run: --split works out what each GPU needs: no --need, no --share").withHint("--fixed and --per-sample say what a replica and a sample take")
	case s.perSample == 0 && s.fixed == 0:
		return usagef("run: --split needs to know what a replica and a sample take").withHint("give --fixed SIZE and --per-sample SIZE")
	case s.first > s.batch:
		return usagef("run: --gpu0-batch %d is more than --batch %d", s.first, s.batch)
	}
	s.cost = devices.SplitCost{Fixed: uint64(s.fixed), PerSample: uint64(s.perSample), First: uint64(s.firstFixed), Gathered: uint64(s.gathered)}
	r.Bytes = s.cost.Fixed + s.cost.PerSample
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
		available := make([]uint64, len(chosen))
		for i := range chosen {
			available[i] = chosen[i].Available()
		}
		var parts []int
		var err error
		if s.first >= 0 {
			parts, err = devices.Balanced(s.batch, len(chosen), s.first)
		} else {
			parts, err = devices.Split(s.batch, available, s.cost)
		}
		if err != nil {
			return nil, err
		}
		for len(parts) > 1 && parts[len(parts)-1] == 0 {
			parts = parts[:len(parts)-1]
		}
		shares := make([]uint64, len(parts))
		for i, p := range parts {
			if shares[i] = s.cost.On(i, p, s.batch); shares[i] > available[i] {
				return nil, fmt.Errorf("%d samples on %s take %s, and it has %s", p, chosen[i].Label(), devices.FormatBytes(shares[i]), devices.FormatBytes(available[i]))
			}
		}
		s.parts = parts
		return shares, nil
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
