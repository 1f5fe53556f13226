//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// A recorder is the flags of a command that records with Python before it answers.
type recorder struct {
	python string
	keep   string // where the recording goes; "" where nobody wants it

	settings settings       // of the answer: flags about the step itself are not among them
	own      *pflag.FlagSet // what settings read
	answer   questions
	out      output
}

func (r *recorder) flags(fs *pflag.FlagSet) {
	addFlags(fs, []flagRow{
		{"python", 0, &r.python, "the Python to record with, a `PATH` or an environment's folder; by default that\n" +
			"of the active environment, else python3"},
		{"recording", 0, &r.keep, "keep the recording in this `FILE`, by custom *.mrec"},
	})
	r.own = pflag.NewFlagSet("", pflag.ContinueOnError)
	r.settings.flags(r.own)
	for _, name := range []string{"gpu", "memory-limit", "alloc-conf", "strict"} {
		fs.AddFlag(r.own.Lookup(name))
	}
	r.answer.flags(fs)
	for _, name := range []string{"what-if", "ways"} { // of a graph
		_ = fs.MarkHidden(name)
	}
	r.out.flags(fs, estimateFormats...)
}

// device returns the GPU that the program shall see: the one asked for where it is known.
func (r *recorder) device(e *env) (string, error) {
	if r.settings.run.gpu == "" {
		return "", nil
	}
	d, err := findGPU(e, r.settings.run.gpu)
	if err != nil {
		return "", err
	}
	if known, err := gpu.Find(d.ID); err != nil || known.ID != d.ID {
		return "", nil
	}
	return d.ID, nil
}

// scriptCommand is memestimate for a script.
func scriptCommand(e *env) *cobra.Command {
	var r recorder
	steps, world, rank, seconds := 0, 1, 0, 120.0
	var computed, once, eager bool
	cmd := &cobra.Command{
		Use:   "memestimate [flags] SCRIPT.py [its arguments]",
		Short: "How much GPU memory a script takes",
		Long: `Records a script on a pretended GPU, with the Python of the active environment, and tells how much GPU
memory it takes. The script runs unchanged; no GPU is needed, and its tensors on the GPU take no memory.

Flags come before the script: everything behind it is the script's own. A launcher may stand before it:
torchrun, accelerate launch, deepspeed, fabric run, python -m.`,
		Example: `  memestimate train.py --epochs 1
  memestimate --gpu rtx-4090 train.py --batch-size 16
  memestimate --python ~/env/bin/python torchrun --nproc-per-node 4 train.py`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{recordsFirst: "a script"},
		RunE: func(cmd *cobra.Command, args []string) error {
			words := []string{"--world-size", strconv.Itoa(world), "--rank", strconv.Itoa(rank)}
			if cmd.Flags().Changed("steps") {
				words = append(words, "--steps", strconv.Itoa(steps))
			}
			words = append(words, "--seconds", strconv.FormatFloat(seconds, 'g', -1, 64))
			first := len(words)
			for flag, on := range map[string]bool{"--real": computed, "--once": once, "--no-compile": eager} {
				if on {
					words = append(words, flag)
				}
			}
			slices.Sort(words[first:])
			name := scriptName(args)
			if isScript(args[0]) && !exists(args[0]) {
				return fail(exitInput, "%s: no such file", quoteArg(args[0]))
			}
			err := r.estimate(cmd.Context(), e, cmd, source{arg: name, name: filepath.Base(name)},
				func(device, file string) []string {
					if device != "" {
						words = append(words, "--gpu", device)
					}
					return slices.Concat([]string{"record", "--quiet", "--output", file}, words, args)
				})
			if hint := misplaced(e, name, args); hint != "" && (err == nil || codeOf(err) == exitNo) {
				tellHint(e.stderr, hint)
			}
			return aboutScript(err, name, args, cmd.Flags())
		},
	}
	prepare(e, cmd)
	fs := cmd.Flags()
	r.flags(fs)
	addFlags(fs, []flagRow{
		{"steps", 0, &steps, "end after so many training steps, and record each; 0: never (by default until the script\n" +
			"ends, without steps that are like others)"},
		{"seconds", 0, &seconds, "end after so long, where no --steps are given; 0: never"},
		{"world-size", 0, &world, "processes of the job; a launcher says it too"},
		{"rank", 0, &rank, "which of them is recorded"},
		{"real", 0, &computed, "compute on the CPU, too, for steps that depend on values; takes its time"},
		{"once", 0, &once, "do not run the script again to see what the answers to its questions decide"},
		{"no-compile", 0, &eager, "run eagerly what the script compiles"},
	})
	fs.SetInterspersed(false)
	return cmd
}

