package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/report"
)

// A fitting is a fit command as the command line describes it.
type fitting struct {
	settings settings
	memory   limitValue
	upper    bool
	out      output
}

// fitCommand finds the largest batch that fits.
func fitCommand(e *env) *cobra.Command {
	var f fitting
	cmd := &cobra.Command{
		Use:   "fit MODEL [--gpu NAME] [--memory SIZE]",
		Short: "Find the largest batch that fits a GPU or a size",
		Long: `Fit finds the largest batch whose training step, or inference, fits the memory of a GPU or a size. It doubles the
batch until the run is too large and then halves the interval; every batch on the way is simulated anew, and the table shows
them all.

A recording holds one batch size: two of them give all others, and a third is held against what the two foretell.

--gpu alone is all of that GPU's memory, --memory alone so much of a GPU like the one that the rules were measured on. Both are
so much of that GPU, where others have the rest of it.

A batch fits when the device memory that is predicted for it, what nvidia-smi would show, is at most the memory given. It is safe
when its upper bound is as well. With --upper-bound the safe batch is the answer.

Exit codes: 0 when a batch fits, 1 when not even one sample does.`,
		Example: `  memestimate fit resnet50 --gpu rtx-4090
  memestimate fit gpt2 --memory 24GiB --precision amp-bf16 --format json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && resolve(args[0]).isRecording() {
				return nil
			}
			return exactly("MODEL")(cmd, args)
		},

		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := resolve(args[0])
			if len(args) > 1 {
				in.with(args[1:])
			}
			return f.run(e, cmd, in)
		},
	}
	f.settings.finds = true
	f.settings.flags(cmd.Flags())
	cmd.Flags().Var(&f.memory, "memory",
		"the memory that the process may take, such as 24GiB: of the --gpu where one is given")
	cmd.Flags().BoolVar(&f.upper, "upper-bound", false, "answer with the batch whose upper bound fits")
	f.out.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

func (f *fitting) run(e *env, cmd *cobra.Command, in source) error {
	if err := f.out.check(in, fileSource(f.settings.run.profile)); err != nil {
		return err
	}
	if err := f.settings.run.contradiction(); err != nil {
		return err
	}
	step, err := f.settings.run.asked(e)
	if err != nil {
		return err
	}
	memory := int64(f.memory)
	switch {
	case f.settings.batch != 0:
		return usagef("fit: --batch is what it finds")
	case step.MemoryLimit != 0:
		return usagef("fit: --memory SIZE says what the run must fit, not --memory-limit")
	case memory == 0 && !step.Limited:
		return usagef("fit: into how much memory? give --gpu NAME or --memory SIZE").withHint("for example: memestimate fit %s --gpu a100-80gb", hintArg(in.arg))
	case memory == 0:
		memory = step.GPU.Memory
	case step.Limited && memory > step.GPU.Memory:
		return usagef("fit: --memory %s is more than %s has: %s", report.Size(memory), step.GPU.ID,
			report.Size(step.GPU.Memory))
	}
	r, err := f.search(e, cmd.CommandPath(), in, step, memory)
	if err != nil {
		return err
	}
	if err := f.out.write(e, func(w io.Writer) error { return f.write(w, e, r) }); err != nil {
		return err
	}
	if r.Batch == 0 || f.upper && r.Safe == 0 {
		return fail(exitNo, "%s: not even one sample fits %s", quoteArg(in.arg), report.Size(memory))
	}
	return nil
}

// search reads the model and finds the batch.
func (f *fitting) search(e *env, command string, in source, step *estimate.Step, memory int64) (*estimate.Fitting,
	error) {
	p := startProgress(e, "fitting "+quoteArg(in.arg))
	defer p.done()
	if rec, err := in.recording(e); rec != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return f.recorded(e, in, rec, step, memory)
	}
	m, checked, err := f.settings.read(e, in, p)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	opt := f.settings.options(in.name)
	opt.Step = step
	r, err := estimate.Largest(m, opt, memory)
	switch {
	case errors.Is(err, estimate.ErrNoBatch):
		return nil, fail(exitUsage, "%s: %w", quoteArg(in.arg), err)
	case err != nil:
		return nil, f.settings.explain(err, command, in, m)
	}
	r.Notes = append(r.Notes, checked...)
	return r, nil
}

// recorded finds the batch of a program that was recorded at two batch sizes.
func (f *fitting) recorded(e *env, in source, rec *recording.Recording, step *estimate.Step,
	memory int64) (*estimate.Fitting, error) {
	if err := fixed(in, f.settings.run.given); err != nil {
		return nil, err
	}
	if len(in.others) == 0 {
		return nil, usagef("fit: %s is a recording of one batch size: give another at a second one",
			quoteArg(in.arg)).withHint("memestimate fit ONE.mrec TWO.mrec --gpu NAME")
	}
	family, notes, err := in.family(e, rec)
	if err != nil {
		return nil, err
	}
	r, err := estimate.LargestRecorded(family, estimate.Options{Name: in.name, Step: step}, memory)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", in.all, err)
	}
	r.Notes = append(r.Notes, notes...)
	return r, nil
}

func (f *fitting) write(w io.Writer, e *env, r *estimate.Fitting) error {
	if f.out.format == "json" {
		r.Schema = fitForm
		return encodeJSON(w, r)
	}
	curve := report.FitCurve(r, f.out.format == "csv")
	if f.out.format == "csv" {
		return curve.CSV(w)
	}
	for _, s := range report.FitSentences(r, f.upper) {
		if f.out.format == "markdown" {
			s = "- `" + s + "`"
		}
		if _, err := fmt.Fprintln(w, s); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	if err := f.out.grid(w, e, curve); err != nil {
		return err
	}
	return report.Notes(w, r.Notes)
}
