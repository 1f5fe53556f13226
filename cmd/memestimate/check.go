//go:build !js

package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
)

// A checking is the flags that say which budget file to hold models against.
type checking struct {
	config   string
	base     string
	fetch    bool
	annotate bool
	sure     estimate.Confidence // "" is what the file says
}

func (c *checking) flags(fs *pflag.FlagSet) {
	c.config = budget.Name
	addFlags(fs, []flagRow{
		{"config c", 0, &c.config, "the budget file"},
		{"base", 0, &c.base, "the git revision that growth is measured from, in place of the one in the file"},
		{"fetch", 0, &c.fetch, "fetch the base from origin where the clone lacks it, as a shallow one does"},
		{"confidence", 0, oneOf("", (*string)(&c.sure), confidences),
			"the figure that limits of device memory and GPUs are held against, in place of what the file\nsays: " +
				strings.Join(confidences, ", ")},
		{"annotate", 0, &c.annotate, "also write GitHub's annotations on the budget file, to stderr"},
	})
}

// checkCommand holds the models of a repository against its budget file.
func checkCommand(e *env) *cobra.Command {
	var c checking
	var o output
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Hold the models of a repository against their budgets",
		Long: `Estimate all models that memestimate.yaml names, each with the settings it gives, and hold them
against its limits. Exit code 1 when one is over, and a line on stderr for each that is; 3 when
something could not be checked, which is never taken for within budget.

Growth is measured from --base, from base in the file, or from what the surroundings say: what a
pull request starts from or a push found, outside of CI HEAD. A file that moved is compared with
what it was.`,
		Example: `  memestimate check
  memestimate check --base origin/main --format markdown`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := o.check(fileSource(c.config)); err != nil {
				return err
			}
			out, err := c.run(e, false, &o)
			if err != nil {
				return err
			}
			if out.Err == nil || o.format == "markdown" { // which says what went wrong
				err := o.write(e, func(w io.Writer) error {
					switch o.format {
					case "json":
						return report.JSON(w, out.Result())
					case "markdown":
						_, err := io.WriteString(w, out.Comment(report.MarkdownLimit, false))
						return err
					}
					return o.grid(w, e, out.Table(o.format == "csv"))
				})
				if err != nil {
					return err
				}
			}
			return c.verdict(e, out)
		},
	}
	c.flags(cmd.Flags())
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

// run makes the check. With compare all models are compared with the base, else only where a limit needs it. The output
// may not be one of them.
func (c *checking) run(e *env, compare bool, o *output) (*gate.Outcome, error) {
	var p *progress
	check := &gate.Check{
		Config: c.config, Base: c.base, Fetch: c.fetch, Confidence: c.sure, Compare: compare,
		Getenv: e.getenv, Now: e.time(), Version: shortVersion(), Read: readSmall, Cases: casesOf,
		Found: func(all []*gate.Model) error {
			for _, m := range all {
				if err := notRead("output", o.file, fileSource(m.File)); err != nil {
					return err
				}
			}
			p = startProgress(e, fmt.Sprintf("estimating %d models", len(all)))
			return nil
		},
		Estimate: e.estimateChecked,
	}
	out := check.Run()
	if p != nil {
		p.done()
	}
	if errors.Is(out.Err, errRead) {
		return nil, out.Err
	}
	if check.Base != "" && errors.Is(out.Err, git.ErrRevision) {
		out.Err = fail(exitUsage, "%w", out.Err)
	}
	if at, ok := errors.AsType[*budget.Error](out.Err); ok && at.Key != "" {
		if near := nearest(at.Key, at.Known); near != "" {
			out.Err = fail(exitInput, "%w", out.Err).withHint("did you mean %s?", near)
		}
	}
	return out, nil
}

// casesOf checks the settings of a budget file and says how many cases they are.
func casesOf(f *budget.File, s budget.Settings) (int, error) {
	m, err := matrixOf(f, s)
	if err != nil {
		return 0, err
	}
	return m.cases(), nil
}

