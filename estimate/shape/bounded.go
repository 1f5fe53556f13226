package shape

import "fmt"

// bounded returns a new dimension that depends on data, at most limit.
func (c *call) bounded(limit Dim) Dim { return c.inf.bounded(limit) }

func (f *inferer) bounded(limit Dim) Dim {
	// A limit depends on no data itself: following a chain of such limits would take time in the
	// square of its length.
	limit, _ = f.bound(limit)
	if n, ok := limit.Int(); ok && n == 0 {
		return limit
	}
	name := fmt.Sprintf("?b%d", len(f.bounds))
	if f.bounds == nil {
		f.bounds = map[string]Dim{}
	}
	f.bounds[name] = limit
	return Sym(name)
}

// bound replaces the data-dependent symbols in d by their limits, and reports
// whether there were any.
func (f *inferer) bound(d Dim) (Dim, bool) {
	if _, ok := d.Int(); ok || f.bounds == nil {
		return d, false
	}
	found := false
	d = d.Bind(func(name string) (Dim, bool) {
		limit, ok := f.bounds[name]
		found = found || ok
		return limit, ok
	})
	return d, found
}

// fewest replaces the data-dependent symbols in d by one.
func (f *inferer) fewest(d Dim) Dim {
	if _, ok := d.Int(); ok || f.bounds == nil {
		return d
	}
	return d.Bind(func(name string) (Dim, bool) {
		_, ok := f.bounds[name]
		return N(1), ok
	})
}