// scriptName is what the answer calls a script that a launcher may stand before.
func scriptName(args []string) string {
	for _, a := range args {
		if filepath.Ext(a) == ".py" {
			return a
		}
	}
	return args[0]
}

// aboutScript says of a script that failed that it said why, and of flags behind it that they were the script's.
func aboutScript(err error, name string, args []string, flags *pflag.FlagSet) error {
	x, ok := errors.AsType[*scriptError](err)
	if !ok {
		return err
	}
	failed := fail(exitInput, "%s: the script failed, as it says above (exit code %d)", quoteArg(name), x.code)
	for _, a := range args[1:] {
		flag, isFlag := strings.CutPrefix(a, "--")
		if flag, _, _ = strings.Cut(flag, "="); isFlag && flags.Lookup(flag) != nil {
			return failed.withHint("what is behind a script is its own: memestimate --%s ... %s", flag, hintArg(name))
		}
	}
	return failed
}

// answerFlags are those that ask something of the answer. A script that reads no arguments takes them silently.
var answerFlags = []string{"gpu", "budget", "memory-limit", "confidence", "format", "full"}

// misplaced is the hint on a flag of memestimate that went to a script, "" for none. One with a value that memestimate
// would refuse is the script's own: "--gpu 0".
func misplaced(e *env, name string, args []string) string {
	own := scriptCommand(e).Flags()
	behind := args[slices.Index(args, name)+1:]
	for i, a := range behind {
		long, value, joined := strings.Cut(a, "=")
		long, isFlag := strings.CutPrefix(long, "--")
		f := own.Lookup(long)
		if !isFlag || f == nil || !slices.Contains(answerFlags, f.Name) {
			continue
		}
		words := quoteArg(a)
		switch {
		case joined:
		case f.NoOptDefVal != "":
			value = f.NoOptDefVal
		case i+1 < len(behind):
			value = behind[i+1]
			words += " " + quoteArg(value)
		}
		if f.Value.Set(value) == nil && (f.Name != "format" || slices.Contains(estimateFormats, value)) {
			return fmt.Sprintf("%s went to %s; write it before the script to ask memestimate: memestimate %s %s", words,
				quoteArg(name), words, hintArg(name))
		}
	}
	return ""
}

// A scriptError says that what was recorded ended with an error, which it has told.
type scriptError struct{ code int }

// Error says with which code.
func (s *scriptError) Error() string { return fmt.Sprintf("exit code %d", s.code) }

// ready checks where the answer goes, and returns the GPU, the interpreter and the package to record with, which the
// caller deletes.
func (r *recorder) ready(e *env, in source) (device, path string, p *pythonPackage, err error) {
	if err = r.out.check(in); err == nil {
		device, err = r.device(e)
	}
	if err == nil {
		path, err = interpreter(e, r.python)
	}
	if err == nil {
		p, err = unpackPython(e)
	}
	return device, path, p, err
}

// estimate records with Python and answers the question about the recording. words are the arguments of the Python
// package for a device and a file.
func (r *recorder) estimate(ctx context.Context, e *env, cmd *cobra.Command, in source,
	words func(device, file string) []string) error {
	device, path, p, err := r.ready(e, in)
	if err != nil {
		return err
	}
	defer p.delete()
	in.file = r.keep
	if in.file == "" {
		folder, err := os.MkdirTemp("", "memestimate-")
		if err != nil {
			return fail(exitOutput, "a temporary folder: %w", cause(err))
		}
		defer os.RemoveAll(folder)
		in.file = filepath.Join(folder, "step.mrec")
	}
	e.say("recording %s with %s", quoteArg(in.arg), quoteArg(path))
	if err := p.run(ctx, e, path, "", e.stderr, words(device, in.file)...); err != nil {
		return err
	}
	in.made = true
	return runEstimate(e, cmd, in, &r.settings, &r.answer, &r.out)
}

// say tells a person at a terminal what is going on.
func (e *env) say(format string, args ...any) {
	if f, ok := e.stderr.(*os.File); ok && isTerminal(f) {
		fmt.Fprintf(f, "memestimate: "+format+"\n", args...)
	}
}
