package shape

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// What a rule knows wins; what it leaves open comes from the file.
func TestDeclaredTypes(t *testing.T) {
	for _, c := range []struct {
		name, rule, declared string // of one value
		want                 string
		contradicts          bool
	}{
		{"nothing inferred", "_", "4,3", "4,3", false},
		{"nothing declared", "4,3", "_", "4,3", false},
		{"agreement", "4,3", "4,3", "4,3", false},
		{"a rank against none", "*", "4,n", "4,?", false},
		{"a number for an unknown", "?,3", "4,3", "4,3", false},
		{"a symbol against a number", "4,3", "n,3", "4,3", false},
		{"two sizes", "4,3", "5,3", "4,3", true},
		{"two ranks", "4,3", "4,3,1", "4,3", true},
		{"two element types", "4,3", "int64:4,3", "4,3", true},
		{"two kinds", "4,3", "seq(4,3)", "4,3", true},
		{"an impossible size", "?,3", "-4,3", "?,3", false},
		{"the element of a sequence", "seq(?,3)", "seq(4,3)", "seq(4,3)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parseModel(t, "info y:"+strings.Replace(c.declared, "_", "*", 1))
			if c.declared == "_" {
				m.Values[1].Declared = nil
			}
			f := newInferer(m, Options{})
			rule := Type{}
			if c.rule != "_" {
				var err error
				if rule, _, err = parseType(c.rule); err != nil {
					t.Fatal(err)
				}
			}
			got := f.settle(1, rule)
			if text := strings.ReplaceAll(formatType(got), "float32:", ""); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			if (len(f.contradictions) > 0) != c.contradicts {
				t.Errorf("contradictions are %v", f.contradictions)
			}
		})
	}
}

