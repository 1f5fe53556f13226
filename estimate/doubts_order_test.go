package estimate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// withParameters is a program that has parameters of some names and shapes alone.
func withParameters(shape []int64, names ...string) *program.Program {
	p := &program.Program{}
	for _, name := range names {
		p.Params = append(p.Params, program.ValueID(len(p.Values)))
		p.Values = append(p.Values, program.Value{Name: name, Shape: shape, Kind: program.Parameter, DType: program.Float32})
	}
	return p
}

// Doubts about several rows of modules name them in one order, and no more than a list has room for.
func TestAbsentSiblingsAreOrdered(t *testing.T) {
	var names, want []string
	for i := range 2 * someLayers {
		names = append(names, fmt.Sprintf("m%02d.heads.head9.weight", 2*someLayers-i))
	}
	for i := range someLayers {
		want = append(want, fmt.Sprintf("m%02d.heads.head9", i+1))
	}
	sim := &Simulation{prog: withParameters([]int64{10, 10}, names...), Peak: Peak{Allocated: 1 << 30}}
	for range 20 {
		g, ok, err := new(Bound).absentSiblings(Step{}, sim)
		if !ok || err != nil || !slices.Equal(g.Layers, want) || g.Bytes != 2*someLayers*8*400 {
			t.Fatalf("%+v, %v, %v", g, ok, err)
		}
	}
}

// Of two networks that begin as VGG's features do the first in the file is taken to be the published one.
func TestFirstOfTwoPretrained(t *testing.T) {
	p := withParameters([]int64{64, 3, 3, 3}, "second.features.0.weight", "first.features.0.weight")
	deeper := withParameters([]int64{128, 64, 3, 3}, "second.features.5.weight", "first.features.5.weight")
	for _, v := range deeper.Values {
		p.Params = append(p.Params, program.ValueID(len(p.Values)))
		p.Values = append(p.Values, v)
	}
	for i := range 2 * fewestConvolutions {
		v := program.Value{Name: fmt.Sprintf("%s.features.%d.weight", []string{"first", "second"}[i%2], 10+i),
			Shape: []int64{128, 128, 3, 3}}
		p.Params = append(p.Params, program.ValueID(len(p.Values)))
		p.Values = append(p.Values, v)
	}
	for range 20 {
		if module, n := pretrained(p); module != "second" || n != 2+fewestConvolutions {
			t.Fatalf("%q with %d parameters", module, n)
		}
	}
}
