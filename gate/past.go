package gate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/report"
)

// How a model stands to its base.
const (
	isSame    = "same"
	isChanged = "changed"
	isNew     = "new"
)

// A past is what the base has of a model.
type past struct {
	state string // "" where nobody asked
	name  string // in the base
	file  git.File
	why   string // there is none, where state is isNew
}

// of says how a model stands to the base. head is the model, nil of a recording, from which one that moved is known
// again. That an entry lists a name under new does not keep a model that moved there from being compared.
func (b *base) of(m *Model, head *onnxload.Model) (past, error) {
	if m.File == "" {
		return past{state: isSame, name: m.Name}, nil // built in
	}
	f, ok, why, err := b.file(m.Name)
	if err != nil {
		return past{}, fmt.Errorf("%s in the base: %w", report.QuoteArg(m.Name), err)
	}
	p := past{state: isChanged, name: m.Name, file: f}
	if !ok {
		from := b.movedFrom(m, head)
		if from == nil {
			return past{state: isNew, why: why}, nil
		}
		p.name, p.file = from.name, from.file
	}
	same, err := b.repo.Same(m.File, p.file)
	if err == nil && same && head != nil {
		same, err = b.sameBeside(m, p.name, head.Beside)
	}
	if err != nil {
		return past{}, fmt.Errorf("%s in the base: %w", report.QuoteArg(p.name), err)
	}
	if same {
		p.state = isSame
	}
	return p, nil
}

// sameBeside reports whether the files beside a model, which hold values that may decide its shapes, are those of the
// base, where the model has a name of its own.
func (b *base) sameBeside(m *Model, name string, beside []string) (bool, error) {
	if len(beside) == 0 {
		return true, nil
	}
	dir := filepath.Dir(m.File)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	for _, location := range beside {
		local := filepath.FromSlash(location)
		if !filepath.IsLocal(local) {
			continue // which is never read
		}
		old, before, _, err := b.file(path.Join(path.Dir(name), location))
		if err != nil {
			return false, err
		}
		st, err := root.Stat(local)
		if now := err == nil && st.Mode().IsRegular(); now != before {
			return false, nil
		} else if !now {
			continue // nobody reads it, then or now
		}
		if same, err := b.repo.Same(filepath.Join(dir, local), old); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// A candidate is a file of the base that is gone, and may have moved, or one of now that may have been one.
type candidate struct {
	name  string
	file  git.File     // in the base
	parts func() parts // of its graph; nil where it cannot be read
}

// findGone lists the files of the base that the work tree no longer has and whose names end as those of models do.
func (b *base) findGone() (out []*candidate) {
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		f := b.files[name]
		if f.Kind != git.Regular || !modelName(name) {
			continue
		}
		if _, err := os.Lstat(b.path(name)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, &candidate{name, f, sync.OnceValue(func() parts { return b.partsThen(name, f) })})
		}
	}
	return out
}

func (b *base) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

// modelName reports whether a file is named as models are.
func modelName(name string) bool {
	return slices.Contains([]string{".onnx", ".onnxtxt", ".pb", ".pbtxt", ".textproto", ".prototxt", ".json", ".mrec"},
		strings.ToLower(path.Ext(name)))
}

// arrivals are the files that are new or may have changed, and those whose content cannot be seen: a model may be
// among either.
type arrivals struct {
	files  []*candidate
	hidden []string // "nets/b.onnx, a pointer of git-lfs"
	err    error
}

// findCame lists what came.
func (b *base) findCame() *arrivals {
	a := &arrivals{}
	names, err := b.repo.Changed(b.commit)
	if a.err = err; err != nil {
		return a
	}
	for _, name := range names {
		file := b.path(name)
		st, err := os.Lstat(file)
		switch {
		case err != nil && slices.Contains(b.skipped(), name):
			a.hidden = append(a.hidden, report.QuoteArg(name)+", which is not checked out")
		case err != nil: // it went
		case st.IsDir():
			a.hidden = append(a.hidden, report.QuoteArg(name)+", a submodule")
		case isPointer(file, st):
			a.hidden = append(a.hidden, report.QuoteArg(name)+", a pointer of git-lfs")
		case st.Mode().IsRegular():
			a.files = append(a.files, &candidate{name: name, parts: sync.OnceValue(func() parts { return partsNow(file) })})
		}
	}
	return a
}

