package estimate

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// A graphCase is a graph of the accuracy tables with a batch: of a model in a folder, or of a built-in one where dir
// is "".
type graphCase struct {
	dir, model, form string
	batch            int64
}

// An estimated is what the accuracy tables compare of a run, in bytes.
type estimated struct {
	allocated, reserved, device int64
	upper, likely, safe         int64
	saved                       int64
	err                         error
}

// The tables have cases in common and many that differ in their step alone: each is estimated once in a process, and
// of the graphs the last few are kept, bound.
var (
	estimates sync.Map // of a case's text, a func() estimated
	lastBound struct {
		sync.Mutex
		cases []graphCase
		of    map[graphCase]func() (*Bound, error)
	}
)

// bound returns the graph bound to its batch.
func (g graphCase) bound(t testing.TB) (*Bound, error) {
	const kept = 4
	l := &lastBound
	l.Lock()
	bind := l.of[g]
	if bind == nil {
		bind = sync.OnceValues(func() (*Bound, error) {
			return Bind(openGraph(t, g.dir, g.model, g.form), Options{Batch: g.batch, BuiltIn: g.dir == ""})
		})
		if l.of == nil {
			l.of = map[graphCase]func() (*Bound, error){}
		}
		if l.cases, l.of[g] = append(l.cases, g), bind; len(l.cases) > kept {
			delete(l.of, l.cases[0])
			l.cases = slices.Delete(l.cases, 0, 1)
		}
	}
	l.Unlock()
	return bind()
}

// estimate returns what a step of the graph takes.
func (g graphCase) estimate(t testing.TB, step Step) estimated {
	once := sync.OnceValue(func() estimated {
		b, err := g.bound(t)
		if err != nil {
			return estimated{err: err}
		}
		sim, err := b.Simulate(step)
		if err != nil {
			return estimated{err: err}
		}
		p := sim.Peak
		return estimated{p.Allocated, p.Reserved, p.Device, p.UpperBound, p.Likely, p.Safe, sim.Run.Saved, nil}
	})
	made, _ := estimates.LoadOrStore(fmt.Sprintf("%q %q %q %d %+v", g.dir, g.model, g.form, g.batch, step), once)
	return made.(func() estimated)()
}
