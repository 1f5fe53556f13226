package gate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// ReadBudget reads the budget file. One that is a link out of the repository is refused: what is wrong with it is told,
// and would tell what is in some other file.
func (c *Check) ReadBudget() (*budget.File, error) {
	name := report.QuoteArg(c.Config)
	if st, err := os.Lstat(c.Config); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		if err := stays(filepath.Dir(c.Config), filepath.Base(c.Config)); err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
	}
	data, err := c.Read(c.Config, budget.MaxSize, "a budget file")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &hinted{fmt.Errorf("%s: no such file", name),
			"docs/pull-requests.md says how to write one; --config names another file"}
	}
	if err != nil {
		return nil, err
	}
	return budget.Parse(c.Config, data)
}

// ExactGPU refuses a GPU by some words of its name, which a flag takes: of a file that others run later, with more GPUs
// to tell apart, they may mean two.
func ExactGPU(name string) error {
	if slices.ContainsFunc(gpu.Known(), func(d gpu.Device) bool {
		return strings.EqualFold(name, d.ID) || strings.EqualFold(name, d.Name)
	}) {
		return nil
	}
	g, err := gpu.Find(name)
	if err != nil || g.ID == name { // a size
		return err
	}
	return fmt.Errorf("GPU %q: in a budget file write %s", name, g.ID)
}

// mostRuns is how many estimates one budget file may ask for: their reports are held to the end.
const mostRuns = 2000

// FindModels lists the models of a budget file, each entry's in the order of its paths.
func (c *Check) FindModels(f *budget.File) (out []*Model, err error) {
	runs := 0
	for i := range f.Models {
		m := &f.Models[i]
		each := 0
		for _, s := range m.Settings {
			n, err := c.Cases(f, s)
			if err != nil {
				return nil, err
			}
			each += n
		}
		for _, g := range m.Limits.Fits {
			if err := ExactGPU(g.Text); err != nil {
				return nil, f.At(g.Line, "fits: %w", err)
			}
		}
		found, err := findFiles(f, m)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			at := m.Exclude[0] // a path that matches nothing is an error of its own
			return nil, f.At(at.Line, "exclude %q and what else is excluded leave no model of this entry", at.Text)
		}
		if runs += len(found) * max(each, 1); runs > mostRuns {
			return nil, f.At(m.Line, "from here on there are more than %d estimates, of models times their settings: "+
				"budget files of their own can have them", mostRuns)
		}
		out = append(out, found...)
	}
	return out, nil
}

// findFiles lists the models of one entry, built-in ones first.
func findFiles(f *budget.File, m *budget.Model) (out []*Model, err error) {
	dir := filepath.Dir(f.Path)
	fsys := os.DirFS(dir)
	var names []string
	for _, p := range m.Paths {
		if isBuiltIn(p.Text) {
			if _, err := fs.Stat(fsys, p.Text); err == nil {
				return nil, f.At(p.Line, "path %q is a built-in model and a file as well: ./%s is the file", p.Text, p.Text)
			}
			out = append(out, &Model{Entry: m, Name: p.Text})
			continue
		}
		if !fs.ValidPath(path.Clean(p.Text)) {
			return nil, f.At(p.Line, "path %q leaves the folder of the file", p.Text)
		}
		found, err := budget.Find(fsys, p.Text)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			if at, ok := errors.AsType[*fs.PathError](err); ok {
				err = at.Err
			}
			return nil, f.At(p.Line, "path %q: %w", p.Text, err)
		}
		if len(found) == 0 {
			return nil, f.At(p.Line, "path %q: no such file, and no built-in model of that name", p.Text)
		}
		for _, name := range found {
			if m.Exclude.Match(name) || slices.Contains(names, name) {
				continue
			}
			if err := stays(dir, name); err != nil {
				return nil, f.At(p.Line, "path %q: %s %w", p.Text, report.QuoteArg(name), err)
			}
			names = append(names, name)
		}
	}
	for _, name := range names {
		out = append(out, &Model{Entry: m, Name: name, File: filepath.Join(dir, filepath.FromSlash(name))})
	}
	return out, nil
}

// isBuiltIn reports whether a path of a budget file is the name of a built-in model.
func isBuiltIn(name string) bool {
	_, err := models.Info(name)
	return err == nil
}

// stays refuses a symbolic link that leads out of the repository, or where there is none out of the folder of the
// budget file.
func stays(dir, name string) error {
	resolve := func(path string) (string, error) {
		path, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", err
		}
		return filepath.Abs(path)
	}
	file, noFile := resolve(filepath.Join(dir, filepath.FromSlash(name)))
	top, noTop := resolve(dir)
	switch err := cmp.Or(noFile, noTop); {
	case err != nil:
		return err
	case filepath.Join(top, filepath.FromSlash(name)) == file:
		return nil // no link on the way
	}
	if repo, err := git.Open(dir); err == nil {
		if t, err := repo.Top(); err == nil {
			top = t
		}
	}
	within, err := filepath.Rel(top, file)
	if err != nil || !filepath.IsLocal(within) {
		return errors.New("is a symbolic link that leads out of the repository")
	}
	if slices.Contains(strings.Split(filepath.ToSlash(within), "/"), ".git") { // which may hold passwords
		return errors.New("is a symbolic link that leads into git's own folder")
	}
	return nil
}
