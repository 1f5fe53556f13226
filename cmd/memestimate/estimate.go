package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
)

// estimateFormats are the forms of a whole report.
var estimateFormats = []string{"text", "markdown", "csv", "json", "html", "modelsize"}

// runEstimate is the main job: a MODEL in, a report out. The report is written whatever it says;
// that the run does not fit is an error after it.
func runEstimate(e *env, cmd *cobra.Command, in source, s *settings, a *questions, o *output) error {
	if in.arg == "-" && e.stdinName != "" {
		in.name = e.stdinName
	}
	if err := o.check(in); err != nil {
		return err
	}
	if cmd.Flags().Changed("confidence") && a.budget == 0 && s.run.gpu == "" {
		return usagef("--confidence goes with --budget or --gpu")
	}
	if err := notRead("snapshot", a.snapshot, in); err != nil {
		return err
	}
	if sameFile(a.snapshot, o.file) {
		return usagef("--snapshot %s is the --output as well", quoteArg(a.snapshot))
	}
	if a.snapshot == "-" {
		return usagef("--snapshot - is standard output, which has the report; want the name of a file")
	}
	if o.format == "csv" || o.format == "modelsize" {
		for _, name := range []string{"stats", "what-if"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s has no place in --format %s, want text, markdown, json or html", name, o.format)
			}
		}
	}
	a.drawn = o.format == "html"
	a.record = a.snapshot != "" || a.drawn
	a.short = a.look.short(o)
	a.weigh = o.format != "csv" && o.format != "modelsize" && !e.unweighed
	o.folded = a.short
	r, err := s.answer(e, cmd.CommandPath(), in, a)
	if err != nil {
		return err
	}
	if o.format == "json" && a.snapshot == "" {
		r.Simulation = nil // which JSON does not have
	}
	err = o.write(e, func(w io.Writer) error {
		switch o.format {
		case "markdown":
			return report.Markdown(w, r)
		case "csv":
			return report.CSV(w, r)
		case "json":
			return report.JSON(w, r)
		case "html":
			return a.html(w, in, r)
		case "modelsize":
			return report.ModelSize(w, r)
		}
		if a.short {
			a.answerText(w, in, r, a.look.of(e, o))
			return nil
		}
		return report.Text(w, r, o.width(e))
	})
	if err == nil && a.snapshot != "" {
		r.Layers = nil // a snapshot has none, and takes as much memory
		err = writeSnapshot(a.snapshot, in, s.run.step.AllocConf, r)
	}
	if err == nil {
		err = verdict(in, r, a.budget > 0 || s.run.limit > 0 || s.run.gpu != "")
		if x, ok := errors.AsType[*exitError](err); ok && x.code == exitNo && a.short && e.terminal {
			x.err = nil // the answer has said it, on the same screen
		}
	}
	return err
}

// estimate reads a model and answers the question that the settings ask.
func (s *settings) estimate(e *env, command string, in source) (*estimate.Report, error) {
	return s.answer(e, command, in, &questions{})
}