// matrixOf sets the flags that a budget file's settings stand for.
func matrixOf(f *budget.File, s budget.Settings) (*matrix, error) {
	m := &matrix{}
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	m.flags(flags)
	known := settingNames()
	for _, x := range s {
		values := x.Values
		if !slices.Contains(known, x.Name) {
			err := f.At(x.Line, "settings has no key %q, want one of %s", x.Name, strings.Join(known, ", "))
			return nil, fail(exitInput, "%w", err).withHint("%s", didYouMean(nearest(x.Name, known)))
		}
		if x.Name == "gpu" {
			for _, v := range values {
				if err := gate.ExactGPU(v); err != nil {
					return nil, f.At(x.Line, "%w", err)
				}
			}
		}
		if slices.Contains(axes, x.Name) {
			values = []string{strings.Join(values, ",")}
		} else if len(values) > 1 && x.Name != "dim" && x.Name != "input" {
			return nil, f.At(x.Line, "%s is a list, want one value", x.Name)
		}
		for _, v := range values {
			of := flags.Lookup(x.Name)
			if err := of.Value.Set(v); err != nil {
				if want := plainWants[of.Value.Type()]; want != "" {
					err = fmt.Errorf("want %s", want)
				}
				return nil, f.At(x.Line, "%s %q: %w", x.Name, v, err)
			}
			of.Changed = true
		}
	}
	if err := m.run.contradiction(); err != nil {
		return nil, f.At(s[0].Line, "%w", err)
	}
	return m, nil
}

// estimateChecked estimates a model of a budget file, and the file of the base that it was, under all its settings.
func (e *env) estimateChecked(f *budget.File, m *gate.Model, past func(*onnxload.Model) (*gate.Blob, error),
	use func(string, gate.Report, gate.Report) error) error {
	in := source{arg: m.Name, name: m.Name}
	if m.File != "" {
		in = source{arg: m.File, name: path.Base(m.Name), file: m.File}
	}
	head, err := openModel(e, in, &settings{})
	if err != nil {
		return err
	}
	defer head.close()
	was, err := past(head.m)
	if err != nil {
		return err
	}
	var base *opened
	if was != nil {
		base, err = openModel(e, source{arg: was.Name, name: path.Base(was.Name), revision: was.Commit + ":./" + was.Name,
			blob: was}, &settings{})
		if err != nil {
			return fmt.Errorf("in the base: %w", err)
		}
		defer base.close()
		base.other = head
	}
	for _, s := range m.Entry.Settings {
		x, err := matrixOf(f, s)
		if err != nil {
			return err
		}
		of := func(o *opened) gate.Report {
			if o == nil {
				return nil
			}
			return func(gpu string) (*estimate.Report, error) {
				set := x.settings
				if gpu != "" {
					set.run.gpu = gpu
				}
				return o.report(e, "memestimate", &set)
			}
		}
		if err := x.each(true, func(label string) error { return use(label, of(head), of(base)) }); err != nil {
			return err
		}
	}
	return nil
}

// verdict tells on stderr what this change loosens, what is over and what could not be estimated, and is the error of
// the worst of it.
func (c *checking) verdict(e *env, out *gate.Outcome) error {
	code := exitOK
	for _, text := range out.Loosened() {
		fmt.Fprintf(e.stderr, "memestimate: this change loosens its own limits: %s\n", oneLine(text))
	}
	for _, p := range out.Problems() {
		if _, bug := errors.AsType[*gate.Bug](p.Err); bug {
			code = exitBug
		}
		switch {
		case p.Err == nil:
			code = max(code, exitNo)
			fmt.Fprintf(e.stderr, "memestimate: %s:%d: %s\n", quoteArg(out.Config), p.Line, p.Text)
		case p.Err != out.Err: // a size that is not given is the file's fault, not the command line's
			code = max(code, exitInput, codeOf(p.Err))
			tell(e.stderr, p.Err)
		default: // which the caller tells
			code = max(code, codeOf(p.Err))
		}
		if c.annotate {
			annotate(e.stderr, out.Shown, p.Line, p.Text)
		}
	}
	switch {
	case out.Err != nil:
		return fail(code, "%w", out.Err)
	case code == exitOK:
		return nil
	}
	return &exitError{code: code}
}

// annotate writes an annotation for GitHub's runner, which takes it from the log.
func annotate(w io.Writer, file string, line int, text string) {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	fmt.Fprintf(w, "::error file=%s,line=%d,title=memestimate::%s\n", property.Replace(file),
		max(line, 1), message.Replace(text))
}
