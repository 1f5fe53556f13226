package shape

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
)

// The rows are tested by lines in testdata/ops/*.txt, one file a room. A line is an
// operator, its inputs, its attributes, "->" and its outputs:
//
//	Conv x:1,3,224,224 w:64,3,7,7 strides=2,2 pads=3,3,3,3 -> 1,64,112,112
//	com.microsoft:FusedMatMul a:2,3 b:3,4 -> 2,4
//	Squeeze@11 x:1,3,1 axes=0, -> 3,1
//
// An operator may have a domain before ":" and a version after "@"; without one
// the newest row is meant. A type is [DTYPE:]DIMS, float32 by default:
//
//	2,3  int64:2,3  -           the last is a scalar
//	batch,?,batch*2             symbols; each ? is an unknown of its own
//	float16:*  *                unknown rank
//	_                           nothing: an omitted input, an output not asked for, a type not known
//	seq(int64:2,3)  opt(2,3)    sequence, optional; seq(2,3)#4 has four elements
//	map(string,float32:-)       map from keys to values
//	int64:2=4,5  -=7  2=1.5,2   with a value; int64 by default, float32 when one has a point
//
// An input is NAME:TYPE; the name is for the reader. In an output, <=N is a bounded
// dimension. An attribute is NAME=VALUE, and the look of the value says its type:
//
//	axis=-1  alpha=0.5  mode=linear  mode="a b"     int, float, string
//	axes=0,  pads=1,1  scales=1.0,2  keys="a","b"   lists of them: a comma makes one
//	axes=[]  to=@float16                            no ints, an element type
//
// Instead of outputs a line may end in: error "TEXT". An operator whose attributes are
// graphs has the line "If see TestIf..." instead, naming the test of its rule.
func TestLines(t *testing.T) {
	files, err := filepath.Glob("testdata/ops/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/ops has no files: %v", err)
	}
	covered := map[*op]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := bufio.NewScanner(strings.NewReader(string(data)))
		for no := 1; s.Scan(); no++ {
			line := strings.TrimSpace(s.Text())
			if line == "" || line[0] == '#' {
				continue
			}
			row, err := checkLine(line)
			if err != nil {
				t.Errorf("%s:%d: %s\n\t%v", file, no, line, err)
			}
			covered[row] = true
		}
	}
	for _, r := range rooms {
		for i := range r.ops {
			if o := &r.ops[i]; !covered[o] {
				t.Errorf("testdata/ops has no line for %s:%s since %d", r.domain, o.name, o.since)
			}
		}
	}
}

// A testLine is a line taken apart: a node of a model of its own.
type testLine struct {
	row     *op
	see     bool // the line names a test instead
	f       *inferer
	node    onnxload.Node
	want    []string // the outputs
	wantErr string
}

// parseLine takes the words of a line apart. The row is set as soon as it is known.
func parseLine(words []string) (l testLine, err error) {
	name, version := words[0], int64(1<<62)
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		if version, err = strconv.ParseInt(name[at+1:], 10, 64); err != nil {
			return l, err
		}
		name = name[:at]
	}
	n := &l.node
	n.Op, n.Version = name, version
	if colon := strings.LastIndexByte(name, ':'); colon >= 0 {
		n.Domain, n.Op = name[:colon], name[colon+1:]
	}
	if l.row = opTable().find(n.Domain, n.Op, version); l.row == nil {
		return l, fmt.Errorf("no such operator")
	}
	if len(words) > 1 && words[1] == "see" {
		l.see = true
		return l, nil
	}
	l.f = newInferer(&onnxload.Model{}, Options{})
	i := 1
	for ; i < len(words) && words[i] != "->"; i++ {
		w := words[i]
		eq, colon := strings.IndexByte(w, '='), strings.IndexByte(w, ':')
		if colon >= 0 && (eq < 0 || colon < eq) {
			id := onnxload.NoValue
			if w[colon+1:] != "_" {
				typ, v, err := parseType(l.f, w[colon+1:])
				if err != nil {
					return l, fmt.Errorf("%s: %w", w, err)
				}
				id = l.value(typ, v)
			}
			n.In = append(n.In, id)
			continue
		}
		a, err := parseAttr(w)
		if err != nil {
			return l, fmt.Errorf("%s: %w", w, err)
		}
		n.Attrs = append(n.Attrs, a)
	}
	if i+1 >= len(words) {
		return l, fmt.Errorf("want \"->\" and what comes out")
	}
	l.want = words[i+1:]
	if l.want[0] == "error" && len(l.want) == 2 {
		l.wantErr = strings.Trim(l.want[1], `"`)
		l.want = []string{"*"}
	}
	for _, w := range l.want {
		id := onnxload.NoValue
		if w != "_" {
			id = l.value(Type{}, nil)
		}
		n.Out = append(n.Out, id)
	}
	return l, nil
}

