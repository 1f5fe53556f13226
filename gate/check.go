// Package gate says whether a change may be merged: it holds the models of a repository against its budget file and
// against what they were before, and writes the comment that says so. How models are read and estimated is its
// caller's.
package gate

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A Check is what is to be checked, and the means of whoever asks.
type Check struct {
	Config     string              // the budget file
	Base       string              // the revision that growth is measured from; "" is what the file or the job says
	Fetch      bool                // bring commits that the clone lacks
	Confidence estimate.Confidence // "" is what the file says
	Compare    bool                // compare all models with the base, not only where a limit needs it
	Getenv     func(string) string
	Now        time.Time
	Version    string

	Read     func(path string, most int64, what string) ([]byte, error)
	Cases    func(*budget.File, budget.Settings) (int, error) // how many estimates some settings are
	Found    func([]*Model) error                             // is told the models before the first is read
	Estimate Estimate
}

// An Estimate reads a model and estimates it under all settings of its entry. It asks past, of the model's graph (nil
// of a recording), for the file of the base that the model was, and has a copy of that file estimated as well; it is
// nil where there is none or it is the same. It gives use each case.
type Estimate func(f *budget.File, m *Model, past func(*onnxload.Model) (*Blob, error),
	use func(label string, head, base Report) error) error

// A Report estimates one side of a case, for a GPU other than that of the settings where one is named. It is nil for a
// base that is not there.
type Report func(gpu string) (*estimate.Report, error)

// A Model is one of a budget file, and what came of it.
type Model struct {
	Entry *budget.Model
	Name  string // from the folder of the budget file
	File  string // "" where it is built in
	Cases []Case
	Err   error

	past past
}

// A Case is a model under some settings.
type Case struct {
	Label      string
	Head, Base *estimate.Report
	Lines      []budget.Line
}

// An Outcome is what came of a check.
type Outcome struct {
	Config string       // path of the budget file
	Shown  string       // the same as the host of the job has it: from the top of the checkout
	File   *budget.File // nil where it could not be read
	Models []*Model
	Err    error // why there is no check; the rest is as far as it came

	base *base // nil where nothing is compared
	changes
	page    string // of the job that checks; "" outside of one
	when    time.Time
	version string
}

// A Bug is a mistake of this program.
type Bug struct{ text string }

// Error asks for a report.
func (b *Bug) Error() string { return b.text }

// caught makes an error of a panic: one bug must not hide what other models say.
func caught(err *error, about, with string) {
	if p := recover(); p != nil {
		*err = &Bug{fmt.Sprintf("%sinternal error, please report it with the %s: %v at %s", about, with, p,
			estimate.PanicPlace())}
	}
}

// A hinted is an error with a line of advice.
type hinted struct {
	error
	hint string
}

// Hint returns the advice.
func (h *hinted) Hint() string { return h.hint }

// Unwrap returns the error.
func (h *hinted) Unwrap() error { return h.error }

// Run reads the budget file, finds its models, and estimates and judges them.
func (c *Check) Run() *Outcome {
	o := &Outcome{Config: c.Config, Shown: c.fromTop(), when: c.Now, version: c.Version}
	func() {
		defer caught(&o.Err, "", "budget file")
		o.Err = c.run(o)
	}()
	return o
}

// fromTop returns the path of the budget file from the top of what a job has checked out, by which its host knows the
// file; as it stands where that is not known.
func (c *Check) fromTop() string {
	file := c.Config
	top := cmp.Or(c.Getenv("GITHUB_WORKSPACE"), c.Getenv("CI_PROJECT_DIR"))
	if absolute, err := filepath.Abs(file); top != "" && err == nil {
		if within, err := filepath.Rel(top, absolute); err == nil && filepath.IsLocal(within) {
			file = within
		}
	}
	return filepath.ToSlash(file)
}

func (c *Check) run(o *Outcome) (err error) {
	job, noJob := forge.CurrentJob(c.Getenv)
	o.page = job.Page
	if o.File, err = c.ReadBudget(); err != nil {
		return err
	}
	f := o.File
	grows := slices.ContainsFunc(f.Models, func(m budget.Model) bool { return m.Limits.Growth != nil })
	if o.Models, err = c.FindModels(f); err != nil {
		return err
	}
	if err := c.Found(o.Models); err != nil {
		return err
	}
	if !c.Compare && !grows {
		c.estimateAll(o)
		return nil
	}
	if noJob != nil {
		return noJob
	}
	if o.base, err = c.newBase(f, job); err != nil {
		return err
	}
	c.estimateAll(o)
	if o.changes = o.base.changesOf(f, o.Models); o.lost != nil {
		return o.lost
	}
	if grows && job.CI && o.base.own && !slices.ContainsFunc(o.Models,
		func(m *Model) bool { return m.past.state != isSame || m.Err != nil }) {
		return &hinted{fmt.Errorf("the base is the commit that is checked, %.12s, from which nothing can grow",
			o.base.commit),
			"--base says another one, as in --base origin/main"}
	}
	return nil
}

