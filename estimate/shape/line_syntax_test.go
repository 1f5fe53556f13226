package shape

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

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

func parseType(s string) (Type, *Const, error) {
	for _, wrap := range []string{"seq(", "opt("} {
		if !strings.HasPrefix(s, wrap) {
			continue
		}
		inner, rest, ok := cutLast(s[4:], ')')
		if !ok {
			return Type{}, nil, fmt.Errorf("want )")
		}
		of, _, err := parseType(inner)
		if err != nil {
			return Type{}, nil, err
		}
		if wrap == "opt(" {
			return Type{Kind: onnxload.OptionalType, Of: &of}, nil, nil
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
		of, _, err := parseType(value)
		return Type{Kind: onnxload.MapType, Elem: kt, Of: &of}, nil, err
	}
	text, values, hasValue := strings.Cut(strings.ReplaceAll(s, "<=", "≤"), "=")
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
			dim, err := parseTestDim(d)
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
			d, err := parseTestDim(w)
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

func parseTestDim(s string) (Dim, error) {
	if s == "?" {
		return unknownSize, nil
	}
	limit, byData := strings.CutPrefix(s, "≤")
	n, err := strconv.ParseInt(limit, 10, 64)
	if byData {
		return bounded(N(n)), err
	}
	return N(n), err
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
func formatType(t Type) string {
	switch t.Kind {
	case onnxload.NoType:
		return "_"
	case onnxload.SequenceType:
		s := "seq(" + formatType(*t.Of) + ")"
		if t.List != nil {
			s += "#" + formatDim(t.List.Len)
		}
		return s
	case onnxload.OptionalType:
		return "opt(" + formatType(*t.Of) + ")"
	case onnxload.MapType:
		return "map(" + t.Elem.String() + "," + formatType(*t.Of) + ")"
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
		s += formatDim(d)
	}
	return s
}

func formatDim(d Dim) string {
	if most, _ := d.Most(); d.ByData() {
		return fmt.Sprintf("<=%d", most)
	}
	return d.String()
}

func formatValue(v *Const) string {
	if v == nil {
		return "=unknown"
	}
	var words []string
	for _, d := range v.Ints {
		words = append(words, formatDim(d))
	}
	for _, x := range v.Floats {
		words = append(words, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return "=" + strings.Join(words, ",")
}