// answer is estimate with what else the main command is asked.
func (s *settings) answer(e *env, command string, in source, a *questions) (*estimate.Report, error) {
	if err := s.run.contradiction(); err != nil {
		return nil, err
	}
	step, err := s.run.asked(e)
	if err != nil {
		return nil, err
	}
	p := startProgress(e, "reading "+quoteArg(in.arg))
	defer p.done()
	if rec, err := in.recording(e); rec != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return s.recorded(e, in, rec, a)
	}
	m, err := s.read(e, in)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p.now("estimating " + quoteArg(in.arg))
	opt := s.options(in)
	step.Record = a.record
	opt.Step, opt.Weigh = step, a.weigh
	bound, err := estimate.Bind(m, opt)
	if err != nil {
		return nil, s.explain(err, command, in, m)
	}
	r, err := bound.Simulated(opt)
	if err != nil {
		return nil, s.explain(err, command, in, m)
	}
	r.Judge(*step, int64(a.budget), a.sure)
	if a.stats && r.Peak != nil {
		r.Stats = r.Simulation.Replay.Stats.Figures()
	}
	if (a.whatIf || a.ways) && !a.short && !a.record && r.Simulation != nil {
		r.Simulation.Shed() // several runs follow, and nothing that is written has its events
	}
	if (a.whatIf || a.drawn && !e.unweighed) && r.Peak != nil {
		p.now("trying other settings on " + quoteArg(in.arg))
		step.Infer = r.Settings.Mode != "train" // where there was nothing to train
		r.WhatIf = bound.WhatIf(m, opt, a.sure)
	}
	if err := a.fitting(p, in, bound, r, step); err != nil {
		return nil, err
	}
	if a.short || a.drawn {
		a.screen(bound, *step, r)
	}
	if err := bound.AddLayers(r); err != nil {
		return nil, s.explain(err, command, in, m)
	}
	return r, nil
}

// fitting answers how a training step would fit, where that is asked for.
func (a *questions) fitting(p *progress, in source, bound *estimate.Model, r *estimate.Report,
	step *estimate.Step) error {
	if !a.ways {
		return nil
	}
	memory := int64(a.budget)
	if memory == 0 && step.Limited {
		memory = step.GPU.Memory
	}
	switch {
	case memory == 0:
		return usagef("--ways: fit into what? give --gpu NAME or --budget SIZE")
	case r.Settings.Mode != "train" || r.Simulation == nil:
		return usagef("--ways is about a training step, and none was simulated")
	}
	p.now("trying ways to fit on " + quoteArg(in.arg))
	ways, err := bound.Ways(*step, memory, a.sure)
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(in.arg), err)
	}
	r.Ways = ways
	return nil
}

// read opens a model, whose Close must be called.
func (s *settings) read(e *env, in source) (*onnxload.Model, error) {
	in.sized = s.resizes(in)
	return in.open(e)
}

// resizes reports whether --dim gives a built-in model another size than its own.
func (s *settings) resizes(in source) bool {
	if !in.builtIn() {
		return false
	}
	info, err := models.Info(in.arg)
	return err == nil && slices.ContainsFunc(info.Sizes, func(name string) bool { return s.dims[name] > 0 })
}

// explain gives an error about a model its place, its exit code and, where one
// helps, a hint.
func (s *settings) explain(err error, command string, in source, m *onnxload.Model) error {
	if _, ok := errors.AsType[*shape.BindError](err); ok {
		text, meant, asked := strings.Cut(err.Error(), "; did you mean ")
		x := usagef("%s: --%s", quoteArg(in.arg), text)
		if asked {
			x = x.withHint("did you mean %s", meant)
		}
		return x
	}
	err = fmt.Errorf("%s: %w", quoteArg(in.arg), err)
	if unbound, ok := errors.AsType[*estimate.UnboundError](err); ok {
		return fail(exitUsage, "%w", err).withHint("%s", s.completing(command, in, m, unbound.Dims))
	}
	if errors.Is(err, estimate.ErrIncomplete) {
		return fail(exitInput, "%w", err).withHint("without --strict the answer is a lower bound")
	}
	if fixed := fixedBatch(m); fixed > 0 && (s.batch > 0 && s.batch != fixed || len(s.inputs) > 0) {
		return fail(exitInput, "%w", err).withHint("the export's batch is fixed at %d, in constants too: "+
			"export with dynamic_shapes (or dynamic_axes), or leave it at that", fixed)
	}
	return fail(exitInput, "%w", err)
}

// fixedBatch returns the leading dimension of the model's first input where the export fixed it, else 0.
func fixedBatch(m *onnxload.Model) int64 {
	if len(m.Graph.Inputs) == 0 {
		return 0
	}
	if dims := m.Values[m.Graph.Inputs[0]].Type().Dims; len(dims) > 0 && dims[0].Known {
		return dims[0].Size
	}
	return 0
}
