package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
)

// A subject is the MODEL that a launched command trains: its estimate takes the place of --need.
type subject struct {
	settings settings
	arg      string // "" when none was given
	sure     confidenceFlag
}

func (m *subject) flags(fs *pflag.FlagSet) { m.settings.flags(fs) }

// needFlags are the flags of a command that asks for what the MODEL takes.
func (m *subject) needFlags(fs *pflag.FlagSet) {
	m.flags(fs)
	m.sure.flags(fs, "the figure of the MODEL's estimate that is asked for")
}

// take reads the MODEL out of the arguments before --, of which dash is the number, and returns the
// command's.
func (m *subject) take(command, use string, args []string, dash int) ([]string, *exitError) {
	switch {
	case dash < 0 && len(args) > 1:
		return nil, usagef("%s: unexpected argument %q: a command comes after --", command, args[1]).withHint("usage: %s",
			use)
	case dash < 0:
		dash = len(args)
	case dash > 1:
		return nil, usagef("%s: unexpected argument %q before --", command, args[1]).withHint("usage: %s", use)
	}
	if dash == 1 {
		m.arg = args[0]
	}
	return args[dash:], nil
}

// missing says that no command was given, and what the word before -- was taken for.
func (m *subject) missing(command, use string) *exitError {
	if m.arg != "" {
		return usagef("%s: no command given: %q stands before -- and is the MODEL", command, m.arg).withHint("usage: %s", use)
	}
	return usagef("%s: no command given", command).withHint("usage: %s", use)
}

// estimate returns what a training step or an inference takes with a batch; 0 is the one that --batch
// says. A model that is not understood in full is told of on stderr.
func (m *subject) estimate(e *env, command string, batch int64) (*estimate.Report, error) {
	s := m.settings
	if batch != 0 {
		s.batch = batch
	}
	in := resolve(m.arg)
	in.after = " -- COMMAND"
	r, err := s.estimate(e, command, in)
	if err != nil {
		return nil, err
	}
	if r.Peak == nil {
		return nil, fail(exitInput, "%s: what it takes at its peak is not known", quoteArg(in.arg))
	}
	if !r.Coverage.Complete() {
		fmt.Fprintf(e.stderr, "memestimate: %s: %d of %d nodes are not modelled: it takes more than is estimated\n",
			quoteArg(in.arg), r.Coverage.Nodes-r.Coverage.Modelled, r.Coverage.Nodes)
	}
	return r, nil
}

// need returns what a step takes on one GPU, as sure as was asked for.
func (m *subject) need(e *env, command string, batch int64) (uint64, error) {
	r, err := m.estimate(e, command, batch)
	if err != nil {
		return 0, err
	}
	return m.of(r), nil
}

// of returns that figure of an estimate.
func (m *subject) of(r *estimate.Report) uint64 {
	bytes, _ := r.Peak.At(m.sure.value())
	return uint64(max(bytes, 0))
}

// splitCost draws a line through the estimates for half the batch and all of it: what a replica takes,
// and a sample. What the first GPU gathers is a copy of the model's last output for all samples, and its gradient.
func (m *subject) splitCost(e *env, command string) (devices.SplitCost, error) {
	batch := m.settings.batch
	all, err := m.estimate(e, command, batch)
	if err != nil {
		return devices.SplitCost{}, err
	}
	half := (batch + 1) / 2
	low, err := m.need(e, command, half)
	if err != nil {
		return devices.SplitCost{}, err
	}
	high := m.of(all)
	cost := devices.SplitCost{Fixed: high, Gathered: 2 * lastOutput(all) / uint64(batch)}
	if batch > half && high > low {
		n := uint64(batch - half)
		cost.PerSample = (high - low + n - 1) / n
		cost.Fixed = low - min(low, cost.PerSample*uint64(half))
	}
	return cost, nil
}

// elementBytes are the sizes of the types that outputs have.
var elementBytes = map[string]uint64{"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int64": 8, "int32": 4}

// lastOutput returns the bytes of the last layer's outputs.
func lastOutput(r *estimate.Report) (sum uint64) {
	if len(r.Layers) == 0 {
		return 0
	}
	for _, t := range r.Layers[len(r.Layers)-1].Outputs {
		n := elementBytes[t.DType]
		for _, d := range t.Shape {
			n *= uint64(d)
		}
		sum += n
	}
	return sum
}
