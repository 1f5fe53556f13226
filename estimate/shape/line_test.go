package shape

import (
	"bufio"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// The rows are tested by lines in testdata/ops/*.txt, one file a family. A line is an
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
//	?,<=4                       not known, and what data decides, at most 4
//	float16:*  *                unknown rank
//	_                           nothing: an omitted input, an output not asked for, a type not known
//	seq(int64:2,3)  opt(2,3)    sequence, optional; seq(2,3)#4 has four elements
//	map(string,float32:-)       map from keys to values
//	int64:2=4,5  -=7  2=1.5,2   with a value; int64 by default, float32 when one has a point
//
// An input is NAME:TYPE; the name is for the reader. An attribute is NAME=VALUE, and the look of the value says its
// type:
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
		data := must.Read(t, file)
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
	for _, r := range families {
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
	l.f = newInferer(&onnxload.Model{Values: make([]onnxload.Value, 1)}, Options{})
	i := 1
	for ; i < len(words) && words[i] != "->"; i++ {
		w := words[i]
		eq, colon := strings.IndexByte(w, '='), strings.IndexByte(w, ':')
		if colon >= 0 && (eq < 0 || colon < eq) {
			id := onnxload.NoValue
			if w[colon+1:] != "_" {
				typ, v, err := parseType(w[colon+1:])
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
	f.types = append(f.types, &typ)
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
		t := l.f.typeOf(id)
		t.Shape.Dims = slices.Clone(t.Shape.Dims)
		for j, d := range t.Shape.Dims {
			if most, ok := d.Most(); ok {
				t.Shape.Dims[j] = N(most)
			}
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
		typ, v := f.typeOf(l.node.Out[i]), f.consts[l.node.Out[i]]
		got := formatType(typ)
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
