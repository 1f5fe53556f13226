package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/onnxload"
)

// An origin is a file of the base that is gone, and may have moved, or a file of now that may have been one.
type origin struct {
	name string
	file git.File     // in the base
	read func() parts // of its graph; nil where it cannot be read
}

// maxOrigins is how many files that are gone are looked at.
const maxOrigins = 500

// gone lists the files of the base that the work tree no longer has and whose names end as those of models do.
func (b *baseline) gone() (out []*origin) {
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		f := b.files[name]
		if f.Kind != git.Regular || !modelName(name) || len(out) == maxOrigins {
			continue
		}
		if _, err := os.Lstat(filepath.Join(b.dir, filepath.FromSlash(name))); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out = append(out, &origin{name: name, file: f, read: sync.OnceValue(func() parts {
			m, err := b.source(name, f).openRevision()
			if err != nil {
				return nil
			}
			defer m.Close()
			return partsOf(m)
		})})
	}
	return out
}

// modelName reports whether a file is named as models are.
func modelName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".onnx", ".onnxtxt", ".pb", ".pbtxt", ".textproto", ".prototxt", ".json", ".mrec":
		return true
	}
	return false
}

// How alike two graphs are, from 0 to 1, that are taken for one that moved: less where the file kept its name.
const (
	alike      = 0.5
	alikeNamed = 0.2
)

// movedFrom returns the file that is gone and is the most like a model, by its graph and by its path; nil where none
// is like it.
func (b *baseline) movedFrom(name string, head *onnxload.Model) (best *origin) {
	var mine parts
	most := 0.0
	for _, o := range b.origins() {
		if mine == nil {
			mine = partsOf(head)
		}
		least, score := alike, 0.0
		if path.Base(o.name) == path.Base(name) {
			least, score = alikeNamed, 0.25
		}
		if path.Dir(o.name) == path.Dir(name) {
			score += 0.1
		}
		like := mine.like(o.read())
		score += like
		if like >= least && (score > most || score == most && best != nil && o.name < best.name) {
			best, most = o, score
		}
	}
	return best
}

// movedTo returns the file that is new or has changed, is not checked, and is the most like a model of the base that is
// gone; "" where none is like it. It may have any name.
func (b *baseline) movedTo(name string, checked map[string][]*budget.Model) (best string) {
	most := 0.0
	var mine parts
	for _, o := range b.strays() {
		if checked[o.name] != nil {
			continue
		}
		if mine == nil {
			m, err := b.source(name, b.files[name]).openRevision()
			if err != nil {
				return ""
			}
			mine = partsOf(m)
			m.Close()
		}
		if like := mine.like(o.read()); like >= alike && like > most {
			best, most = o.name, like
		}
	}
	return best
}

// stray lists the files of the work tree that are new or may have changed: models may be among them.
func (b *baseline) stray() (out []*origin) {
	names, err := b.repo.Changed(b.commit)
	if err != nil {
		return nil
	}
	for _, name := range names {
		file := filepath.Join(b.dir, filepath.FromSlash(name))
		st, err := os.Lstat(file)
		if err != nil || !st.Mode().IsRegular() || len(out) == maxOrigins {
			continue
		}
		out = append(out, &origin{name: name, read: sync.OnceValue(func() parts {
			m, err := onnxload.Open(file)
			if err != nil {
				return nil
			}
			defer m.Close()
			return partsOf(m)
		})})
	}
	return out
}

// parts are what a graph consists of, each with how often it is there.
type parts map[string]int

// partsOf takes a graph apart into operators with those that follow, and the shapes of its weights.
func partsOf(m *onnxload.Model) parts {
	out := parts{}
	if m == nil { // a recording
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

// like is the share of the parts that two graphs have in common.
func (p parts) like(o parts) float64 {
	common, all := 0, 0
	for k, n := range p {
		common += min(n, o[k])
		all += max(n, o[k])
	}
	for k, n := range o {
		if p[k] == 0 {
			all += n
		}
	}
	if all == 0 {
		return 0
	}
	return float64(common) / float64(all)
}
