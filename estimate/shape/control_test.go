package shape

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func bodyOf(t *testing.T, r *Result, node int) string {
	t.Helper()
	g := r.Body(&r.m.Graph.Nodes[node])
	if g == nil {
		t.Fatalf("node %d runs none of its graphs", node)
	}
	return g.Name
}

func TestIf(t *testing.T) {
	const model = `
		in x:2,3 flag:bool:-
		%s
		y = If cond then_branch=&T else_branch=&E
		out y
		graph T
		t = SequenceConstruct x x
		u = SequenceAt t zero
		zero = Constant value_int=0
		out u
		graph E
		v = Constant value_floats=%s
		out v`
	for _, c := range []struct {
		name, cond, floats, want, body, note string
	}{
		{"true", "cond = Constant value_int=1", "1.0,2.0", "y:2,3", "T", ""},
		{"false", "cond = Constant value_int=0", "1.0,2.0", "y:2 u:2,3", "E", ""},
		{"unknown, the first is larger", "cond = Identity flag", "1.0,2.0", "y:2,3", "T",
			"the then_branch is taken, the larger one"},
		{"unknown, the second is larger", "cond = Identity flag", "1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0", "y:11", "E",
			"the else_branch is taken, the larger one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustInfer(t, fmt.Sprintf(model, c.cond, c.floats), Options{})
			wantTypes(t, r, c.want)
			if body := bodyOf(t, r, 1); body != c.body {
				t.Errorf("runs %s", body)
			}
			if notes := strings.Join(r.Notes, "\n"); c.note == "" && notes != "" || !strings.Contains(notes, c.note) {
				t.Errorf("notes are %q, want %q", notes, c.note)
			}
		})
	}
}

func TestIfMergesBranches(t *testing.T) {
	r := mustInfer(t, `
		in flag:bool:- a:4,3 b:6,3
		y = If flag then_branch=&T else_branch=&E
		out y
		graph T
		t = Identity a
		out t
		graph E
		e = Identity b
		out e`, Options{})
	wantTypes(t, r, "y:<=6,3")
	if body := bodyOf(t, r, 0); body != "E" {
		t.Errorf("takes %s, want the larger branch", body)
	}
}

func TestIfWithAnImpossibleBranch(t *testing.T) {
	const model = `
		in flag:bool:- x:4,3
		y = If flag then_branch=&T else_branch=&E
		out y
		graph T
		bad = SequenceLength x
		out bad
		graph E
		e = Identity x
		out e`
	r := mustInfer(t, model, Options{})
	wantTypes(t, r, "y:4,3")
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "the then branch cannot be") {
		t.Errorf("notes are %q", notes)
	}
	_, err := Infer(parseModel(t, strings.Replace(model, "Identity", "SequenceLength", 1)), Options{})
	if err == nil || !strings.Contains(err.Error(),
		`node 0 "y_node" (If): then_branch: node 0 "bad_node" (SequenceLength): input 0`) {
		t.Errorf("error is %v", err)
	}
}

func TestLoop(t *testing.T) {
	const body = `
		graph body
		in i:int64:- c:bool:- s
		next = Identity c
		grown = SequenceInsert s x
		slice = Identity x
		out next grown slice`
	for _, c := range []struct{ name, head, want string }{
		{"known trip count", "in x:2,3\nn = Constant value_int=5\ny z = Loop n _ s0 body=&body", "y:seq(2,3)#5 z:5,2,3"},
		{"no iteration", "in x:2,3\nn = Constant value_int=0\ny z = Loop n _ s0 body=&body", "y:seq(*)#0 z:0,2,3"},
		{"condition false at first",
			"in x:2,3\nn = Constant value_int=5\nno = Constant value_int=0\ny z = Loop n no s0 body=&body",
			"y:seq(*)#0 z:0,2,3"},
		{"more than anybody follows", "in x:2,3\nn = Constant value_int=1000000\ny z = Loop n _ s0 body=&body",
			"y:seq(2,3) z:1000000,2,3"},
		{"unknown trip count", "in x:2,3 n:int64:-\ny z = Loop n _ s0 body=&body", "y:seq(2,3) z:?,2,3"},
		{"unknown condition", "in x:2,3 flag:bool:-\nn = Constant value_int=5\ny z = Loop n flag s0 body=&body",
			"y:seq(2,3) z:<=5,2,3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustInfer(t, "s0 = SequenceEmpty dtype=@float32\n"+c.head+body, Options{})
			wantTypes(t, r, c.want)
			if body := bodyOf(t, r, len(r.m.Graph.Nodes)-1); body != "body" {
				t.Errorf("runs %s", body)
			}
		})
	}
}

// A carried shape that changes in every iteration is exact when the loop is followed, and
// unknown where it is not; what does not change stays known.
func TestLoopCarriedShapes(t *testing.T) {
	const model = `
		in x:2,3
		n = Constant value_int=%d
		y = Loop n _ x body=&body
		out y
		graph body
		in i:int64:- c:bool:- h
		next = Identity c
		two = SequenceConstruct h h
		wider = ConcatFromSequence two axis=1
		out next wider`
	wantTypes(t, mustInfer(t, fmt.Sprintf(model, 4), Options{}), "y:2,48")
	wantTypes(t, mustInfer(t, fmt.Sprintf(model, 100000), Options{}), "y:2,?")
}