// isPointer reports whether a file is what git-lfs keeps in the place of another.
func isPointer(file string, st fs.FileInfo) bool {
	if !st.Mode().IsRegular() || st.Size() > git.MaxPointer {
		return false
	}
	data, err := os.ReadFile(file)
	return err == nil && strings.HasPrefix(string(data), git.PointerStart)
}

// How alike two graphs are, from 0 to 1, that are taken for one that moved: less where the file kept its name.
const (
	alike      = 0.5
	alikeNamed = 0.2
)

// movedFrom returns the file that is gone and is the most like a model, by its graph and by its path; nil where none
// is like it.
func (b *base) movedFrom(m *Model, head *onnxload.Model) (best *candidate) {
	gone := b.gone()
	if len(gone) == 0 {
		return nil
	}
	mine := partsOf(head)
	if head == nil {
		mine = partsNow(m.File)
	}
	most := 0.0
	for _, o := range gone {
		least, score := alike, 0.0
		if path.Base(o.name) == path.Base(m.Name) {
			least, score = alikeNamed, 0.25
		}
		if path.Dir(o.name) == path.Dir(m.Name) {
			score += 0.1
		}
		like := mine.like(o.parts())
		score += like
		if like >= least && (score > most || score == most && best != nil && o.name < best.name) {
			best, most = o, score
		}
	}
	return best
}

// movedTo returns the file that is not checked and is the most like a model of the base that is gone; "" where none is
// like it. It may have any name.
func (b *base) movedTo(name string, checked func(string) bool) (best string) {
	most := 0.0
	mine := b.partsThen(name, b.files[name])
	for _, o := range b.came().files {
		if checked(o.name) {
			continue
		}
		if like := mine.like(o.parts()); like >= alike && like > most {
			best, most = o.name, like
		}
	}
	return best
}

// parts are what a graph or a recording consists of, each with how often it is there.
type parts map[string]int

// partsNow takes a file of the work tree apart.
func partsNow(file string) parts {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	out, _ := partsIn(f, func(io.Reader) (*onnxload.Model, error) { return onnxload.Open(file) })
	return out
}

// partsThen takes a file of the base apart.
func (b *base) partsThen(name string, f git.File) (out parts) {
	_ = b.blob(name, f).Read(func(r io.Reader) (err error) { // what cannot be read has no parts
		out, err = partsIn(r, func(r io.Reader) (*onnxload.Model, error) {
			return onnxload.ReadStream(r, onnxload.Options{Path: name})
		})
		return err
	})
	return out
}

// partsIn takes a recording apart, or the model that is opened.
func partsIn(r io.Reader, open func(io.Reader) (*onnxload.Model, error)) (parts, error) {
	in := bufio.NewReaderSize(r, 4096)
	if head, _ := in.Peek(4096); !recording.Begins(head) {
		m, err := open(in)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		return partsOf(m), nil
	}
	rec, err := recording.Read(in)
	if err != nil {
		return nil, err
	}
	out := parts{}
	for _, op := range rec.Ops {
		out[op.String()]++
	}
	for _, m := range rec.Modules {
		out["module "+m.Name+" "+m.Class]++
	}
	return out, nil
}

// partsOf takes a graph apart into operators with those that follow, and the shapes of its weights.
func partsOf(m *onnxload.Model) parts {
	out := parts{}
	if m == nil {
		return out
	}
	before := ""
	for i := range m.Graph.Nodes {
		op := m.Graph.Nodes[i].Op
		out[before+">"+op]++
		before = op
	}
	for _, id := range m.Graph.Inits {
		if t := m.Values[id].Init; t != nil && len(t.Dims) > 1 {
			out[fmt.Sprint(t.Dims)]++
		}
	}
	return out
}

// like is the share of the parts that two have in common.
func (p parts) like(o parts) float64 {
	common, both := 0, 0
	for k, n := range p {
		common += min(n, o[k])
		both += n
	}
	for _, n := range o {
		both += n
	}
	return float64(common) / float64(max(both-common, 1))
}
