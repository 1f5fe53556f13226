package shape

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hbollon/go-edlib"
	"github.com/memestimate/memestimate/onnxload"
)

// A BindError says which option does not fit the model, and why.
type BindError struct {
	Option string // "batch", `dim "sequence"`, `input "x"`
	Msg    string
}

// Error names the option and what is wrong with it.
func (e *BindError) Error() string { return e.Option + ": " + e.Msg }

// fail says what is wrong with an option. Symbols in it are as the file has them: what cannot be printed is escaped.
func (o bindSource) fail(format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if strings.ContainsFunc(msg, func(r rune) bool { return !strconv.IsPrint(r) }) {
		msg = strconv.Quote(msg)
	}
	return &BindError{string(o), msg}
}

// A bindSource says which option a binding came from.
type bindSource string

func dimOption(name string) bindSource   { return bindSource(fmt.Sprintf("dim %q", name)) }
func inputOption(name string) bindSource { return bindSource(fmt.Sprintf("input %q", name)) }

const batchOption bindSource = "batch"

// A binding is the size that an option gave a symbol.
type binding struct {
	size int64
	from bindSource
}

// A binder gives symbols their sizes.
type binder struct {
	f     *inferer
	sizes map[string]binding
}

// bind gives the inputs of the model their types: as declared, with the options
// put in the place of symbols.
func (f *inferer) bind() error {
	b := &binder{f, map[string]binding{}}
	for _, id := range f.m.Graph.Inputs {
		t, err := f.inputType(id)
		if err != nil {
			return err
		}
		f.setType(id, t)
	}
	if err := b.dims(); err != nil {
		return err
	}
	if err := b.inputs(); err != nil {
		return err
	}
	if err := b.batch(); err != nil {
		return err
	}
	f.sizes = b.sizes
	for _, id := range f.m.Graph.Inputs {
		t := f.substitute(f.typeOf(id))
		if err := checkType(t); err != nil {
			return fmt.Errorf("input %q: %w", f.m.NameOf(id), err)
		}
		f.setType(id, t)
	}
	return nil
}

// inputType returns the declared type of an input. Dimensions without a name are
// unnamed symbols of their own.
func (f *inferer) inputType(id onnxload.ValueID) (Type, error) {
	v := &f.m.Values[id]
	t := f.fromDeclared(v.Type(), func(i int) Dim { return unnamedInput(v.Name, i) })
	if err := checkType(t); err != nil {
		return t, fmt.Errorf("input %q: %w", v.Name, err)
	}
	return t, nil
}

// unnamedInput is the symbol of an input's dimension that has no name.
func unnamedInput(name string, i int) Dim { return Sym(fmt.Sprintf("?%s[%d]", name, i)) }

// substitute puts sizes in the place of bound symbols.
func (f *inferer) substitute(t Type) Type {
	if t.Of != nil {
		of := f.substitute(*t.Of)
		t.Of = &of
	}
	for i, d := range t.Shape.Dims {
		if _, ok := d.Int(); !ok {
			t.Shape.Dims = slices.Clone(t.Shape.Dims)
			for j := i; j < len(t.Shape.Dims); j++ {
				t.Shape.Dims[j] = f.bound1(t.Shape.Dims[j])
			}
			break
		}
	}
	return t
}

// bound1 puts sizes in the place of d's bound symbols.
func (f *inferer) bound1(d Dim) Dim {
	if _, ok := d.Int(); ok || len(f.sizes) == 0 {
		return d
	}
	return d.Bind(func(name string) (Dim, bool) {
		b, ok := f.sizes[name]
		return N(b.size), ok
	})
}

// set binds a symbol.
func (b *binder) set(name string, size int64, from bindSource) error {
	if old, ok := b.sizes[name]; ok && old.size != size {
		return from.fail("makes dimension %s %d, and %s makes it %d", show(name), size, old.from, old.size)
	}
	if _, ok := b.sizes[name]; !ok {
		b.sizes[name] = binding{size, from}
	}
	return nil
}

// show writes a symbol for a message.
func show(name string) string {
	if name, ok := strings.CutPrefix(name, "?"); ok {
		return name
	}
	return fmt.Sprintf("%q", name)
}

// solve makes d equal to size by binding the one symbol in it that has no size
// yet. It reports false when that is not possible or not needed.
func (b *binder) solve(d Dim, size int64, from bindSource) (bool, error) {
	d = d.Bind(func(name string) (Dim, bool) {
		v, ok := b.sizes[name]
		return N(v.size), ok
	})
	if n, ok := d.Int(); ok {
		if n != size {
			return false, from.fail("wants %d where the dimension is %d%s", size, n, b.because())
		}
		return true, nil
	}
	if d.Overflowed() {
		return false, nil
	}
	rest, coef, name := int64(0), int64(0), ""
	for _, t := range d.x.terms {
		switch {
		case len(t.atoms) == 0:
			rest = t.coef
		case len(t.atoms) == 1 && t.atoms[0].fn == 0 && name == "":
			coef, name = t.coef, t.atoms[0].key
		default:
			return false, nil
		}
	}
	n, ok := Sub(N(size), N(rest)).Int()
	if !ok || n%coef != 0 || n/coef < 0 {
		return false, from.fail("no size of %s makes %s equal to %d", show(name), d, size)
	}
	return true, b.set(name, n/coef, from)
}

