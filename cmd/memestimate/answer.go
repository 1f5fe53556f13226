package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A look is the flags that say how much a terminal shows of a report, and how.
type look struct {
	full   bool
	given  func(flag string) bool // whether the command line has it
	colour string
}

func (l *look) flags(fs *pflag.FlagSet) {
	l.colour, l.given = "auto", fs.Changed
	addFlags(fs, []flagRow{
		{"full", 0, &l.full, "show the whole report, layer by layer"},
		{"color", 0, oneOf("", &l.colour, []string{"auto", "always", "never"}), "colours on a terminal: auto, always, never"},
	})
}

// short reports whether the answer goes to one screen, as a person wants it at a terminal and behind a pipe. Files and
// all other forms have the whole report.
func (l *look) short(o *output) bool {
	return !l.full && !l.given("stats") && o.format == "text" && (o.file == "" || o.file == "-")
}

// folded reports whether a table, which programs read from a pipe, is for a screen.
func (l *look) folded(e *env, o *output) bool { return l.short(o) && (e.terminal || l.given("full")) }

// of is what the terminal can show: colours by https://no-color.org and https://force-color.org, characters by the
// locale.
func (l *look) of(e *env, o *output) report.Look {
	colour := l.colour == "always"
	if l.colour == "auto" {
		force := e.getenv("FORCE_COLOR")
		plain := !e.terminal || e.getenv("NO_COLOR") != "" || e.getenv("TERM") == "dumb"
		colour = force != "" && force != "0" || force == "" && !plain
	}
	return report.Look{Width: o.width(e), Colour: colour, ASCII: !isUTF8(e)}
}

// isUTF8 reports whether the locale has UTF-8. One that says nothing is taken to have it, as in most containers.
func isUTF8(e *env) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := e.getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// shownGPUs are those of the known GPUs that an answer is held against, by their memory.
var shownGPUs = []string{"t4", "rtx-4090", "rtx-5090", "a100-40gb", "l40s", "a100-80gb", "h100-80gb", "h200"}

// gpuFits says which GPUs of these IDs the run fits, whose peak is p.
func gpuFits(ids []string, simulate func(estimate.Step) (*estimate.Peak, error), step estimate.Step,
	p *estimate.Peak) (out []report.GPUFit) {
	for _, id := range ids {
		g, err := gpu.Find(id)
		if err != nil {
			continue
		}
		on, err := estimate.On(simulate, step, g, p)
		if err != nil {
			continue
		}
		out = append(out, report.GPUFit{Name: gpuWord(g.ID), Fits: on.Fits(g.Memory, estimate.Predicted),
			Tight: !on.Fits(g.Memory, estimate.Safe)})
	}
	return out
}

// gpuWord writes the ID of a GPU as people do: "RTX 4090".
func gpuWord(id string) string { return strings.ToUpper(strings.ReplaceAll(id, "-", " ")) }

// screen works out what an answer on a terminal has beside the report.
func (a *questions) screen(b *estimate.Model, step estimate.Step, r *estimate.Report) {
	if r.Peak == nil {
		return
	}
	simulate := func(s estimate.Step) (*estimate.Peak, error) {
		sim, err := b.Simulate(s)
		if err != nil {
			return nil, err
		}
		return &sim.Peak, nil
	}
	a.gpus = gpuFits(shownGPUs, simulate, step, r.Peak)
	if !step.Limited {
		return
	}
	// A model whose batch is fixed has no other one to find.
	if f, err := b.Largest(step.GPU.Memory); err == nil {
		f.GPU = gpuWord(f.GPU)
		a.largest = f
	}
}

// mostRows is how many rows a table has on a terminal, which shows the answer above it.
const mostRows = 12

// answerText writes the answer, and after it the tables that were asked for beside.
func (a *questions) answerText(w io.Writer, in source, r *estimate.Report, l report.Look) {
	answer := report.Answer{Report: r, GPUs: a.gpus, Fitting: a.largest, Next: a.next(in, r),
		Brief: len(r.WhatIf) > 0}
	answer.Text(w, l)
	if answer.Brief {
		fmt.Fprintln(w)
		report.WhatIfText(w, r, l.Width)
	}
	for _, g := range report.AskedGrids(r) {
		more := len(g.Rows) - mostRows
		if more > 0 {
			g.Rows = g.Rows[:mostRows]
		}
		fmt.Fprintln(w)
		g.Text(w, l.Width)
		if more > 0 {
			fmt.Fprintf(w, "(%d more rows: --full)\n", more)
		}
	}
}

// next proposes what to try next.
func (a *questions) next(in source, r *estimate.Report) []string {
	out := []string{"--full"}
	if r.Peak != nil && !a.whatIf && !r.Settings.Recorded {
		out = append(out, "--what-if")
	}
	if r.Peak != nil {
		out = append(out, "--format html -o run.html")
	}
	if a.largest == nil && r.Settings.Batch > 0 && !in.made && len(hintArg(in.arg)) < 40 {
		out = append(out, "memestimate fit "+hintArg(in.arg)+" --gpu NAME")
	}
	return out
}