// estimateAll estimates all models, as many at a time as there are processors. What goes wrong with one is kept with
// it.
func (c *Check) estimateAll(o *Outcome) {
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, m := range o.Models {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			m.Err = c.estimate(o, m)
		})
	}
	wg.Wait()
}

// estimate holds one model under all its settings against its limits.
func (c *Check) estimate(o *Outcome, m *Model) (err error) {
	defer caught(&err, report.QuoteArg(m.Name)+": ", "model")
	past := func(head *onnxload.Model) (*Blob, error) {
		if o.base == nil {
			return nil, nil
		}
		if m.past, err = o.base.of(m, head); err != nil || m.past.state != isChanged {
			return nil, err
		}
		return o.base.blob(m.past.name, m.past.file), nil
	}
	return c.Estimate(o.File, m, past, func(label string, head, base Report) error {
		x, err := m.judge(label, c.Confidence, head, base)
		m.Cases = append(m.Cases, x)
		return err
	})
}

// judge makes one case of a model, and holds it against the limits.
func (m *Model) judge(label string, sure estimate.Confidence, head, base Report) (x Case, err error) {
	x.Label = label
	if x.Head, err = head(""); err != nil {
		return x, err
	}
	switch {
	case m.past.state == isSame:
		x.Base = x.Head
	case base != nil:
		if x.Base, err = base(""); err != nil {
			return x, fmt.Errorf("in the base: %w", err)
		}
	}
	limits := m.Entry.Limits
	limits.Confidence = cmp.Or(sure, limits.Confidence)
	x.Lines = limits.Judge(m.Name, label, x.Head, budget.Standing{Base: x.Base, Why: m.past.why,
		New: m.Entry.New.Match(m.Name), LowerBound: m.Entry.LowerBound})
	for _, fit := range limits.Fits {
		r, err := head(fit.Text)
		if err != nil {
			return x, err
		}
		g, _ := gpu.Find(fit.Text) // which FindModels has found
		x.Lines = append(x.Lines, limits.JudgeFit(m.Name, label, fit, g.Memory, r, m.Entry.LowerBound))
	}
	return x, nil
}

// moved reports whether the base has the model under another name.
func (m *Model) moved() bool { return m.past.name != "" && m.past.name != m.Name }

// lines ranges over what came of a model under all its settings.
func (m *Model) lines(yield func(*budget.Line) bool) {
	for _, x := range m.Cases {
		for i := range x.Lines {
			if !yield(&x.Lines[i]) {
				return
			}
		}
	}
}

// over reports whether the model passes a limit.
func (m *Model) over() bool {
	for l := range m.lines {
		if l.Over {
			return true
		}
	}
	return false
}

// diff returns what changes in the model, and whether there is a base that it changes from.
func (m *Model) diff() (*diff.Diff, bool) {
	d := &diff.Diff{Schema: diff.Schema, Cases: []diff.Case{}}
	for _, x := range m.Cases {
		if x.Base == nil {
			return nil, false
		}
		d.Base, d.Head = x.Base.Model, x.Head.Model
		d.Cases = append(d.Cases, diff.Compare(x.Label, x.Base, x.Head))
	}
	d.Base.Name, d.Head.Name = m.past.name, m.Name
	return d, len(d.Cases) > 0
}

// Counts are what came of the models.
type Counts struct {
	Over    int // models of which a limit is passed
	Lines   int // limits that are passed
	Failed  int // models that could not be estimated
	Limited int // limits that models were held against
}

// Count counts what came of the models.
func (o *Outcome) Count() (n Counts) {
	for _, m := range o.Models {
		if m.Err != nil {
			n.Failed++
		}
		if m.over() {
			n.Over++
		}
		for l := range m.lines {
			if l.Over {
				n.Lines++
			}
			if l.LimitText != "" {
				n.Limited++
			}
		}
	}
	return n
}

// A Problem is why a check does not pass: a limit that is passed, a model that could not be estimated, or that there is
// no check at all.
type Problem struct {
	Line int    // of the budget file; 0 is none in particular
	Text string // without the place
	Err  error  // nil where a limit is passed
}

// Problems lists them all.
func (o *Outcome) Problems() (all []Problem) {
	for _, m := range o.Models {
		for l := range m.lines {
			if l.Over {
				all = append(all, Problem{l.Place, overText(l), nil})
			}
		}
		if m.Err != nil {
			all = append(all, Problem{m.Entry.Line, report.OneLine(m.Err.Error()), m.Err})
		}
	}
	if o.Err != nil {
		line := 0
		if at, ok := errors.AsType[*budget.Error](o.Err); ok {
			line = at.Line
		}
		place := fmt.Sprintf("%s:%d: ", report.QuoteArg(o.Config), line)
		all = append(all, Problem{line, strings.TrimPrefix(report.OneLine(o.Err.Error()), place), o.Err})
	}
	return all
}

// overText says what is over, without its place.
func overText(l *budget.Line) string {
	text := report.QuoteArg(l.Model)
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
