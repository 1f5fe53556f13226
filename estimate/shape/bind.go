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
	// the types of the inputs as the file has them, with the shapes that options give; a dimension without a name has
	// one that no file has
	inputs []onnxload.Type
}

// bind gives the inputs of the model their types: as declared, with the options
// put in the place of symbols.
func (f *inferer) bind() error {
	f.sizes = map[string]binding{}
	b := &binder{f: f, sizes: f.sizes}
	for _, id := range f.m.Graph.Inputs {
		t := f.m.Values[id].Type()
		t.Dims = slices.Clone(t.Dims)
		for i := range t.Dims {
			d := &t.Dims[i]
			if n, ok := f.opt.Dims[d.Param]; ok && d.Known && d.Param != "" {
				d.Size = n
			}
			if param := strings.TrimSpace(d.Param); !d.Known && (param == "" || param[0] == '?') {
				d.Param = fmt.Sprintf("?%s[%d]", f.m.NameOf(id), i)
			}
		}
		b.inputs = append(b.inputs, t)
	}
	if err := b.dims(); err != nil {
		return err
	}
	if err := b.shapes(); err != nil {
		return err
	}
	if err := b.batch(); err != nil {
		return err
	}
	for i, id := range f.m.Graph.Inputs {
		t := f.fromDeclared(b.inputs[i])
		if err := checkType(t); err != nil {
			return fmt.Errorf("input %q: %w", f.m.NameOf(id), err)
		}
		f.setType(id, t)
	}
	b.findOpen()
	return nil
}

// findOpen collects the dimensions of inputs that have no size.
func (b *binder) findOpen() {
	at := map[string]int{} // index into open
	for i, t := range b.inputs {
		name := b.f.m.NameOf(b.f.m.Graph.Inputs[i])
		if t.Kind <= onnxload.TensorType && !t.HasRank {
			b.f.open = append(b.f.open, Unbound{Inputs: []string{name}, Dim: -1})
		}
		for j, d := range t.Dims {
			for _, s := range b.unsized(d) {
				k, ok := at[s]
				if !ok {
					k = len(b.f.open)
					at[s] = k
					u := Unbound{Name: s, Dim: j}
					if strings.HasPrefix(s, "?") {
						u.Name = ""
					}
					b.f.open = append(b.f.open, u)
				}
				if in := &b.f.open[k].Inputs; len(*in) == 0 || (*in)[len(*in)-1] != name {
					*in = append(*in, name)
				}
			}
		}
	}
}

// size returns the size of a dimension, and whether it has one.
func (b *binder) size(d onnxload.Dim) (int64, bool) {
	if d.Known {
		return d.Size, true
	}
	size, _ := evaluate(d.Param, b.f.sizeOf)
	return size.Int()
}

// unsized returns the symbols of a dimension that have no size.
func (b *binder) unsized(d onnxload.Dim) []string {
	if d.Known {
		return nil
	}
	_, names := evaluate(d.Param, b.f.sizeOf)
	return slices.DeleteFunc(names, func(name string) bool { _, ok := b.sizes[name]; return ok })
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
func (b *binder) solve(d onnxload.Dim, size int64, from bindSource) (bool, error) {
	if n, ok := b.size(d); ok {
		if n != size {
			return false, from.fail("wants %d where the dimension is %d%s", size, n, b.because())
		}
		return true, nil
	}
	names := slices.Compact(b.unsized(d))
	if len(names) != 1 {
		return false, nil
	}
	with := func(n int64) (int64, bool) {
		at, _ := evaluate(d.Param, func(name string) (int64, bool) {
			if name == names[0] {
				return n, true
			}
			return b.f.sizeOf(name)
		})
		return at.Int()
	}
	rest, ok0 := with(0)
	one, ok1 := with(1)
	coef, ok := Sub(N(one), N(rest)).Int()
	if !ok0 || !ok1 || !ok || coef == 0 {
		return false, nil
	}
	left, ok := Sub(N(size), N(rest)).Int()
	if !ok || left%coef != 0 || left/coef < 0 {
		return false, from.fail("no size of %s makes %s equal to %d", show(names[0]), d.Param, size)
	}
	if n, ok := with(left / coef); !ok || n != size { // it does not grow in proportion
		return false, nil
	}
	return true, b.set(names[0], left/coef, from)
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
				_, in := evaluate(d.Param, f.sizeOf)
				for _, name := range in {
					if name != "" && name[0] != '?' {
						names[name] = true
					}
				}
			}
		}
	}
	for i := range f.m.Values {
		visit(f.m.Values[i].Declared)
	}
	return slices.Sorted(maps.Keys(names))
}

// shapes applies Options.Inputs.
func (b *binder) shapes() error {
	f := b.f
	byName := map[string]int{}
	var known []string
	for i, id := range f.m.Graph.Inputs {
		byName[f.m.NameOf(id)] = i
		known = append(known, f.m.NameOf(id))
	}
	for _, name := range slices.Sorted(maps.Keys(f.opt.Inputs)) {
		sizes, from := f.opt.Inputs[name], inputOption(name)
		at, ok := byName[name]
		if !ok {
			return from.fail("%s", unknownName("input", name, known))
		}
		t := &b.inputs[at]
		if t.Kind != onnxload.TensorType && t.Kind != onnxload.NoType {
			return from.fail("is no tensor, it takes no shape")
		}
		if t.HasRank && len(t.Dims) != len(sizes) {
			return from.fail("has %d dimensions %v, got %d", len(t.Dims), f.fromDeclared(*t).Shape, len(sizes))
		}
		for i, size := range sizes {
			if size < 0 {
				return from.fail("dimension %d is %d", i, size)
			}
			if !t.HasRank {
				continue
			}
			d := t.Dims[i]
			switch {
			case d.Known && (d.Size == size || d.Param != ""):
			case d.Known && i > 0:
				return from.fail("dimension %d is fixed to %d, got %d", i, d.Size, size)
			case d.Known:
				f.notes.add(fmt.Sprintf("input %q: the file fixes its first dimension to %d, taken as %d", name, d.Size, size))
			default:
				solved, err := b.solve(d, size, from)
				if err != nil {
					return err
				}
				if !solved {
					f.notes.add(fmt.Sprintf("input %q: dimension %d is %s in the file, taken as %d", name, i, d.Param, size))
				}
			}
		}
		t.Kind, t.HasRank = onnxload.TensorType, true
		t.Dims = make([]onnxload.Dim, len(sizes))
		for i, size := range sizes {
			t.Dims[i] = onnxload.Dim{Known: true, Size: size}
		}
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
