//go:build !js

package main

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
)

// diffCommand tells what changes between two models.
func diffCommand(e *env) *cobra.Command {
	var m matrix
	var o output
	var changes []string
	var most *budget.Growth // nil is no limit
	var shown look
	about := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	cmd := &cobra.Command{
		Use:   "diff BASE HEAD",
		Short: "Tell what changes between two models: totals, peak and layers",
		Long: `Tell what changes from BASE to HEAD: the totals and the peak before and after, and the layers
that are added, removed, changed or renamed. Layers are matched by name and by structure, so that one
which moved is neither removed nor added.

BASE and HEAD are paths, names of built-in models, or git:REV:PATH for a file of a git revision.
Settings with several values make a matrix: --batch 1,32 --precision fp32,amp-bf16 are four cases. A
--dim or an --input that only one of the models has is for that one.`,
		Example: `  memestimate diff resnet18 resnet50 --batch 32
  memestimate diff git:origin/main:model.onnx model.onnx --batch 1,32 --precision fp32,amp-bf16
  memestimate diff gpt2 gpt2 --batch 8 --base optimizer=sgd`,
		Args:              exactly("BASE", "HEAD"),
		ValidArgsFunction: completeModels(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			base, head := resolve(args[0]), resolve(args[1])
			if err := o.check(base, head); err != nil {
				return err
			}
			if base.arg == "-" && head.arg == "-" {
				return usagef("only one of the models can be standard input")
			}
			base.all = hintArg(base.arg) + " " + hintArg(head.arg)
			head.all = base.all
			d, err := m.diff(e, cmd.CommandPath(), base, head, about, changes)
			if err != nil {
				return err
			}
			err = o.write(e, func(w io.Writer) error {
				switch o.format {
				case "markdown":
					return report.DiffMarkdown(w, d, report.MarkdownLimit)
				case "csv":
					return report.DiffCSV(w, d)
				case "json":
					return report.JSON(w, d)
				}
				layers := 0
				if shown.folded(e, &o) {
					layers = screenLayers
				}
				return report.DiffText(w, d, o.width(e), layers)
			})
			if err != nil || most == nil {
				return err
			}
			return growthVerdict(most, d)
		},
	}
	m.flags(about)
	cmd.Flags().AddFlagSet(about)
	m.run.given = cmd.Flags()
	addFlags(cmd.Flags(), []flagRow{
		{"base", 0, &changes, "a setting of BASE that differs, as NAME=VALUE with the name of a flag; may be given again"},
		{"max-growth", 0, growthFlag(&most),
			"fail, with exit code 1, when the device memory at the peak grows by more: a size such as 200MiB, or 5%"},
	})
	shown.flags(cmd.Flags())
	cmd.Flags().Lookup("full").Usage = "show every layer that changes on a terminal too"
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

// screenLayers is for how many layers of a diff a terminal has room below the totals.
const screenLayers = 3

// diff estimates both models under all settings and compares them.
func (m *matrix) diff(e *env, command string, base, head source, fs *pflag.FlagSet,
	changes []string) (*diff.Diff, error) {
	p := startProgress(e, "comparing "+quoteArg(base.arg)+" and "+quoteArg(head.arg))
	defer p.done()
	b, err := openModel(e, base, &m.settings)
	if err != nil {
		return nil, err
	}
	defer b.close()
	h, err := openModel(e, head, &m.settings)
	if err != nil {
		return nil, err
	}
	defer h.close()
	b.other, h.other = h, b
	d := &diff.Diff{Schema: diff.Schema, Cases: []diff.Case{}}
	err = m.each(false, func(label string) error {
		before, after := b, h
		rh, err := after.report(e, command, &m.settings)
		if err != nil {
			return err
		}
		rh.Simulation = nil // the events of a large model's run take as much memory as what is compared
		return m.with(fs, changes, func() error {
			rb, err := before.report(e, command, &m.settings)
			if err != nil {
				return err
			}
			rb.Simulation = nil
			d.Base, d.Head = rb.Model, rh.Model
			d.Cases = append(d.Cases, diff.Compare(label, rb, rh))
			return nil
		})
	})
	return d, err
}

// growthVerdict is the error for a diff of which the device memory grows by too much.
func growthVerdict(most *budget.Growth, d *diff.Diff) error {
	for i := range d.Cases {
		t := d.Cases[i].Total(diff.Device)
		if t.Name == "" {
			return fail(exitInput, "whether the memory grows is not known: the run was not simulated")
		}
		if !most.Allows(t.Before, t.After) {
			label := d.Cases[i].Label
			if label != "" {
				label += ": "
			}
			return fail(exitNo, "%sthe device memory grows by %s (%s), more than %s", label, report.Size(t.Change),
				report.Percent(t), most)
		}
	}
	return nil
}

// growthFlag takes a share or a size.
func growthFlag(to **budget.Growth) *parsed[*budget.Growth] {
	return &parsed[*budget.Growth]{to: to, kind: "GROWTH", read: func(s string) (*budget.Growth, error) {
		g, err := budget.ParseGrowth(s)
		return &g, err
	}, show: func(g *budget.Growth) string {
		if g == nil {
			return ""
		}
		return g.String()
	}}
}
