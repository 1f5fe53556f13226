package shape

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Result is what inference found out about a model. Nothing in it changes after
// Infer returned it but the constants that Value reads.
type Result struct {
	Unknown        []UnknownOp     // operators that the table does not have, sorted by domain and name
	Unbound        []Unbound       // dimensions of inputs that no option gave a size
	Bounded        int             // dimensions that depend on data
	Contradictions []Contradiction // values that the file declares otherwise, in the order of the nodes
	Notes          []string        // what else the user should know, one line each

	m *onnxload.Model
	f *inferer

	open bool // some value has a dimension that is no number
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
	Inputs []string // the inputs it is a dimension of
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

// Numbers reports whether all dimensions that are known are numbers. Then Type and Shared may be called while
// Value is.
func (r *Result) Numbers() bool { return !r.open }

func (f *inferer) result() *Result {
	r := &Result{
		Unbound:        f.open,
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
	r.countOpen()
	return r
}

// countOpen looks for dimensions that are no numbers.
func (r *Result) countOpen() {
	for _, t := range r.f.types {
		if t == nil {
			continue
		}
		for _, d := range t.Shape.Dims {
			r.open = r.open || d.Open()
			if d.ByData() {
				r.Bounded++
			}
		}
	}
}

// maxNotes bounds how many notes one inference keeps; the rest is counted.
const maxNotes = 1000

// notes collects what the user should know, in the order of the nodes.
type notes struct {
	list []string
	more int
}

func (f *inferer) note(n *onnxload.Node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n != nil {
		text = place(n) + ": " + text
	}
	f.notes.add(text)
}

func (n *notes) add(text string) {
	if len(n.list) >= maxNotes {
		n.more++
		return
	}
	n.list = append(n.list, text)
}

// all returns the notes, the last of which counts those left out.
func (n *notes) all() []string {
	if n.more == 0 {
		return n.list
	}
	return append(n.list[:len(n.list):len(n.list)], fmt.Sprintf("%d more notes", n.more))
}

// place says which node is meant.
func place(n *onnxload.Node) string {
	switch {
	case n.Name != "":
		return fmt.Sprintf("%q (%s)", n.Name, n.Op)
	case len(n.Out) > 0:
		return fmt.Sprintf("a node (%s)", n.Op)
	}
	return n.Op
}
