package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/spelling"
)

// rootCommand builds the command with some of its subcommands.
func rootCommand(e *env, subs []subcommand) *cobra.Command {
	var s settings
	var a questions
	var o output
	var version bool
	root := &cobra.Command{
		Use:   "memestimate WHAT",
		Short: "How much GPU memory a PyTorch training step takes, without a GPU",
		Long: `Memestimate tells how much GPU memory a PyTorch training step or inference takes, and
where it goes, without a GPU: a script is run on a pretended one, and of an ONNX graph
the step is simulated, allocation by allocation.

WHAT is a script of Python, a model of the Hugging Face Hub or its config.json, an ONNX
file, a recording, "-" for standard input, the name of a built-in model, or a snapshot
that PyTorch dumped. Of two recordings at two batch sizes every other --batch follows.

For a script, "memestimate train.py --help" tells its flags, which come before it.

Exit codes: 0 yes or ok, 1 the answer is no, 2 usage, 3 bad or unsupported input,
4 device, 5 output could not be written, 70 a bug of ours.`,
		Example: `  memestimate train.py --its-arguments
  memestimate meta-llama/Llama-3.1-8B --qlora 16 --seq 2048 --gpu rtx-4090
  memestimate resnet50 --batch 32 --precision amp-bf16 --gpu t4`,
		Args: cobra.ArbitraryArgs,

		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version {
				fmt.Fprintln(cmd.OutOrStdout(), versionLine())
				return nil
			}
			switch len(args) {
			case 0:
				return usagef("no model given").withHint("memestimate resnet50 --batch 32 tries a built-in one; memestimate " +
					"--help lists the commands")
			case 1:
				if near := mistyped(cmd, args[0]); near != "" {
					return usagef("%s: no such command, no such file, and no built-in model of that name",
						quoteArg(args[0])).withHint("%s", didYouMean(cmd.Name()+" "+near))
				}
				return runEstimate(e, cmd, resolve(args[0]), &s, &a, &o)
			}
			if in := resolve(args[0]); in.isRecording() {
				in.with(args[1:])
				return runEstimate(e, cmd, in, &s, &a, &o)
			}
			if near := nearestCommand(cmd, args[0]); near != "" {
				return usagef("unknown command %q", args[0]).withHint("%s", didYouMean(cmd.Name()+" "+near))
			}
			return usagef("one model at a time, but %q follows %q", args[1], args[0])
		},
	}
	// Cobra's own --version says more than the line unless it is given a template, with which every method of the program
	// is kept: see report/page/markup.go.
	root.Flags().BoolVarP(&version, "version", "v", false, "version for memestimate")
	s.flags(root.Flags())
	a.flags(root.Flags())
	o.flags(root.Flags(), estimateFormats...)
	prepare(e, root)
	root.SetHelpCommand(helpCommand())
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if cmd == root && !root.HasSubCommands() { // it was given a model, and lists all commands all the same
			addCommands(e, root, subcommands())
		}
		printHelp(e, cmd)
	})
	addCommands(e, root, subs)
	return root
}

// prepare gives a command without a parent its streams, its spelling of flags and what it says of wrong ones.
func prepare(e *env, cmd *cobra.Command) {
	e.help = helpWriter{w: e.stdout}
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetIn(e.stdin)
	cmd.SetOut(&e.help)
	cmd.SetErr(e.stderr)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagFailure(cmd, exitUsage, "", err) })
	cmd.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(spelling.Key(name))
	})
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(e, cmd) })
}

// flagFailure turns what pflag says about a flag into an error with this exit code, and the flag or the value that was
// meant, or else the command that would help. before is what the message begins with.
func flagFailure(cmd *cobra.Command, code int, before string, err error) error {
	x := fail(code, "%s%w", before, plainly(err))
	if meant := meantFlag(cmd, err); meant != "" {
		return x.withHint("%s", meant)
	}
	return x.withHint("%s --help lists the flags", cmd.CommandPath())
}

// meantFlag asks whether another flag or another value was meant; "" when none is near.
func meantFlag(cmd *cobra.Command, err error) string {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		typed := unknown.GetSpecifiedName()
		if all := unknown.GetSpecifiedShortnames(); len(all) > 1 { // -bacth, with one hyphen
			typed, _, _ = strings.Cut(all, "=")
		}
		if hint := sizeFlags[spelling.Key(typed)]; hint != "" {
			return hint
		}
		return didYouMean(nearestFlag(cmd, typed))
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return ""
	}
	if short := invalid.GetFlag().Shorthand; short != "" { // -batch, with one hyphen
		typed, _, _ := strings.Cut(invalid.GetValue(), "=")
		if meant := nearestFlag(cmd, short+typed); meant != "" {
			return didYouMean(meant)
		}
	}
	return hintOf(err)
}