// value adds a value to the line's model.
func (l *testLine) value(typ Type, v *Const) onnxload.ValueID {
	f := l.f
	f.m.Values = append(f.m.Values, onnxload.Value{})
	f.types = append(f.types, typ)
	f.consts = append(f.consts, v)
	return onnxload.ValueID(len(f.types) - 1)
}

// inferLine returns the types that come out of a line, bounded dimensions as their limits.
func inferLine(words []string) ([]Type, error) {
	l, err := parseLine(words)
	if err != nil {
		return nil, err
	}
	if err := l.f.node(&call{inf: l.f}, &l.node); err != nil {
		return nil, err
	}
	out := make([]Type, len(l.node.Out))
	for i, id := range l.node.Out {
		if id == onnxload.NoValue {
			continue
		}
		t := l.f.types[id]
		t.Shape.Dims = slices.Clone(t.Shape.Dims)
		for j, d := range t.Shape.Dims {
			t.Shape.Dims[j], _ = l.f.bound(d)
		}
		out[i] = t
	}
	return out, nil
}

// checkLine runs one line. It returns the row that the line is about.
func checkLine(line string) (*op, error) {
	words, err := splitLine(line)
	if err != nil {
		return nil, err
	}
	l, err := parseLine(words)
	if err != nil || l.see {
		return l.row, err
	}
	f := l.f
	if err := f.node(&call{inf: f}, &l.node); err != nil || l.wantErr != "" {
		if err == nil {
			return l.row, fmt.Errorf("got no error, want %q", l.wantErr)
		}
		if l.wantErr == "" || !strings.Contains(err.Error(), l.wantErr) {
			return l.row, fmt.Errorf("got error %q", err)
		}
		return l.row, nil
	}
	for i, w := range l.want {
		if w == "_" {
			continue
		}
		typ, v := f.types[l.node.Out[i]], f.consts[l.node.Out[i]]
		got := formatType(f, typ)
		if strings.Contains(strings.ReplaceAll(w, "<=", ""), "=") {
			got += formatValue(v)
			if !strings.Contains(w, ":") {
				w = defaultElem(w) + ":" + w
			}
		}
		got, w = strings.ReplaceAll(got, "float32:", ""), strings.ReplaceAll(w, "float32:", "")
		if got != w {
			return l.row, fmt.Errorf("output %d is %s, want %s", i, got, w)
		}
	}
	return l.row, nil
}

