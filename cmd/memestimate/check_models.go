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

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A checked is a model of a budget file and what came of it.
type checked struct {
	entry *budget.Model
	name  string // from the folder of the budget file
	in    source
	past  past // how it stands to the base; without a state where nobody asked
	cases []checkedCase
	err   error
}

// moved reports whether the base has the model under another name.
func (c *checked) moved() bool { return c.past.name != "" && c.past.name != c.name }

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
	d.Base.Name, d.Head.Name = c.past.name, c.name
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

// readBudget reads a budget file. One that is a link out of the repository is refused: what is wrong with it is told,
// and would tell what is in some other file.
func readBudget(name string) (*budget.File, error) {
	if st, err := os.Lstat(name); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		if err := stays(filepath.Dir(name), filepath.Base(name)); err != nil {
			return nil, fail(exitInput, "%s %w", quoteArg(name), err)
		}
	}
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

// exactGPU refuses a GPU by some words of its name, which a flag takes: of a file that others run later, with more
// GPUs to tell apart, they may mean two.
func exactGPU(name string) error {
	known := gpu.Known()
	if slices.ContainsFunc(known, func(d gpu.Device) bool {
		return strings.EqualFold(name, d.ID) ||
			strings.EqualFold(name, d.Name)
	}) {
		return nil
	}
	g, err := gpu.Find(name)
	if err != nil {
		return err
	}
	if g.ID == name { // a size
		return nil
	}
	return fmt.Errorf("GPU %q: in a budget file write %s", name, g.ID)
}

// matrixOf sets the flags that a budget file's settings stand for.
func matrixOf(f *budget.File, s budget.Settings) (*matrix, error) {
	m := &matrix{}
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	m.flags(flags)
	for _, x := range s {
		values := x.Values
		for _, v := range values {
			if x.Name != "gpu" {
				break
			}
			if err := exactGPU(v); err != nil {
				return nil, atLine(f, x.Line, "%w", err)
			}
		}
		if slices.Contains(axes, x.Name) {
			values = []string{strings.Join(values, ",")}
		}
		for _, v := range values {
			if err := flags.Lookup(x.Name).Value.Set(v); err != nil {
				return nil, atLine(f, x.Line, "%s %q: %w", x.Name, v, err)
			}
		}
		flags.Lookup(x.Name).Changed = true
	}
	if err := m.run.contradiction(); err != nil {
		return nil, atLine(f, s[0].Line, "%w", err)
	}
	return m, nil
}

// findModels lists the models of a budget file, each entry's in the order of its paths.
func findModels(f *budget.File) ([]*checked, error) {
	dir := filepath.Dir(f.Path)
	fsys := os.DirFS(dir)
	var out []*checked
	runs := 0
	for i := range f.Models {
		m := &f.Models[i]
		each := 0
		for _, s := range m.Settings {
			x, err := matrixOf(f, s)
			if err != nil {
				return nil, err
			}
			each += x.cases()
		}
		for _, g := range m.Limits.Fits {
			if err := exactGPU(g.Text); err != nil {
				return nil, atLine(f, g.Line, "fits: %w", err)
			}
		}
		found, err := findFiles(f, m, dir, fsys)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			at := m.Exclude[0] // a path that matches nothing is an error of its own
			return nil, atLine(f, at.Line, "exclude %q and what else is excluded leave no model of this entry", at.Text)
		}
		if runs += len(found) * max(each, 1); runs > mostRuns {
			return nil, atLine(f, m.Line, "from here on there are more than %d estimates, of models times their settings: "+
				"budget files of their own can have them", mostRuns)
		}
		out = append(out, found...)
	}
	return out, nil
}

// mostRuns is how many estimates one budget file may ask for: their reports are held to the end.
const mostRuns = 2000

