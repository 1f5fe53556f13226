package main

import (
	"fmt"
	"io"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/snapshot/compare"
	"github.com/spf13/cobra"
)

// A comparing is a compare command as the command line describes it.
type comparing struct {
	settings settings
	device   deviceFlag
	out      output
}

// compareCommand sets a prediction beside a measurement.
func compareCommand(e *env) *cobra.Command {
	var c comparing
	cmd := &cobra.Command{
		Use:   "compare MODEL FILE",
		Short: "Set a predicted run beside a measured one",
		Long: `Compare simulates the run of MODEL and reads FILE, which torch.cuda.memory._dump_snapshot wrote of
the same run: the peaks, what held the memory there by category, the phases, and the tensors of
which one side has more, the largest disagreements first. Then one step of both request by request:
where they part for the first time, and what they hold within each module.

A snapshot names no categories. They follow from when memory was taken and given back and by whom,
so record with stacks. What was there before the recording began is unknown.`,
		Example: `  memestimate compare resnet50 measured.pickle --batch 32 --optimizer sgdm`,
		Args:    exactly("MODEL", "FILE"),

		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(e, cmd, args[0], args[1])
		},
	}
	c.settings.flags(cmd.Flags())
	c.device.flag(cmd)
	c.out.flags(cmd.Flags(), "text", "markdown", "json")
	return cmd
}

func (c *comparing) run(e *env, cmd *cobra.Command, arg, file string) error {
	in, measured := resolve(arg), snapshotSource(e, file)
	in.all = hintArg(arg) + " " + hintArg(file)
	if err := onceStdin([]string{arg, file}); err != nil {
		return err
	}
	if err := c.out.check(in, measured); err != nil {
		return err
	}
	r, err := c.settings.estimate(e, cmd.CommandPath(), in)
	if err != nil {
		return err
	}
	if r.Peak == nil {
		return fail(exitInput, "%s: there is no run to compare: it was not simulated", quoteArg(arg))
	}
	s, err := readSnapshot(e, file)
	if err != nil {
		return err
	}
	device, err := c.device.of(s, file)
	if err != nil {
		return err
	}
	played, err := s.Play(device)
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(file), err)
	}
	if played.History.Allocated.Bytes == 0 {
		return fail(exitInput, "%s: it shows no allocation of device %d: there is nothing to compare with", quoteArg(file),
			device)
	}
	played.Infer()
	both := compare.Runs(r, played)
	both.Model, both.File = r.Model.Name, measured.name
	return c.out.write(e, func(w io.Writer) error { return c.write(w, e, both) })
}

func (c *comparing) write(w io.Writer, e *env, both *compare.Comparison) error {
	if c.out.format == "json" {
		return report.JSON(w, both)
	}
	if c.out.format == "markdown" {
		fmt.Fprintf(w, "### `%s` and `%s`\n", report.Show(both.Model, 60), report.Show(both.File, 60))
	} else {
		fmt.Fprintf(w, "model %s, measured in %s\n", report.Show(both.Model, 60), report.Show(both.File, 60))
	}
	for _, g := range report.Comparison(both) {
		fmt.Fprintln(w)
		c.out.grid(w, e, g)
	}
	if len(both.Notes) > 0 {
		fmt.Fprintln(w)
	}
	return report.Notes(w, both.Notes)
}