// sizeFlags are flags that other programs have for the size of a dimension, which has a name here.
var sizeFlags = map[string]string{
	"seq": sequenceHint, "seq-len": sequenceHint, "seqlen": sequenceHint, "sequence-length": sequenceHint,
	"sequence":   sequenceHint,
	"max-length": sequenceHint, "max-seq-length": sequenceHint, "context-length": sequenceHint, "block-size": sequenceHint,
	"image-size": imageHint, "img-size": imageHint, "resolution": imageHint, "input-size": imageHint, "height": imageHint,
	"width": imageHint,
}

const (
	sequenceHint = "dimensions have names: --dim sequence=512"
	imageHint    = "dimensions have names: --dim height=256 --dim width=256"
)

// plainly names a flag as it is typed, and says what it wants where the standard library would name its own functions.
func plainly(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f := invalid.GetFlag()
	if want := plainWants[f.Value.Type()]; want != "" {
		return fmt.Errorf("invalid argument %q for --%s: want %s", invalid.GetValue(), f.Name, want)
	}
	why := invalid.Unwrap()
	if strings.HasPrefix(why.Error(), strconv.Quote(invalid.GetValue())) {
		return fmt.Errorf("--%s: %w", f.Name, why)
	}
	return fmt.Errorf("invalid argument %q for --%s: %w", invalid.GetValue(), f.Name, why)
}

// plainWants says what pflag's own types of values want.
var plainWants = map[string]string{
	"bool": "true or false", "int": "a whole number", "float64": "a number", "duration": "a time such as 2s",
}

// A helpWriter is stdout for what cobra writes itself, help and completions. Cobra forgets some errors
// of writing, so the first one is kept.
type helpWriter struct {
	w   io.Writer
	err error
}

// Write writes to stdout.
func (h *helpWriter) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	if err != nil && h.err == nil {
		h.err = fail(exitOutput, "stdout: %w", cause(err))
	}
	return n, err
}

// exactly accepts one argument for each of the names, and says which is missing
// or too many.
func exactly(names ...string) cobra.PositionalArgs {
	wanted := "none"
	if len(names) > 0 {
		wanted = "only " + strings.Join(names, " and ")
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s: no %s given", cmd.Name(), names[len(args)]).withHint("usage: %s", cmd.UseLine())
		case len(args) > len(names):
			return usagef("%s: unexpected argument %q, wanted %s", cmd.Name(), args[len(names)], wanted).
				withHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// atMost takes the one argument of that name, or none.
func atMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exactly(name)(cmd, args)
	}
}

// A subcommand is a command below memestimate, to be built where it is asked for.
type subcommand struct {
	name  string
	build func(*env) *cobra.Command
}

// subcommands are all of them. Each has a file of its own.
func subcommands() []subcommand {
	return append([]subcommand{
		{"table", tableCommand},
		{"fit", fitCommand},
		{"models", modelsCommand},
		{"gpus", gpusCommand},
		{"explain", explainCommand},
		{"snapshot", snapshotCommand},
		{"version", versionCommand},
	}, machineCommands()...)
}

// askedCommands returns the subcommands that a command line needs: the one that it names, none for a model that is
// there, and all for what lists or completes them or may be mistyped. To build all with their flags is a fifth of the
// shortest start.
func askedCommands(args []string) []subcommand {
	all := subcommands()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return all
	}
	for i, c := range all {
		if c.name == args[0] {
			return all[i : i+1]
		}
	}
	if _, err := models.Info(args[0]); err == nil || exists(args[0]) {
		return nil
	}
	return all
}

// addCommands adds subcommands to the command, and where these are all of them the completion of their names.
func addCommands(e *env, root *cobra.Command, subs []subcommand) {
	for _, s := range subs {
		root.AddCommand(s.build(e))
	}
	if root.CompletionOptions.DisableDefaultCmd = len(subs) < 2; root.CompletionOptions.DisableDefaultCmd {
		return
	}
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			shellsOnly(c)
		}
	}
}
