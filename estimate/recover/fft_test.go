package recover_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A Fourier transform of several dimensions is one call, of a tensor that is made complex, or from and to real numbers.
func TestFourierTransform(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("one", 1).Scalar(), onnx.Int64s("two", 2).Scalar(), onnx.Int64s("last", -1),
		onnx.Int64s("from", 0), onnx.Int64s("end", 1), onnx.Int64s("stop", 2), onnx.Int64s("n", 8).Scalar(),
		onnx.Int64s("to", 2, 4, 8, 1), recovertest.F32s("zero", 0), recovertest.F32s("half", 0.5)}
	nodes := func(fill, between string) []onnx.Node {
		return []onnx.Node{onnx.Op("Unsqueeze", "x last", "u"), onnx.Op("Expand", fill+" to", "z"),
			onnx.Op("Concat", "u z", "c", onnx.A("axis", -1)),
			onnx.Op("DFT", "c - two", between), onnx.Op("DFT", between+" - one", "f"), onnx.Op("Neg", "f", "y")}
	}
	one, back := onnx.A("onesided", 1), onnx.A("inverse", 1)
	parts := func(x, re, im string) []onnx.Node {
		return []onnx.Node{onnx.Op("Slice", x+" from end last", re), onnx.Op("Slice", x+" end stop last", im)}
	}
	spectrum := []onnx.Node{onnx.Op("Unsqueeze", "x last", "u"), onnx.Op("DFT", "u - two", "val_1", one),
		onnx.Op("Mul", "val_1 half", "val_2"), onnx.Op("DFT", "val_2 - one", "f")}
	signal := []onnx.Node{onnx.Op("DFT", "p - one", "val_8", back), onnx.Op("DFT", "val_8 n two", "val_9", one, back),
		onnx.Op("Slice", "val_9 from end last", "val_10"), onnx.Op("Squeeze", "val_10 last", "y")}
	times := slices.Concat(spectrum, []onnx.Node{onnx.Op("Sin", "f", "g")}, parts("f", "a", "b"), parts("g", "c", "d"),
		[]onnx.Node{onnx.Op("Mul", "a c", "ac"), onnx.Op("Mul", "b d", "bd"), onnx.Op("Mul", "a d", "ad"),
			onnx.Op("Mul", "b c", "bc"), onnx.Op("Sub", "ac bd", "val_6"), onnx.Op("Add", "ad bc", "val_7"),
			onnx.Op("Concat", "val_6 val_7", "p", onnx.A("axis", -1))}, signal)
	runPatterns(t, []patternCase{
		{name: "fft2", inits: inits, nodes: nodes("zero", "val_5"), want: []string{"to_complex(x)", "fft(_)", "neg(f)"}},
		{name: "two calls", inits: inits, nodes: nodes("zero", "d"),
			want: []string{"to_complex(x)", "fft(_)", "fft(d)", "neg(f)"}},
		{name: "rfft2 and irfft2", inits: inits, nodes: times,
			want: []string{"fft_r2c(x)", "sin(f)", "mul(f, g)", "fft_c2r(p)"}},
	})
	p := mustRecover(t, patternCase{inits: inits, nodes: nodes("half", "val_5")}.graph())
	if s := recovertest.CallsOf(p); strings.Contains(s, "to_complex(") {
		t.Errorf("a tensor with an imaginary part of its own:\n%s", s)
	}
}
