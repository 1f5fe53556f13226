package estimate

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/aten"
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
		p := &aten.Program{}
		ids := map[string]aten.ValueID{}
		id := func(name string) aten.ValueID {
			if _, seen := ids[name]; !seen {
				ids[name] = p.Add(aten.Value{Name: name, DType: aten.Float32})
			}
			return ids[name]
		}
		ids["w"] = p.Add(aten.Value{Name: "w", Kind: aten.Parameter, DType: aten.Float32, Shape: []int64{8}})
		p.Params = []aten.ValueID{ids["w"]}
		for _, k := range c.calls {
			var in []aten.ValueID
			for _, name := range k.in {
				in = append(in, id(name))
			}
			p.Calls = append(p.Calls, aten.Call{Op: k.op, In: in, Out: []aten.ValueID{id(k.out)}, Args: aten.Plain})
		}
		p.Outputs = []aten.ValueID{id("y")}
		if got := frequencies(p); (len(got) == 1) != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
