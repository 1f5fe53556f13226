package torch

import "testing"

// A product of two types is one of the narrower: the cast before it is not in the graph.
func TestProductOfTwoTypes(t *testing.T) {
	l := newLab()
	for _, x := range [][2]*tensor{{l.leaf(f32, 2, 4, 8), l.leaf(bf16, 2, 8, 4)},
		{l.leaf(bf16, 2, 4, 8), l.leaf(f32, 2, 8, 4)}} {
		if out := l.op("matmul", x[0], x[1]); out.dtype != bf16 {
			t.Errorf("%s by %s is %s, wanted bfloat16", x[0].dtype, x[1].dtype, out.dtype)
		}
	}
}
