package torch

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// A function of autograd keeps what it says it saves, and nothing of what it computes on the way.
func TestGeluFunctionSavesItsInput(t *testing.T) {
	l := newLab()
	l.r.origin = 0
	x := l.leaf(bf16, 4, 1024)
	out := l.op("gelu_function", l.op("mul", x, num()))
	if saved, _ := l.r.savedBytes(out, 1); saved != 4*1024*2 {
		t.Errorf("%d bytes are saved, wanted those of the argument, %d", saved, 4*1024*2)
	}
}

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

// A step with a surrogate gradient keeps its argument, and the comparison is gone when it returns.
func TestStepFunctionSavesItsInput(t *testing.T) {
	l := newLab()
	l.r.origin = 0
	x := l.leaf(f32, 4, 1024)
	out := l.do("step_function", program.Args{DType: f32}, l.op("mul", x, num()))
	if saved, _ := l.r.savedBytes(out, 1); saved != 4*1024*4 {
		t.Errorf("%d bytes are saved, wanted those of the argument, %d", saved, 4*1024*4)
	}
}