func TestContradictionsAreReported(t *testing.T) {
	r := mustInfer(t, `
		in x:2,3
		info y:2,4
		y = Identity x
		out y`, Options{})
	if len(r.Contradictions) != 1 {
		t.Fatalf("%d contradictions, want 1", len(r.Contradictions))
	}
	got := r.Contradictions[0].String("y")
	if want := `value "y" is float32[2, 3], the file declares float32[2, 4]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantTypes(t, r, "y:2,3")
}

// A size that depends on data is bounded; a number in the file is better, a
// symbol is not.
func TestDeclaredSizeOfBoundedDimension(t *testing.T) {
	for declared, want := range map[string]string{"6,3": "6,3", "n,3": "<=10,3"} {
		m := parseModel(t, "info y:"+declared)
		f := newInferer(m, Options{})
		got := f.settle(1, Tensor(1, Of(bounded(N(10)), N(3))))
		if text := strings.TrimPrefix(formatType(got), "float32:"); text != want {
			t.Errorf("declared %s: got %s, want %s", declared, text, want)
		}
	}
}

// What a mask has set is no more than it has elements, and its sum as a number the same.
func TestCountOfMask(t *testing.T) {
	r := mustInfer(t, `
		in m:bool:12 x:int64:12
		c = Cast m to=7
		n = ReduceSum c
		y = ConstantOfShape n
		k = ReduceSum x
		z = ConstantOfShape k
		out y z`, Options{})
	wantTypes(t, r, "y:<=12 z:?")
}

func TestBind(t *testing.T) {
	for _, c := range []struct {
		name, model string
		opt         Options
		want        string // types of the inputs
		notes       string // part of the notes
		err         string // or part of the error
	}{
		{name: "nothing bound", model: "in x:batch,3,?", want: "x:?,3,?"},
		{name: "batch", model: "in x:batch,3", opt: Options{Batch: 8}, want: "x:8,3"},
		{name: "batch by any name", model: "in x:s77,3", opt: Options{Batch: 8}, want: "x:8,3"},
		{name: "batch without a name", model: "in x:?,3", opt: Options{Batch: 8}, want: "x:8,3"},
		{name: "two inputs, one symbol", model: "in x:N,3 y:N", opt: Options{Batch: 8}, want: "x:8,3 y:8"},
		{name: "two inputs, two symbols", model: "in x:unk__1,3 y:unk__2,5", opt: Options{Batch: 8}, want: "x:8,3 y:8,5",
			notes: `"unk__2"`},
		{name: "a second symbol of one dimension is asked for", model: "in x:s0,3 y:s1", opt: Options{Batch: 8},
			want: "x:8,3 y:?"},
		{name: "a leading sequence stays", model: "in ids:batch,seq pos:seq,64", opt: Options{Batch: 2},
			want: "ids:2,? pos:?,64"},
		{name: "a batch that does not lead", model: "in x:seq,batch,64 h:1,batch,32", opt: Options{Batch: 2},
			want: "x:?,2,64 h:1,2,32"},
		{name: "a batch in the second input", model: "in p:s3,4 ids:batch_size,seq", opt: Options{Batch: 2},
			want: "p:2,4 ids:2,?", notes: `"s3"`},
		{name: "a key-value cache", model: "in ids:batch,seq past:batch,12,past+1,64 flat:batch*heads,seq",
			opt: Options{Batch: 2, Dims: map[string]int64{"past": 7}}, want: "ids:2,? past:2,12,8,64 flat:?,?"},
		{name: "an expression alone", model: "in x:2*b,3", opt: Options{Batch: 8}, want: "x:8,3"},
		{name: "an expression without solution", model: "in x:2*b,3", opt: Options{Batch: 7},
			err: `batch: no size of "b" makes 2*b equal to 7`},
		{name: "fixed", model: "in x:1,3", opt: Options{Batch: 8}, err: `the file fixes input "x" to [1, 3]`},
		{name: "fixed to the same", model: "in x:8,3", opt: Options{Batch: 8}, want: "x:8,3"},
		{name: "one fixed", model: "in x:n,3 m:1,3", opt: Options{Batch: 8}, want: "x:8,3 m:1,3", notes: "stays"},
		{name: "no inputs", model: "", opt: Options{Batch: 8}, err: "no input has a batch dimension"},
		{name: "negative batch", model: "in x:n,3", opt: Options{Batch: -1}, err: "batch: -1"},
		{name: "dim", model: "in x:n,seq", opt: Options{Dims: map[string]int64{"seq": 128, "n": 2}}, want: "x:2,128"},
		{name: "dim in an expression", model: "in x:n,h//2+1", opt: Options{Dims: map[string]int64{"h": 9}}, want: "x:?,5"},
		{name: "dim of length zero", model: "in x:n,past", opt: Options{Dims: map[string]int64{"past": 0}}, want: "x:?,0"},
		{name: "unknown dim", model: "in x:batch,sequence", opt: Options{Dims: map[string]int64{"sequnce": 128}},
			err: `dim "sequnce": the model has no such dimension; it has "batch", "sequence"; did you mean "sequence"?`},
		{name: "unknown dim, none named", model: "in x:2,3", opt: Options{Dims: map[string]int64{"n": 1}},
			err: "no dimension with a name"},
		{name: "negative dim", model: "in x:n,seq", opt: Options{Dims: map[string]int64{"seq": -4}},
			err: `dim "seq": -4 is no size`},
		{name: "batch against dim", model: "in x:n,3", opt: Options{Batch: 8, Dims: map[string]int64{"n": 4}},
			err: `batch: wants 8 where the dimension is 4 with "n"=4`},
		{name: "input", model: "in x:n,3,h,w", opt: Options{Inputs: map[string][]int64{"x": {8, 3, 224, 224}}},
			want: "x:8,3,224,224"},
		{name: "input binds other inputs", model: "in x:n,h y:n,h+1", opt: Options{Inputs: map[string][]int64{"x": {8, 3}}},
			want: "x:8,3 y:8,4"},
		{name: "input of unknown rank", model: "in x:*", opt: Options{Inputs: map[string][]int64{"x": {8, 3}}},
			want: "x:8,3"},
		{name: "input with unnamed dims", model: "in x:?,3,?,?", opt: Options{Inputs: map[string][]int64{"x": {8, 3, 5, 6}}},
			want: "x:8,3,5,6"},
		{name: "input changes a fixed batch", model: "in x:1,3", opt: Options{Inputs: map[string][]int64{"x": {8, 3}}},
			want: "x:8,3", notes: "fixes its first dimension to 1"},
		{name: "input against a fixed dim", model: "in x:1,3", opt: Options{Inputs: map[string][]int64{"x": {8, 4}}},
			err: `input "x": dimension 1 is fixed to 3, got 4`},
		{name: "input of another rank", model: "in x:1,3", opt: Options{Inputs: map[string][]int64{"x": {8}}},
			err: "has 2 dimensions [1, 3], got 1"},
		{name: "input against dim", model: "in x:n,3", opt: Options{Dims: map[string]int64{"n": 4},
			Inputs: map[string][]int64{"x": {8, 3}}}, err: `input "x": wants 8 where the dimension is 4 with "n"=4`},
		{name: "inputs against each other", model: "in x:n,3 y:n,4",
			opt: Options{Inputs: map[string][]int64{"x": {8, 3}, "y": {9, 4}}},
			err: `input "y": wants 9 where the dimension is 8 with "n"=8`},
		{name: "input and batch", model: "in x:n,3", opt: Options{Batch: 8, Inputs: map[string][]int64{"x": {8, 3}}},
			want: "x:8,3"},
		{name: "input against batch", model: "in x:n,3", opt: Options{Batch: 4, Inputs: map[string][]int64{"x": {8, 3}}},
			err: `batch: is 4, and the shape given for input "x" begins with another size`},
		{name: "unknown input", model: "in image:n,3", opt: Options{Inputs: map[string][]int64{"imag": {8, 3}}},
			err: `did you mean "image"?`},
		{name: "sequence input", model: "in s:seq(2,3)", opt: Options{Inputs: map[string][]int64{"s": {8, 3}}},
			err: "takes no shape"},
		{name: "negative size in the file", model: "in x:-1,3", err: `input "x": dimension 0 is -1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Infer(parseModel(t, c.model), c.opt)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want %q", err, c.err)
				}
				var be *BindError
				if c.name != "negative size in the file" && !errors.As(err, &be) {
					t.Errorf("error is %T, want *BindError", err)
				}
				return
			}
			must.OK(t, err)
			wantTypes(t, r, c.want)
			if notes := strings.Join(r.Notes, "\n"); c.notes == "" && notes != "" || !strings.Contains(notes, c.notes) {
				t.Errorf("notes are %q, want %q", notes, c.notes)
			}
		})
	}
}

func TestUnbound(t *testing.T) {
	r := mustInfer(t, `
		in ids:batch,seq mask:batch,seq+1 image:3,? any:* list:seq(*)
		info far:u0,seq
		far = NoSuchOperator ids
		out far`, Options{})
	want := `[{batch [ids mask] 0} {seq [ids mask] 1} { [image] 1} { [any] -1}]`
	if got := fmt.Sprint(r.Unbound); got != want {
		t.Errorf("Unbound is %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(r.Unknown), "[{ NoSuchOperator 1}]"; got != want {
		t.Errorf("Unknown is %s, want %s", got, want)
	}
	wantTypes(t, r, "far:?,?")
}
