package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/budget"
	"github.com/memestimate/memestimate/diff"
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/models"
)

// A checked is a model of a budget file and what came of it.
type checked struct {
	entry *budget.Model
	name  string // from the folder of the budget file
	in    source
	state string // how it stands to the base; "" when nobody asked
	cases []checkedCase
	err   error
}

// A checkedCase is a model under some settings.
type checkedCase struct {
	label      string
	head, base *estimate.Report
	lines      []budget.Line
}

// diff returns what changes in the model, and whether there is a base that it changes from.
func (c *checked) diff() (*diff.Diff, bool) {
	d := &diff.Diff{Schema: diff.Schema, Cases: []diff.Case{}}
	for _, x := range c.cases {
		if x.base == nil {
			return nil, false
		}
		d.Base, d.Head = x.base.Model, x.head.Model
		d.Cases = append(d.Cases, diff.Compare(x.label, x.base, x.head))
	}
	d.Base.Name, d.Head.Name = c.name, c.name
	return d, len(d.Cases) > 0
}

// fileAbove returns the path of a file of this name in the nearest folder above, or "".
func fileAbove(name string) string {
	if name != filepath.Base(name) {
		return ""
	}
	above := ".."
	for range 32 {
		path := filepath.Join(above, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
		above = filepath.Join("..", above)
	}
	return ""
}

// readBudget reads a budget file.
func readBudget(name string) (*budget.File, error) {
	data, err := readSmall(name, budget.MaxSize, "a budget file")
	if errors.Is(err, fs.ErrNotExist) {
		hint := "docs/pull-requests.md says how to write one; --config names another file"
		if near := fileAbove(name); near != "" {
			hint = "there is " + near + ": --config " + quoteArg(near)
		}
		return nil, fail(exitInput, "%s: no such file", quoteArg(name)).withHint("%s", hint)
	}
	if err != nil {
		return nil, err
	}
	f, err := budget.Parse(name, data)
	var at *budget.Error
	if errors.As(err, &at) && at.Key != "" {
		if near := nearest(at.Key, at.Known); near != "" {
			return nil, fail(exitInput, "%w", err).withHint("did you mean %s?", near)
		}
	}
	return f, inputError(err)
}

// matrixOf sets the flags that a budget file's settings stand for.
func matrixOf(f *budget.File, s budget.Settings) (*matrix, error) {
	m := &matrix{}
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	m.flags(flags)
	for _, x := range s {
		values := x.Values
		if slices.Contains(axes, x.Name) {
			values = []string{strings.Join(values, ",")}
		}
		for _, v := range values {
			if err := flags.Lookup(x.Name).Value.Set(v); err != nil {
				return nil, fail(exitInput, "%s:%d: %s %q: %w", quoteArg(f.Path), x.Line, x.Name, v, err)
			}
		}
		flags.Lookup(x.Name).Changed = true
	}
	if err := m.run.contradiction(); err != nil {
		return nil, fail(exitInput, "%s:%d: %w", quoteArg(f.Path), s[0].Line, err)
	}
	return m, nil
}

// findModels lists the models of a budget file, each entry's in the order of its paths.
func findModels(f *budget.File) ([]*checked, error) {
	dir := filepath.Dir(f.Path)
	fsys := os.DirFS(dir)
	var out []*checked
	for i := range f.Models {
		m := &f.Models[i]
		for _, s := range m.Settings {
			if _, err := matrixOf(f, s); err != nil {
				return nil, err
			}
		}
		for _, g := range m.Limits.Fits {
			if _, err := estimate.FindGPU(g.Text); err != nil {
				return nil, fail(exitInput, "%s:%d: fits: %w", quoteArg(f.Path), g.Line, err)
			}
		}
		var names []string
		for _, p := range m.Paths {
			if _, err := models.Info(p.Text); err == nil {
				out = append(out, &checked{entry: m, name: p.Text, in: source{arg: p.Text, name: p.Text}})
				continue
			}
			if !fs.ValidPath(path.Clean(p.Text)) {
				return nil, fail(exitInput, "%s:%d: path %q leaves the folder of the file", quoteArg(f.Path), p.Line, p.Text)
			}
			found, err := budget.Find(fsys, p.Text)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fail(exitInput, "%s:%d: path %q: %w", quoteArg(f.Path), p.Line, p.Text, cause(err))
			}
			if len(found) == 0 {
				return nil, fail(exitInput, "%s:%d: path %q: no such file, and no built-in model of that name", quoteArg(f.Path), p.Line, p.Text)
			}
			for _, name := range found {
				excluded := slices.ContainsFunc(m.Exclude, func(g budget.Value) bool { return budget.Matches(g.Text, name) })
				if !excluded && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		for _, name := range names {
			file := filepath.Join(dir, filepath.FromSlash(name))
			out = append(out, &checked{entry: m, name: name, in: source{arg: file, name: path.Base(name), file: file}})
		}
	}
	return out, nil
}

// checkAll estimates all models, as many at a time as there are processors. b is nil where nothing is
// compared. What goes wrong with one model is kept with it.
func checkAll(e *env, f *budget.File, all []*checked, b *baseline) {
	p := startProgress(e, fmt.Sprintf("estimating %d models", len(all)))
	defer p.done()
	next := make(chan *checked)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		wg.Go(func() {
			for c := range next {
				c.err = c.run(e, f, b)
			}
		})
	}
	for _, c := range all {
		next <- c
	}
	close(next)
	wg.Wait()
}

// run estimates one model under all its settings.
func (c *checked) run(e *env, f *budget.File, b *baseline) (err error) {
	defer func() {
		if p := recover(); p != nil { // one bug must not hide what the other models say
			err = fail(exitBug, "%s: internal error, please report it with the model: %v at %s", quoteArg(c.name), p, panicPlace())
		}
	}()
	head, err := openModel(e, c.in, &settings{}, nil)
	if err != nil {
		return err
	}
	defer head.close()
	var base *opened
	if b != nil {
		c.state = isSame
		if c.in.file != "" {
			c.state = b.of(c.name)
		}
		if c.state == isChanged {
			if base, err = openModel(e, b.source(c.name), &settings{}, nil); err != nil {
				base = nil // a base that cannot be read is no base
				c.state = isNew
			} else {
				defer base.close()
				base.other = head
			}
		}
	}
	for _, s := range c.entry.Settings {
		m, err := matrixOf(f, s)
		if err != nil {
			return err
		}
		err = m.each(true, func(label string) error {
			x, err := c.estimate(e, m, label, head, base)
			c.cases = append(c.cases, x)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// estimate makes one case of a model, and holds it against the limits.
func (c *checked) estimate(e *env, m *matrix, label string, head, base *opened) (x checkedCase, err error) {
	const command = "memestimate"
	x.label = label
	if x.head, err = head.report(e, command, &m.settings); err != nil {
		return x, err
	}
	switch {
	case c.state == isSame:
		x.base = x.head
	case base != nil:
		// A base that these settings do not fit, with another input for one, is as good as none.
		x.base, _ = base.report(e, command, &m.settings)
	}
	x.lines = c.entry.Limits.Judge(c.name, label, x.head, x.base)
	for _, gpu := range c.entry.Limits.Fits {
		saved := m.settings
		m.run.gpu = gpu.Text
		r, err := head.report(e, command, &m.settings)
		total := int64(0)
		if err == nil {
			g, _ := estimate.FindGPU(gpu.Text)
			total = g.Total
		}
		m.settings = saved
		if err != nil {
			return x, err
		}
		x.lines = append(x.lines, budget.JudgeFit(c.name, label, gpu, total, r))
	}
	return x, nil
}
