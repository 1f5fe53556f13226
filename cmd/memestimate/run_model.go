package main

import (
	"fmt"

	"github.com/spf13/pflag"

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

// estimate returns what a training step or an inference takes. A model that is not understood in full is told of on
// stderr.
func (m *subject) estimate(e *env, command string) (*estimate.Report, error) {
	in := resolve(m.arg)
	in.after = " -- COMMAND"
	r, err := m.settings.estimate(e, command, in)
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
func (m *subject) need(e *env, command string) (uint64, error) {
	r, err := m.estimate(e, command)
	if err != nil {
		return 0, err
	}
	bytes, _ := r.Peak.At(m.sure.value())
	return uint64(max(bytes, 0)), nil
}