// findFiles lists the models of one entry, in the order of its paths.
func findFiles(f *budget.File, m *budget.Model, dir string, fsys fs.FS) (out []*checked, err error) {
	var names []string
	for _, p := range m.Paths {
		if isBuiltin(p.Text) {
			if _, err := fs.Stat(fsys, p.Text); err == nil {
				return nil, atLine(f, p.Line, "path %q is a built-in model and a file as well: ./%s is the file", p.Text, p.Text)
			}
			out = append(out, &checked{entry: m, name: p.Text, in: source{arg: p.Text, name: p.Text}})
			continue
		}
		if !fs.ValidPath(path.Clean(p.Text)) {
			return nil, atLine(f, p.Line, "path %q leaves the folder of the file", p.Text)
		}
		found, err := budget.Find(fsys, p.Text)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, atLine(f, p.Line, "path %q: %w", p.Text, cause(err))
		}
		if len(found) == 0 {
			return nil, atLine(f, p.Line, "path %q: no such file, and no built-in model of that name", p.Text)
		}
		for _, name := range found {
			excluded := slices.ContainsFunc(m.Exclude, func(g budget.Value) bool { return budget.Matches(g.Text, name) })
			if excluded || slices.Contains(names, name) {
				continue
			}
			if err := stays(dir, name); err != nil {
				return nil, atLine(f, p.Line, "path %q: %s %w", p.Text, quoteArg(name), err)
			}
			names = append(names, name)
		}
	}
	for _, name := range names {
		file := filepath.Join(dir, filepath.FromSlash(name))
		out = append(out, &checked{entry: m, name: name, in: source{arg: file, name: path.Base(name), file: file}})
	}
	return out, nil
}

// isBuiltin reports whether a path of a budget file is the name of a built-in model.
func isBuiltin(name string) bool {
	_, err := models.Info(name)
	return err == nil
}

// stays refuses a symbolic link that leads out of the repository, or where there is none out of the folder of the
// budget file.
func stays(dir, name string) error {
	file, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	top, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if plain := filepath.Join(top, filepath.FromSlash(name)); plain == file {
		return nil // no link on the way
	}
	if repo, err := git.Open(dir); err == nil {
		if t, err := repo.Top(); err == nil {
			top = t
		}
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if top, err = filepath.Abs(top); err != nil {
		return err
	}
	within, err := filepath.Rel(top, absolute)
	if err != nil || !filepath.IsLocal(within) {
		return errors.New("is a symbolic link that leads out of the repository")
	}
	if slices.Contains(strings.Split(filepath.ToSlash(within), "/"), ".git") { // which may hold passwords
		return errors.New("is a symbolic link that leads into git's own folder")
	}
	return nil
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
			err = fail(exitBug, "%s: internal error, please report it with the model: %v at %s", quoteArg(c.name), p,
				estimate.PanicPlace())
		}
	}()
	head, err := openModel(e, c.in, &settings{}, nil)
	if err != nil {
		return err
	}
	defer head.close()
	var base *opened
	if b != nil {
		if c.past, err = b.of(c, head.m); err != nil {
			return fail(exitInput, "%w", err)
		}
		if c.past.state == isChanged {
			if base, err = openModel(e, b.source(c.past.name, c.past.file), &settings{}, nil); err != nil {
				return fail(exitInput, "in the base: %w", err)
			}
			defer base.close()
			base.other = head
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
	at := budget.Standing{Why: c.past.why, New: c.entry.IsNew(c.name), LowerBound: c.entry.LowerBound}
	switch {
	case c.past.state == isSame:
		x.base = x.head
	case base != nil:
		if x.base, err = base.report(e, command, &m.settings); err != nil {
			return x, fail(exitInput, "in the base: %w", err)
		}
	}
	at.Base = x.base
	limits := c.entry.Limits
	x.lines = limits.Judge(c.name, label, x.head, at)
	for _, fit := range limits.Fits {
		saved := m.settings
		m.run.gpu = fit.Text
		r, err := head.report(e, command, &m.settings)
		total := int64(0)
		if err == nil {
			g, _ := gpu.Find(fit.Text)
			total = g.Memory
		}
		m.settings = saved
		if err != nil {
			return x, err
		}
		x.lines = append(x.lines, limits.JudgeFit(c.name, label, fit, total, r, c.entry.LowerBound))
	}
	return x, nil
}
