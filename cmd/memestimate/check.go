package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/report"
)

// A checking is the flags that say which budget file to hold models against.
type checking struct {
	config   string
	base     string
	fetch    bool
	annotate bool
	sure     string // "" is what the file says
}

func (c *checking) flags(fs *pflag.FlagSet) {
	fs.StringVarP(&c.config, "config", "c", budget.Name, "the budget file")
	fs.StringVar(&c.base, "base", "", "the git revision that growth is measured from, in place of the one in the file")
	fs.BoolVar(&c.fetch, "fetch", false, "fetch the base from origin where the clone lacks it, as a shallow one does")
	fs.Var(&oneOf{value: &c.sure, names: confidenceNames()}, "confidence",
		"the figure that limits of device memory and GPUs are held against, in place of what the file\nsays: "+
			strings.Join(confidenceNames(), ", "))
	fs.BoolVar(&c.annotate, "annotate", false, "also write GitHub's annotations on the budget file, to stderr")
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
			out := c.run(e, false, &o)
			if errors.Is(out.err, errRead) {
				return out.err
			}
			// which say what went wrong
			if out.err == nil || o.format == "markdown" {
				err := o.write(e, func(w io.Writer) error {
					switch o.format {
					case "json":
						return checkJSON(w, out)
					case "markdown":
						_, err := io.WriteString(w, commentBody(out, report.MarkdownLimit, false))
						return err
					}
					return o.grid(w, e, checkGrid(out.all, o.format == "csv"))
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

// An outcome is what came of a check.
type outcome struct {
	config  string       // path of the budget file
	shown   string       // the same as the host of the job has it: from the top of the checkout
	file    *budget.File // nil where it could not be read
	all     []*checked
	base    *baseline // nil where nothing is compared
	changed           // since the base
	page    string    // of the job that checks, where its log and summary are; "" outside of one
	when    time.Time
	err     error // why there is no check; the rest is as far as it came
}

// finding counts what came of the models.
type finding struct {
	over    int // models of which a limit is passed
	lines   int // limits that are passed
	failed  int // models that could not be estimated
	limited int // limits that models were held against
}

func (o *outcome) count() (n finding) {
	for _, m := range o.all {
		if m.err != nil {
			n.failed++
		}
		if m.over() {
			n.over++
		}
		for _, x := range m.cases {
			for _, l := range x.lines {
				if l.Over {
					n.lines++
				}
				if l.LimitText != "" {
					n.limited++
				}
			}
		}
	}
	return n
}

// run reads the budget file and estimates its models. With compare all of them are compared with the base,
// else only where a limit needs it. The output may not be one of them.
func (c *checking) run(e *env, compare bool, o *output) *outcome {
	out := &outcome{config: c.config, shown: fromTop(e, c.config), when: e.time()}
	defer func() {
		if p := recover(); p != nil { // a bug of ours is told where the rest would be
			out.err = fail(exitBug, "internal error, please report it with the budget file: %v at %s", p, estimate.PanicPlace())
		}
	}()
	out.err = c.check(e, compare, o, out)
	return out
}

// fromTop returns the path of a file from the top of what a job has checked out, by which its host knows the file; as
// it stands where that is not known.
func fromTop(e *env, file string) string {
	top := cmp.Or(e.getenv("GITHUB_WORKSPACE"), e.getenv("CI_PROJECT_DIR"))
	absolute, err := filepath.Abs(file)
	if top == "" || err != nil {
		return filepath.ToSlash(file)
	}
	if within, err := filepath.Rel(top, absolute); err == nil && filepath.IsLocal(within) {
		file = within
	}
	return filepath.ToSlash(file)
}

func (c *checking) check(e *env, compare bool, o *output, out *outcome) (err error) {
	job, noJob := forge.CurrentJob(e.getenv)
	out.page = job.Page
	if out.file, err = readBudget(c.config); err != nil {
		return err
	}
	f := out.file
	for i := range f.Models {
		if c.sure != "" {
			f.Models[i].Limits.Confidence = estimate.Confidence(c.sure)
		}
	}
	if out.all, err = findModels(f); err != nil {
		return err
	}
	for _, m := range out.all {
		if err := notRead("output", o.file, m.in); err != nil {
			return err
		}
	}
	grows := slices.ContainsFunc(f.Models, func(m budget.Model) bool { return m.Limits.Growth != nil })
	if compare || grows {
		if noJob != nil {
			return fail(exitInput, "%w", noJob)
		}
		rev, line := c.base, 0
		if rev == "" {
			rev, line = f.Base.Text, f.Base.Line
		}
		if out.base, err = newBaseline(filepath.Dir(f.Path), rev, job, c.fetch); err != nil {
			if line > 0 {
				return &placed{err: err, file: f.Path, line: line}
			}
			return err
		}
		if line > 0 {
			if err := out.base.believe(f, c.fetch); err != nil {
				return &placed{err: err, file: f.Path, line: line}
			}
		}
		checkAll(e, f, out.all, out.base)
		if out.changed = out.base.changes(f, out.all); out.lost != nil {
			return out.lost
		}
		if grows && job.CI && out.base.own && !slices.ContainsFunc(out.all,
			func(m *checked) bool { return m.past.state != isSame || m.err != nil }) {
			return fail(exitInput, "the base is the commit that is checked, %.12s, from which nothing can grow",
				out.base.commit).
				withHint("--base says another one, as in --base origin/main")
		}
		return nil
	}
	checkAll(e, f, out.all, nil)
	return nil
}

// A placed is an error at a line of the budget file.
type placed struct {
	err  error
	file string
	line int
}

// atLine returns an error at a line of a budget file.
func atLine(f *budget.File, line int, format string, args ...any) error {
	return fail(exitInput, "%w", &placed{fmt.Errorf(format, args...), f.Path, line})
}

// Error returns the text with its place.
func (p *placed) Error() string { return fmt.Sprintf("%s:%d: %v", quoteArg(p.file), p.line, p.err) }

// Unwrap returns the error without its place.
func (p *placed) Unwrap() error { return p.err }

// place returns where in the budget file an error is; line 0 is nowhere in particular.
func (o *outcome) place(err error) (file string, line int) {
	var at *budget.Error
	var p *placed
	switch {
	case errors.As(err, &p):
		return p.file, p.line
	case errors.As(err, &at):
		return at.File, at.Line
	}
	return o.config, 0
}

// verdict tells on stderr what is over and what could not be estimated, and is the error of
// the worst of it.
func (c *checking) verdict(e *env, out *outcome) error {
	code := exitOK
	for _, p := range out.problems() {
		code = max(code, p.code)
		switch {
		case p.line != nil:
			fmt.Fprintf(e.stderr, "memestimate: %s:%d: %s\n", quoteArg(p.file), p.at, p.text)
		case p.err != out.err: // which the caller tells
			tell(e.stderr, p.err)
		}
		if c.annotate {
			annotate(e.stderr, out.shown, p.at, p.text)
		}
	}
	switch {
	case out.err != nil:
		return out.err
	case code == exitOK:
		return nil
	}
	return &exitError{code: code}
}

// A problem is why a check does not pass: a limit that is passed, a model that could not be estimated, or that there
// is no check at all.
type problem struct {
	code  int
	file  string // where it is to be changed: the budget file
	at    int    // its line; 0 is none in particular
	text  string // without the place
	model string // "" where it is none's
	line  *budget.Line
	err   error
}

func (o *outcome) problems() (all []problem) {
	for _, m := range o.all {
		for _, x := range m.cases {
			for i := range x.lines {
				if l := &x.lines[i]; l.Over {
					all = append(all, problem{code: exitNo, file: o.config, at: l.Place, text: overText(*l), model: m.name, line: l})
				}
			}
		}
		if m.err != nil { // a size that is not given is the file's fault, not the command line's
			all = append(all, problem{code: max(exitInput, codeOf(m.err)), file: o.config, at: m.entry.Line,
				text: oneLine(m.err.Error()), model: m.name, err: m.err})
		}
	}
	if o.err != nil {
		file, line := o.place(o.err)
		text := oneLine(o.err.Error())
		text = strings.TrimPrefix(text, fmt.Sprintf("%s:%d: ", quoteArg(file), line))
		all = append(all, problem{code: codeOf(o.err), file: file, at: line, text: text, err: o.err})
	}
	return all
}

// overText says what is over, without its place.
func overText(l budget.Line) string {
	text := quoteArg(l.Model)
	if l.Settings != "" {
		text += " (" + l.Settings + ")"
	}
	text += fmt.Sprintf(": %s %s", report.TotalName(l.Total), report.Size(l.Value))
	if l.Before != nil && *l.Before != l.Value {
		text += fmt.Sprintf(" after %s", report.Size(*l.Before))
	}
	text += ", over " + l.LimitText
	if l.Note != "" {
		text += "; " + l.Note
	}
	return text
}

// annotate writes an annotation for GitHub's runner, which takes it from the log.
func annotate(w io.Writer, file string, line int, text string) {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	fmt.Fprintf(w, "::error file=%s,line=%d,title=memestimate::%s\n", property.Replace(file),
		max(line, 1), message.Replace(text))
}

// checkJSON writes the lines of all models, the errors of those that have none, and what changed since the base.
func checkJSON(w io.Writer, o *outcome) error {
	out := checkResult{
		Schema: checkForm, Over: o.count().lines, Lines: []budget.Line{}, Errors: []checkFailure{}, Moved: []move{},
		Changes: append([]budget.Change{}, o.asks...), Removed: append([]removal{}, o.removed...),
	}
	if o.base != nil {
		out.Base = &checkBase{o.base.rev, o.base.commit, o.base.head}
	}
	for _, c := range o.all {
		for _, x := range c.cases {
			out.Lines = append(out.Lines, x.lines...)
		}
		if c.err != nil {
			out.Errors = append(out.Errors, checkFailure{c.name, oneLine(c.err.Error())})
		}
		if c.moved() {
			out.Moved = append(out.Moved, move{c.past.name, c.name})
		}
	}
	return encodeJSON(w, out)
}

// A move is a model that the base has under another name.
type move struct {
	From string `json:"from"`
	To   string `json:"to"`
}
