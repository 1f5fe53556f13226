package shape

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// fromDeclared turns a type as the file has it into ours.
func (f *inferer) fromDeclared(t onnxload.Type) Type {
	out := Type{Kind: t.Kind, Elem: t.Elem}
	if t.HasRank {
		out.Shape = Shape{Ranked: true, Dims: make([]Dim, len(t.Dims))}
		for i, d := range t.Dims {
			n, overridden := f.opt.Dims[d.Param]
			switch {
			case d.Known && overridden && d.Param != "":
				out.Shape.Dims[i] = N(n)
			case d.Known:
				out.Shape.Dims[i] = N(d.Size)
			default:
				out.Shape.Dims[i] = f.param(d.Param)
			}
		}
	}
	if t.Of != nil {
		of := f.fromDeclared(*t.Of)
		out.Of = &of
	}
	return out
}

// param returns what a dim_param comes to, each text read once.
func (f *inferer) param(text string) Dim {
	if d, ok := f.params[text]; ok {
		return d
	}
	d, _ := evaluate(text, f.sizeOf)
	if f.params == nil {
		f.params = map[string]Dim{}
	}
	f.params[text] = d
	return d
}

// sizeOf returns the size of a symbol, and whether an option gave it one.
func (f *inferer) sizeOf(symbol string) (int64, bool) {
	b, ok := f.sizes[symbol]
	return b.size, ok
}

// A Contradiction is a value whose declared type is not the inferred one.
type Contradiction struct {
	Value    onnxload.ValueID
	Declared Type
	Inferred Type
}

// settle combines what a rule found out about a value with what the file
// declares: the rule is right where both know, the file fills what the rule
// left open.
func (f *inferer) settle(id onnxload.ValueID, t Type) Type {
	decl := f.m.Values[id].Declared
	if decl == nil || decl.Kind == onnxload.NoType || agrees(t, decl) {
		return t
	}
	d := f.fromDeclared(*decl)
	if checkType(d) != nil {
		return t
	}
	merged, ok := fill(t, d)
	if !ok && len(f.contradictions) < maxNotes {
		f.contradictions = append(f.contradictions, Contradiction{id, d, t})
	}
	return merged
}

// agrees reports quickly that the file has nothing to add to t and nothing against it.
func agrees(t Type, decl *onnxload.Type) bool {
	if t.Kind != onnxload.TensorType || decl.Kind != onnxload.TensorType || t.Elem != decl.Elem || !t.Shape.Ranked {
		return false
	}
	if !decl.HasRank {
		return true
	}
	if len(decl.Dims) != len(t.Shape.Dims) {
		return false
	}
	for i, d := range t.Shape.Dims {
		if n, ok := d.Int(); !ok || decl.Dims[i].Known && decl.Dims[i].Size != n {
			return false
		}
	}
	return true
}

// fill returns t with what it lacks taken from d. It reports false when they
// contradict each other.
func fill(t, d Type) (Type, bool) {
	if t.Kind == onnxload.NoType {
		return d, true
	}
	if t.Kind != d.Kind {
		return t, false
	}
	ok := true
	if t.Elem == onnxload.Undefined {
		t.Elem = d.Elem
	} else if d.Elem != onnxload.Undefined && d.Elem != t.Elem {
		ok = false
	}
	switch {
	case !t.Shape.Ranked:
		t.Shape = d.Shape
	case d.Shape.Ranked && len(d.Shape.Dims) != len(t.Shape.Dims):
		ok = false
	case d.Shape.Ranked:
		cloned := false
		for i, x := range t.Shape.Dims {
			y := d.Shape.Dims[i]
			switch {
			case y.Open():
				continue
			case !x.Open():
				ok = ok && x == y
				continue
			case !cloned:
				t.Shape.Dims, cloned = slices.Clone(t.Shape.Dims), true
			}
			t.Shape.Dims[i] = y
		}
	}
	switch {
	case t.Of == nil:
		t.Of = d.Of
	case d.Of != nil:
		of, good := fill(*t.Of, *d.Of)
		t.Of = &of
		ok = ok && good
	}
	return t, ok
}

// String says what is contradicted; name is the value's.
func (c Contradiction) String(name string) string {
	return fmt.Sprintf("value %q is %v, the file declares %v", name, c.Inferred, c.Declared)
}
