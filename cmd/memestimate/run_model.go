package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
)

// A subject is what a command runs or places: how much it takes follows from the estimate of a MODEL, or --need says it.
type subject struct {
	settings settings
	arg      string // "" when none was given
	sure     estimate.Confidence
	need     uint64
	margin   uint64
}

func (m *subject) flags(fs *pflag.FlagSet) { m.settings.flags(fs) }

// needFlags are the flags of a command that asks for what the MODEL takes.
func (m *subject) needFlags(fs *pflag.FlagSet) {
	addFlags(fs, []flagRow{
		{"need", 0, limitFlag(&m.need), "memory that the command takes on each GPU, such as 20GiB; instead of a MODEL"},
		{"margin", 0, bytesFlag(&m.margin), "memory that must be there beyond that"},
	})
	m.flags(fs)
	addFlags(fs, []flagRow{confidenceFlag(&m.sure, "the figure of the MODEL's estimate that is asked for")})
}

// asked returns what the command takes on one GPU, as sure as was asked for, without the margin.
func (m *subject) asked(e *env, cmd *cobra.Command) (uint64, error) {
	switch {
	case m.arg != "" && m.need != 0:
		return 0, usagef("%s: --need and a MODEL both say what is needed", cmd.Name())
	case m.arg == "" && m.need == 0:
		return 0, usagef("%s: how much memory does it take? give --need or a MODEL", cmd.Name()).
			withHint("for example: %s --need 20GiB", cmd.CommandPath())
	case m.arg == "" && modelFlag(cmd) != "":
		return 0, usagef("%s: --%s goes with a MODEL", cmd.Name(), modelFlag(cmd))
	case m.arg == "":
		return m.need, nil
	}
	r, err := m.estimate(e, cmd.CommandPath())
	if err != nil {
		return 0, err
	}
	bytes, _ := r.Peak.At(m.sure)
	return uint64(max(bytes, 0)), nil
}

// modelFlag returns a flag about a model that was given, or "".
func modelFlag(cmd *cobra.Command) string {
	for _, name := range flagsOf(0, (&settings{}).rows()) {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
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