// because lists the bindings so far, for a message about a contradiction.
func (b *binder) because() string {
	if len(b.sizes) == 0 {
		return ""
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(b.sizes)) {
		words = append(words, fmt.Sprintf("%s=%d", show(name), b.sizes[name].size))
	}
	return " with " + strings.Join(words, ", ")
}

// dims applies Options.Dims.
func (b *binder) dims() error {
	var known []string
	for _, name := range slices.Sorted(maps.Keys(b.f.opt.Dims)) {
		size := b.f.opt.Dims[name]
		if known == nil {
			known = b.f.symbols()
		}
		if _, ok := slices.BinarySearch(known, name); !ok {
			return dimOption(name).fail("%s", unknownName("dimension", name, known))
		}
		if size < 0 {
			return dimOption(name).fail("%d is no size", size)
		}
		if err := b.set(name, size, dimOption(name)); err != nil {
			return err
		}
	}
	return nil
}

// symbols returns the names of all symbolic dimensions that the file declares, sorted.
func (f *inferer) symbols() []string {
	names := map[string]bool{}
	seen := map[string]bool{}
	visit := func(t *onnxload.Type) {
		for ; t != nil; t = t.Of {
			for _, d := range t.Dims {
				if d.Param == "" || seen[d.Param] {
					continue
				}
				seen[d.Param] = true
				if dim, ok := ParseDim(d.Param); ok {
					dim.Symbols(func(name string) {
						if !strings.HasPrefix(name, "?") {
							names[name] = true
						}
					})
				}
			}
		}
	}
	for i := range f.m.Values {
		visit(f.m.Values[i].Declared)
	}
	return slices.Sorted(maps.Keys(names))
}

// inputs applies Options.Inputs.
func (b *binder) inputs() error {
	f := b.f
	byName := map[string]onnxload.ValueID{}
	var known []string
	for _, id := range f.m.Graph.Inputs {
		byName[f.m.NameOf(id)] = id
		known = append(known, f.m.NameOf(id))
	}
	for _, name := range slices.Sorted(maps.Keys(f.opt.Inputs)) {
		sizes, from := f.opt.Inputs[name], inputOption(name)
		id, ok := byName[name]
		if !ok {
			return from.fail("%s", unknownName("input", name, known))
		}
		t := f.typeOf(id)
		if t.Kind != onnxload.TensorType && t.Kind != onnxload.NoType {
			return from.fail("is no tensor, it takes no shape")
		}
		if t.Shape.Ranked && len(t.Shape.Dims) != len(sizes) {
			return from.fail("has %d dimensions %v, got %d", len(t.Shape.Dims), t.Shape, len(sizes))
		}
		t.Kind = onnxload.TensorType
		dims := make([]Dim, len(sizes))
		for i, size := range sizes {
			if size < 0 {
				return from.fail("dimension %d is %d", i, size)
			}
			dims[i] = N(size)
			if !t.Shape.Ranked {
				continue
			}
			was, fixed := t.Shape.Dims[i].Int()
			declared := f.m.Values[id].Declared
			named := declared != nil && declared.Dims[i].Known && declared.Dims[i].Param != ""
			if fixed && was != size && !named {
				if i > 0 {
					return from.fail("dimension %d is fixed to %d, got %d", i, was, size)
				}
				f.notes.add(fmt.Sprintf("input %q: the file fixes its first dimension to %d, taken as %d", name, was, size))
				continue
			}
			if fixed {
				continue
			}
			solved, err := b.solve(t.Shape.Dims[i], size, from)
			if err != nil {
				return err
			}
			if !solved {
				f.notes.add(fmt.Sprintf("input %q: dimension %d is %s in the file, taken as %d", name, i, t.Shape.Dims[i], size))
			}
		}
		t.Shape = Of(dims...)
		f.setType(id, t)
	}
	return nil
}

// unknownName says that there is no such name, which ones there are, and which
// was perhaps meant.
func unknownName(what, name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("the model has no %s with a name", what)
	}
	quoted := make([]string, 0, 12)
	for i, k := range known {
		if i == 10 {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(known)-10))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", k))
	}
	msg := fmt.Sprintf("the model has no such %s; it has %s", what, strings.Join(quoted, ", "))
	if near := nearest(name, known); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg
}

// nearest returns the known name that the fewest edits make of name, when
// they are few.
func nearest(name string, known []string) string {
	best, least := "", len(name)/3+2
	for i, k := range known {
		if i == 1000 || len(k) > 256 || len(name) > 256 {
			break
		}
		if d := edlib.OSADamerauLevenshteinDistance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}
