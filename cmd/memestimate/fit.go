package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/devices"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A fitting is a fit command as the command line describes it.
type fitting struct {
	settings settings
	memory   uint64
	sure     estimate.Confidence
	look     look
	out      output
}

// fitCommand finds the largest batch that fits.
func fitCommand(e *env) *cobra.Command {
	var f fitting
	cmd := &cobra.Command{
		Use:   "fit MODEL [--gpu NAME] [--memory SIZE]",
		Short: "Find the largest batch that fits a GPU or a size",
		Long: `Fit finds the largest batch whose training step, or inference, fits the memory of a GPU or a size.
It doubles the batch until the run is too large and then halves the interval; every batch on the way
is simulated anew. The table shows them all, on a terminal those that matter unless --full is given.

A recording holds one batch size: two of them give all others, and a third is held against what the
two foretell.

--gpu alone is all of that GPU's memory, --memory alone so much of a GPU like the one that the rules
were measured on. Both are so much of that GPU, where others have the rest of it. --gpu auto is what
is free now on the GPU of this machine that has most.

A batch fits when the device memory that is predicted for it, what nvidia-smi would show, is at most
the memory given. It is safe when fewer than two runs in a hundred take more than that, three of
trainings from default exports, and likely when one in twenty does. --confidence says which of the
three is the answer.

Exit codes: 0 when a batch fits, 1 when not even one sample does.`,
		Example: `  memestimate fit resnet50 --gpu rtx-4090
  memestimate fit gpt2 --memory 24GiB --precision amp-bf16 --format json
  memestimate fit resnet50 --gpu auto`,
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
	addFlags(cmd.Flags(), []flagRow{
		{"memory", 0, limitFlag(&f.memory),
			"the memory that the process may take, such as 24GiB: of the --gpu where one is given"},
		confidenceFlag(&f.sure, "which batch is the answer"),
	})
	f.look.flags(cmd.Flags())
	cmd.Flags().Lookup("full").Usage = "show every batch that was simulated on a terminal too"
	f.out.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

func (f *fitting) run(e *env, cmd *cobra.Command, in source) error {
	if in.arg == "-" && e.stdinName != "" {
		in.name = e.stdinName
	}
	if err := f.out.check(in); err != nil {
		return err
	}
	if err := f.settings.run.contradiction(); err != nil {
		return err
	}
	asked := f.settings.run
	live := asked.gpu == "auto"
	if live {
		asked.gpu = "" // by what is free of it, below
	}
	step, err := asked.asked(e)
	if err != nil {
		return err
	}
	memory, most := int64(f.memory), step.GPU.Memory
	if live {
		if step.GPU, most, err = freest(e); err != nil {
			return err
		}
		step.Limited = true
	}
	switch {
	case f.settings.batch != 0:
		return usagef("fit: --batch is what it finds")
	case step.MemoryLimit != 0:
		return usagef("fit: --memory SIZE says what the run must fit, not --memory-limit")
	case memory == 0 && !step.Limited:
		return usagef("fit: into how much memory? give --gpu NAME or --memory SIZE").withHint(
			"for example: memestimate fit %s --gpu a100-80gb", hintArg(in.arg))
	}
	if step.Limited && memory > most {
		return usagef("fit: --memory %s is more than %s has: %s", report.Size(memory), step.GPU.ID, report.Size(most))
	}
	if memory == 0 {
		memory = most
	}
	answer, err := f.search(e, cmd.CommandPath(), in, step, memory)
	if err != nil {
		return err
	}
	if err := f.out.write(e, func(w io.Writer) error { return f.write(w, e, answer) }); err != nil {
		return err
	}
	if answer.Largest(f.sure) == 0 {
		return fail(exitNo, "%s: not even one sample fits %s by what is %s", quoteArg(in.arg), report.Size(answer.Memory),
			f.sure)
	}
	return nil
}

// freest returns the GPU of this machine with most memory available, and how much that is: less what reservations still
// have coming.
func freest(e *env) (gpu.Device, int64, error) {
	var g gpuSource
	list, err := g.look(e)
	if err != nil {
		return gpu.Device{}, 0, err
	}
	tellVisible(e, list.Devices)
	chosen, err := devices.Choose(list.Devices, devices.Request{Count: 1, Policy: devices.MostRoom,
		Visible: visibleDevices(e), PCIOrder: pciOrder(e), Held: e.getenv(devices.HeldVariable)})
	if err != nil {
		return gpu.Device{}, 0, fail(exitDevice, "fit: --gpu auto: %w", err)
	}
	return kindOf(&chosen[0]), int64(chosen[0].Available()), nil
}

// search finds the batch.
func (f *fitting) search(e *env, command string, in source, step *estimate.Step,
	memory int64) (*estimate.Fitting, error) {
	p := startProgress(e, "fitting "+quoteArg(in.arg))
	defer p.done()
	rec, err := in.recording(e)
	if err != nil {
		return nil, err
	}
	if rec != nil {
		return f.recorded(e, in, rec, step, memory)
	}
	m, err := f.settings.read(e, in)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	opt := f.settings.options(in)
	opt.Step = step
	answer, err := estimate.Largest(m, opt, memory)
	switch {
	case errors.Is(err, estimate.ErrNoBatch):
		return nil, fail(exitUsage, "%s: %w", quoteArg(in.arg), err)
	case err != nil:
		return nil, f.settings.explain(err, command, in, m)
	}
	return answer, nil
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
	answer, err := estimate.LargestRecorded(family, estimate.Options{Name: in.name, Step: step}, memory)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", in.all, err)
	}
	answer.Notes = append(answer.Notes, notes...)
	return answer, nil
}

func (f *fitting) write(w io.Writer, e *env, r *estimate.Fitting) error {
	if f.out.format == "json" {
		r.Schema = fitForm
		return report.JSON(w, r)
	}
	short, curve := f.look.short(&f.out), report.FitCurve(r, f.out.format == "csv")
	if short {
		curve = report.ShortFitCurve(r)
	}
	if f.out.format == "csv" {
		return curve.CSV(w)
	}
	sentences := report.FitSentences(r, f.sure)
	if short {
		report.FitScreen(w, r, f.sure, f.look.of(e, &f.out))
		sentences = nil
	}
	for _, s := range sentences {
		if f.out.format == "markdown" {
			s = "- `" + s + "`"
		}
		fmt.Fprintln(w, s)
	}
	fmt.Fprintln(w)
	f.out.grid(w, e, curve)
	if more := len(r.Curve) - len(curve.Rows); more > 0 {
		fmt.Fprintf(w, "(%d more batches were simulated: --full)\n", more)
	}
	return report.Notes(w, r.Notes)
}
