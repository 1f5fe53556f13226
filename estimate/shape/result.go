package shape

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Result is what inference found out about a model. Nothing in it changes after
// Infer returned it but the constants that Value reads.
type Result struct {
	Unknown        []UnknownOp     // operators that the table does not have, sorted by domain and name
	Unbound        []Unbound       // dimensions that some value depends on and no option gave, in the order of the inputs
	Bounded        int             // dimensions that depend on data
	Contradictions []Contradiction // values that the file declares otherwise, in the order of the nodes
	Notes          []string        // what else the user should know, one line each

	m *onnxload.Model
	f *inferer

	symbols bool // some value has a dimension that is no number
}

// An UnknownOp is an operator without a row. The types of its outputs are the
// declared ones, or unknown.
type UnknownOp struct {
	Domain, Op string
	Nodes      int // how many nodes call it
}

// An Unbound is a dimension without a size.
type Unbound struct {
	Name   string   // the symbol in the file; "" for a dimension of an input that has none
	Inputs []string // the inputs it is a dimension of; none when only other values declare it
	Dim    int      // when Name is "": which dimension of Inputs[0]; -1: not even their number is known
}

// Type returns the type of a value, the zero Type for onnxload.NoValue.
func (r *Result) Type(id onnxload.ValueID) Type {
	return r.f.typeOf(id)
}

// Value returns the value of a small constant tensor, which it reads from the file
// if nothing needed it so far; nil when it is too large, stripped or not constant, and for onnxload.NoValue.
// It is not safe for concurrent use.
func (r *Result) Value(id onnxload.ValueID) *Const {
	return r.f.constant(id)
}

// Body returns which of its graphs an If, Loop or Scan runs: nil for other nodes, and it may be for those in a branch
// that is not taken.
func (r *Result) Body(n *onnxload.Node) *onnxload.Graph { return r.f.bodies[n] }

// Numbers reports whether all dimensions that are known are numbers. Then Type, Shared and Limit may be called while
// Value is.
func (r *Result) Numbers() bool { return !r.symbols }

// Limit replaces the data-dependent dimensions in d by the most they can be, and
// reports whether there were any.
func (r *Result) Limit(d Dim) (Dim, bool) { return r.f.bound(d) }

// Fewest replaces the data-dependent dimensions in d by the least that is worth a run: one.
func (r *Result) Fewest(d Dim) Dim { return r.f.fewest(d) }

func (f *inferer) result() *Result {
	r := &Result{
		Contradictions: f.contradictions,
		Notes:          f.notes.all(),
		m:              f.m,
		f:              f,
	}
	for k, n := range f.unknown {
		r.Unknown = append(r.Unknown, UnknownOp{k.domain, k.name, n})
	}
	slices.SortFunc(r.Unknown, func(a, b UnknownOp) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Op, b.Op))
	})
	r.findOpen()
	return r
}

// findOpen collects the dimensions that are not numbers.
func (r *Result) findOpen() {
	at := map[string]int{} // index into Unbound
	for _, id := range r.m.Graph.Inputs {
		name := r.m.NameOf(id)
		if t := r.Type(id); t.Kind <= onnxload.TensorType && !t.Shape.Ranked {
			r.Unbound = append(r.Unbound, Unbound{Inputs: []string{name}, Dim: -1})
		}
		for i, d := range r.Type(id).Shape.Dims {
			d.Symbols(func(s string) {
				k, ok := at[s]
				if !ok {
					k = len(r.Unbound)
					at[s] = k
					u := Unbound{Name: s, Dim: i}
					if strings.HasPrefix(s, "?") {
						u.Name = ""
					}
					r.Unbound = append(r.Unbound, u)
				}
				if in := &r.Unbound[k].Inputs; len(*in) == 0 || (*in)[len(*in)-1] != name {
					*in = append(*in, name)
				}
			})
		}
	}
	for _, t := range r.f.types {
		if t == nil {
			continue
		}
		for _, d := range t.Shape.Dims {
			if _, ok := d.Int(); ok {
				continue
			}
			r.symbols = true
			if _, ok := r.f.bound(d); ok {
				r.Bounded++
			}
			d.Symbols(func(s string) {
				if _, ok := at[s]; !ok && !strings.HasPrefix(s, "?") {
					at[s] = len(r.Unbound)
					r.Unbound = append(r.Unbound, Unbound{Name: s})
				}
			})
		}
	}
}