// splitLine splits at spaces outside quotes.
func splitLine(line string) ([]string, error) {
	var words []string
	start, quoted := -1, false
	for i := 0; i <= len(line); i++ {
		space := i == len(line) || line[i] == ' '
		switch {
		case i < len(line) && line[i] == '"':
			quoted = !quoted
			if start < 0 {
				start = i
			}
		case space && !quoted && start >= 0:
			words = append(words, line[start:i])
			start = -1
		case !space && start < 0:
			start = i
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed")
	}
	return words, nil
}

// defaultElem is the element type of a type that names none.
func defaultElem(s string) string {
	s = strings.ReplaceAll(s, "<=", "")
	if _, values, ok := strings.Cut(s, "="); ok && !strings.ContainsAny(values, ".") {
		return "int64"
	}
	return "float32"
}

func parseType(f *inferer, s string) (Type, *Const, error) {
	for _, wrap := range []string{"seq(", "opt("} {
		if !strings.HasPrefix(s, wrap) {
			continue
		}
		inner, rest, ok := cutLast(s[4:], ')')
		if !ok {
			return Type{}, nil, fmt.Errorf("want )")
		}
		of, _, err := parseType(f, inner)
		if err != nil {
			return Type{}, nil, err
		}
		if wrap == "opt(" {
			return Optional(of), nil, nil
		}
		t := Sequence(of)
		if strings.HasPrefix(rest, "#") {
			n, err := strconv.ParseInt(rest[1:], 10, 64)
			if err != nil {
				return Type{}, nil, err
			}
			t.List = &List{Len: N(n)}
		}
		return t, nil, nil
	}
	if inner, ok := strings.CutPrefix(s, "map("); ok {
		key, value, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ",")
		kt, err := parseDType(key)
		if err != nil {
			return Type{}, nil, err
		}
		of, _, err := parseType(f, value)
		return Type{Kind: onnxload.MapType, Elem: kt, Of: &of}, nil, err
	}
	text, values, hasValue := strings.Cut(s, "=")
	elem, dims, ok := strings.Cut(text, ":")
	if !ok {
		elem, dims = defaultElem(s), text
	}
	dt, err := parseDType(elem)
	if err != nil {
		return Type{}, nil, err
	}
	t := Tensor(dt, Shape{})
	switch dims {
	case "*":
		return t, nil, nil
	case "-":
		t.Shape = Of()
	default:
		for _, d := range strings.Split(dims, ",") {
			dim, err := parseTestDim(f, d)
			if err != nil {
				return Type{}, nil, err
			}
			t.Shape.Dims = append(t.Shape.Dims, dim)
		}
		t.Shape.Ranked = true
	}
	if !hasValue {
		return t, nil, nil
	}
	v := &Const{Elem: dt, Ints: []Dim{}}
	if v.Shape, ok = t.Shape.Ints(); !ok {
		return Type{}, nil, fmt.Errorf("a value needs known dimensions")
	}
	if dt.IsFloat() {
		v.Ints, v.Floats = nil, []float64{}
	}
	if values != "" {
		for _, w := range strings.Split(values, ",") {
			if dt.IsFloat() {
				x, err := strconv.ParseFloat(w, 64)
				if err != nil {
					return Type{}, nil, err
				}
				v.Floats = append(v.Floats, x)
				continue
			}
			d, err := parseTestDim(f, w)
			if err != nil {
				return Type{}, nil, err
			}
			v.Ints = append(v.Ints, d)
		}
	}
	if want, _ := Product(t.Shape.Dims...).Int(); int64(v.Len()) != want {
		return Type{}, nil, fmt.Errorf("%d values, want %d", v.Len(), want)
	}
	return t, v, nil
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func parseTestDim(f *inferer, s string) (Dim, error) {
	if s == "?" {
		return f.unnamed(), nil
	}
	d, ok := ParseDim(s)
	if !ok {
		return Dim{}, fmt.Errorf("%q is no dimension", s)
	}
	return d, nil
}

func parseDType(name string) (onnxload.DType, error) {
	for d := onnxload.DType(1); d.Valid(); d++ {
		if d.String() == name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is no element type", name)
}

func parseAttr(w string) (onnxload.Attr, error) {
	name, text, ok := strings.Cut(w, "=")
	if !ok {
		return onnxload.Attr{}, fmt.Errorf("want NAME:TYPE or NAME=VALUE")
	}
	a := onnxload.Attr{Name: name}
	switch {
	case text == "[]":
		a.Type = onnxload.AttrInts
		return a, nil
	case strings.HasPrefix(text, "@"):
		dt, err := parseDType(text[1:])
		a.Type, a.Int = onnxload.AttrInt, int64(dt)
		return a, err
	case strings.HasPrefix(text, `"`):
		for _, q := range strings.Split(strings.TrimSuffix(text, ","), `",`) {
			a.Strs = append(a.Strs, strings.Trim(q, `"`))
		}
		a.Type = onnxload.AttrStrings
		if len(a.Strs) == 1 && !strings.HasSuffix(text, ",") {
			a.Type, a.Str, a.Strs = onnxload.AttrString, a.Strs[0], nil
		}
		return a, nil
	}
	list := strings.Contains(text, ",")
	floats := strings.Contains(text, ".")
	for _, w := range strings.Split(strings.TrimSuffix(text, ","), ",") {
		x, err := strconv.ParseFloat(w, 32)
		if err != nil {
			if list {
				return a, err
			}
			a.Type, a.Str = onnxload.AttrString, text
			return a, nil
		}
		if floats {
			a.Floats = append(a.Floats, float32(x))
			continue
		}
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return a, err
		}
		a.Ints = append(a.Ints, n)
	}
	switch {
	case list && floats:
		a.Type = onnxload.AttrFloats
	case list:
		a.Type = onnxload.AttrInts
	case floats:
		a.Type, a.Float, a.Floats = onnxload.AttrFloat, a.Floats[0], nil
	default:
		a.Type, a.Int, a.Ints = onnxload.AttrInt, a.Ints[0], nil
	}
	return a, nil
}

// formatType writes a type as the lines do.
func formatType(f *inferer, t Type) string {
	switch t.Kind {
	case onnxload.NoType:
		return "_"
	case onnxload.SequenceType:
		s := "seq(" + formatType(f, *t.Of) + ")"
		if t.List != nil {
			s += "#" + formatDim(f, t.List.Len)
		}
		return s
	case onnxload.OptionalType:
		return "opt(" + formatType(f, *t.Of) + ")"
	case onnxload.MapType:
		return "map(" + t.Elem.String() + "," + formatType(f, *t.Of) + ")"
	}
	s := t.Elem.String() + ":"
	switch {
	case !t.Shape.Ranked:
		return s + "*"
	case len(t.Shape.Dims) == 0:
		return s + "-"
	}
	for i, d := range t.Shape.Dims {
		if i > 0 {
			s += ","
		}
		s += formatDim(f, d)
	}
	return s
}

func formatDim(f *inferer, d Dim) string {
	if b, ok := f.bound(d); ok {
		return "<=" + strings.ReplaceAll(b.String(), " ", "")
	}
	if d.Unnamed() {
		return "?"
	}
	return strings.ReplaceAll(d.String(), " ", "")
}

func formatValue(v *Const) string {
	if v == nil {
		return "=unknown"
	}
	var words []string
	for _, d := range v.Ints {
		words = append(words, strings.ReplaceAll(d.String(), " ", ""))
	}
	for _, x := range v.Floats {
		words = append(words, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return "=" + strings.Join(words, ",")
}
