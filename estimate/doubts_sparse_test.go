package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// A large square input that is multiplied by may be sparse, and no other.
func TestSparseInputs(t *testing.T) {
	const rows = 2048
	for _, c := range []struct {
		name  string
		shape []int64
		op    string
		left  bool
		fewer int64
	}{
		{"a matrix of a mesh", []int64{rows, rows}, "matmul", true, rows * rows * 4},
		{"a batch of them", []int64{2, rows, rows}, "matmul", true, 2 * rows * rows * 4},
		{"a small one", []int64{64, 64}, "matmul", true, 0},
		{"none that is square", []int64{rows, 2 * rows}, "matmul", true, 0},
		{"what is multiplied", []int64{rows, rows}, "matmul", false, 0},
		{"a mask", []int64{rows, rows}, "add", true, 0},
	} {
		p := &program.Program{}
		given := p.Add(program.Value{Name: "g", Kind: program.InputValue, DType: program.Float32, Shape: c.shape})
		x := p.Add(program.Value{})
		in := []program.ValueID{given, x}
		if !c.left {
			in = []program.ValueID{x, given}
		}
		p.Inputs = []program.ValueID{given}
		p.Calls = []program.Call{{Op: c.op, In: in, Args: program.Plain}}
		g, ok, err := new(Bound).sparseInputs(Step{}, &Simulation{prog: p, Peak: Peak{Allocated: 1 << 30}})
		if err != nil || ok != (c.fewer > 0) || g.Fewer != c.fewer {
			t.Errorf("%s: %v, %d fewer, %v; want %d", c.name, ok, g.Fewer, err, c.fewer)
		}
	}
}
