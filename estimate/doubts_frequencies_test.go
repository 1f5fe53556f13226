package estimate

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// Frequencies are parameters that a model reads the sines and the cosines of alone; a scale, a bias and what time2vec
// learns are none.
func TestFrequencies(t *testing.T) {
	type call struct {
		op  string
		in  []string
		out string
	}
	turned := []call{{"einsum", []string{"t", "w"}, "a"}, {"reshape", []string{"a"}, "b"}, {"cos", []string{"b"}, "c"},
		{"sin", []string{"b"}, "s"}}
	for _, c := range []struct {
		name  string
		calls []call
		want  bool
	}{
		{"rotary", append(slices.Clone(turned), call{"mul", []string{"x", "c"}, "y"}), true},
		{"Fourier features", []call{{"mul", []string{"t", "w"}, "a"}, {"sin", []string{"a"}, "s"},
			{"cos", []string{"a"}, "c"}, {"cat", []string{"s", "c"}, "y"}}, true},
		{"a sine alone", []call{{"mul", []string{"t", "w"}, "a"}, {"sin", []string{"a"}, "y"}}, false},
		{"a scale besides", append(slices.Clone(turned), call{"mul", []string{"x", "w"}, "m"},
			call{"sum", []string{"m"}, "y"}), false},
		{"an output", append(slices.Clone(turned), call{"mul", []string{"t", "w"}, "y"}), false},
		{"a scale", []call{{"mul", []string{"x", "w"}, "y"}}, false},
	} {
		p := &program.Program{}
		ids := map[string]program.ValueID{}
		id := func(name string) program.ValueID {
			if _, seen := ids[name]; !seen {
				ids[name] = p.Add(program.Value{Name: name, DType: program.Float32})
			}
			return ids[name]
		}
		ids["w"] = p.Add(program.Value{Name: "w", Kind: program.Parameter, DType: program.Float32, Shape: []int64{8}})
		p.Params = []program.ValueID{ids["w"]}
		for _, k := range c.calls {
			var in []program.ValueID
			for _, name := range k.in {
				in = append(in, id(name))
			}
			p.Calls = append(p.Calls, program.Call{Op: k.op, In: in, Out: []program.ValueID{id(k.out)}, Args: program.Plain})
		}
		p.Outputs = []program.ValueID{id("y")}
		if got := frequencies(p); (len(got) == 1) != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The doubt is listed however many frequencies there are, and whatever their names: no expression names them.
func TestFrequenciesOfManyNames(t *testing.T) {
	const places = 300
	g := on.Graph{In: []on.Value{on.Float("x", 64, 1)}, Inits: []on.Tensor{on.Bare("w.weight", onnxload.Float32, 1, 1)},
		Nodes: []on.Node{on.Op("MatMul", "x w.weight", "y0")}, Out: []on.Value{{Name: "y" + strconv.Itoa(places)}}}
	for i := range places {
		name, to := fmt.Sprintf("layers.%d.attention.rotary_embedding.\xff", i), strconv.Itoa(i+1)
		g.Inits = append(g.Inits, on.Bare(name, onnxload.Float32, 4))
		g.Nodes = append(g.Nodes, on.Op("Mul", "x "+name, "a"+to), on.Op("Sin", "a"+to, "s"+to), on.Op("Cos", "a"+to, "c"+to),
			on.Op("Mul", fmt.Sprintf("s%s c%s", to, to), "m"+to), on.Op("Add", fmt.Sprintf("y%d m%s", i, to), "y"+to))
	}
	r := answer(t, on.Model{Graph: g}, Options{Step: &Step{}, Weigh: true})
	k := slices.IndexFunc(r.Guesses, func(g Guess) bool { return g.Name == frozenAngles })
	if k < 0 || r.Guesses[k].Places != places || r.Guesses[k].Fewer == 0 {
		t.Errorf("want %d frequencies that take less where they do not train: %+v", places, r.Guesses)
	}
}