func TestLoopRefusesABodyThatDoesNotFit(t *testing.T) {
	for _, c := range []struct{ model, want string }{
		{"n = Constant value_int=4\ny = Loop n _ n n body=&b\ngraph b\nin i:int64:- c:bool:-\nout c", "2 carried"},
		{"n = Constant value_int=4\ny = Loop n _ n body=&b\ngraph b\nin i:int64:- c:bool:-\nout c",
			"body has 2 inputs, wanted 3"},
		{"y = Loop", "wanted a trip count"},
		{"n = Constant value_int=4\ny = Loop n _ n", `attribute "body" is missing`},
	} {
		_, err := Infer(parseModel(t, c.model), Options{})
		if err == nil || !strings.Contains(err.Error(), strings.Replace(c.want, "2 carried", "wanted a trip count", 1)) {
			t.Errorf("%q: error is %v, want %q", c.model, err, c.want)
		}
	}
}

// Bodies within bodies must not multiply the work, nor nest without end.
func TestDeepBodies(t *testing.T) {
	var b strings.Builder
	b.WriteString("in x:2,3\nn = Constant value_int=1000000\ny0 = Loop n _ x body=&g1\n")
	for i := 1; i <= 20; i++ {
		fmt.Fprintf(&b, "graph g%d\nin i%d:int64:- c%d:bool:- h%d\ny%d = Loop n _ h%d body=&g%d\nout c%d y%d\n", i, i, i, i,
			i, i, i+1, i, i)
	}
	b.WriteString("graph g21\nin i21:int64:- c21:bool:- h21\ntwo = SequenceConstruct h21 h21\nw = ConcatFromSequence " +
		"two axis=1\nout c21 w\n")
	r := mustInfer(t, b.String(), Options{})
	if got := r.typeOf(t, "y0"); got != "2,?" && got != "*" {
		t.Errorf("y0 is %s", got)
	}
	start := time.Now()
	// 2^20 runs of the innermost body
	r = mustInfer(t, strings.NewReplacer("1000000", "2", "axis=1", "axis=0 new_axis=1", "w = Concat", "ww = Concat",
		"c21 w", "c21 h21").Replace(b.String()), Options{})
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("20 loops of 2 iterations took %v", d)
	}
	if got := r.typeOf(t, "y0"); got != "2,3" && got != "*" {
		t.Errorf("y0 is %s", got)
	}
	_, err := Infer(parseModel(t, strings.ReplaceAll(b.String(), "&g21", "&g5")), Options{})
	if err == nil || !strings.Contains(err.Error(), "nest more than 32 deep") {
		t.Errorf("error is %v", err)
	}
}

func TestScan(t *testing.T) {
	r := mustInfer(t, `
		in h:2,64 x:2,len,16 y:len,2,8
		a b = Scan h x y num_scan_inputs=2 scan_input_axes=1,0 scan_output_axes=-1, body=&body
		out a b
		graph body
		in s xs ys
		next = Identity s
		out next xs`, Options{})
	wantTypes(t, r, "xs:2,16 ys:2,8 a:2,64 b:2,16,?")
	_, err := Infer(parseModel(t, `
		in x:3,16 y:4,8
		b = Scan x y num_scan_inputs=2 body=&body
		graph body
		in xs ys
		out xs`), Options{})
	if err == nil || !strings.Contains(err.Error(), "length 3 and 4") {
		t.Errorf("error is %v", err)
	}
}

// Elements are followed one by one, so that a list of unlike tensors loses nothing.
func TestSequenceElements(t *testing.T) {
	r := mustInfer(t, `
		in x:4,10
		sizes = Constant value_ints=3,5,2
		zero = Constant value_int=0
		last = Constant value_int=-1
		s = SplitToSequence x sizes axis=1
		first = SequenceAt s zero
		end = SequenceAt s last
		more = SequenceInsert s x zero
		all = ConcatFromSequence more axis=-1
		out all`, Options{})
	wantTypes(t, r, "first:4,3 end:4,2 all:4,20")
	_, err := Infer(parseModel(t, `
		in x:4,10
		five = Constant value_int=5
		s = SequenceConstruct x x
		y = SequenceAt s five`), Options{})
	if err == nil || !strings.Contains(err.Error(), "position 5 is outside a sequence of 2") {
		t.Errorf("error is %v", err)
	}
}

// TestIfTakesTheHeavierBranch holds the branch that takes more on its way, though both put out the same.
func TestIfTakesTheHeavierBranch(t *testing.T) {
	r := mustInfer(t, `
		in flag:bool:- x:4,8
		w = Constant value_floats=1,2,3,4
		y = If flag then_branch=&T else_branch=&E
		out y
		graph T
		t = Relu x
		out t
		graph E
		big = Concat x x x x axis=0
		e = Slice big s0 s4
		s0 = Constant value_ints=0
		s4 = Constant value_ints=4
		out e`, Options{})
	if body := bodyOf(t, r, 1); body != "E" {
		t.Errorf("takes %s, want the branch that makes more", body)
	}
}
