package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// PyTorch takes a mask as it is where it is multiplied by floats, which ONNX cannot: the exporter's cast is none of the
// program's, and mask.float() is one.
func TestPromotedMasks(t *testing.T) {
	cast := func(out, call string) onnx.Node {
		n := onnx.Op("Cast", "mask", out, onnx.A("to", int64(onnxload.Float32)))
		if call != "" {
			n.Meta = append(n.Meta, onnxload.Entry{Key: "namespace", Value: ": m.M/c: " + call})
		}
		return n
	}
	const promotes, copies = "prims.convert_element_type.default", "aten._to_copy.default"
	mask := onnx.Op("Greater", "x half", "mask")
	for _, c := range []struct {
		patternCase
		guesses int // of casts that may be either, which are made here
	}{
		{patternCase{name: "x * mask of torch.export", nodes: []onnx.Node{mask, cast("c", promotes),
			onnx.Op("Mul", "x c", "y")}, want: []string{"compare(x, number)", "mul(x, mask)"}}, 0},
		{patternCase{name: "x * mask.float() of torch.export", nodes: []onnx.Node{mask, cast("c", copies),
			onnx.Op("Mul", "x c", "y")}, want: []string{"compare(x, number)", "to(mask)", "mul(x, c)"}}, 0},
		{patternCase{name: "one cast that an optimiser left for two", nodes: []onnx.Node{mask, cast("c", promotes),
			onnx.Op("Mul", "x c", "z"), onnx.Op("Add", "c z", "y")},
			want: []string{"compare(x, number)", "mul(x, mask)", "add(mask, z)"}}, 0},
		{patternCase{name: "two of TorchScript", nodes: []onnx.Node{mask, cast("c", ""), onnx.Op("Mul", "x c", "z"),
			cast("d", ""), onnx.Op("Mul", "z d", "y")},
			want: []string{"compare(x, number)", "mul(x, mask)", "mul(z, mask)"}}, 0},
		{patternCase{name: "one of TorchScript", nodes: []onnx.Node{mask, cast("c", ""), onnx.Op("Mul", "x c", "y")},
			want: []string{"compare(x, number)", "mul(x, mask)"}}, 1},
		{patternCase{name: "one of TorchScript that two read", nodes: []onnx.Node{mask, cast("c", ""),
			onnx.Op("Mul", "x c", "z"), onnx.Op("Mul", "z c", "y")},
			want: []string{"compare(x, number)", "to(mask)", "mul(x, c)", "mul(z, c)"}}, 0},
		{patternCase{name: "one of TorchScript from before", nodes: []onnx.Node{mask, cast("c", ""),
			onnx.Op("Exp", "x", "z"), onnx.Op("Mul", "z c", "y")},
			want: []string{"compare(x, number)", "to(mask)", "exp(x)", "mul(z, c)"}}, 0},
		{patternCase{name: "masks alone", nodes: []onnx.Node{mask, cast("c", promotes), cast("d", promotes),
			onnx.Op("Add", "c d", "y")}, want: []string{"compare(x, number)", "to(mask)", "to(mask)", "add(c, d)"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.inits = []onnx.Tensor{recovertest.F32s("half", 0.5)}
			p := mustRecover(t, c.graph())
			wantCalls(t, p, c.want...)
			guesses := 0
			for _, g := range p.Guesses {
				if g.Row == "promoted-mask" {
					guesses++
				}
			}
			if guesses != c.guesses || p.Values[p.Outputs[0]].DType != program.Float32 {
				t.Errorf("%d guesses, want %d; the result is %v", guesses, c.guesses,
					p.Values[p.Outputs[0]].DType)
			}
		})
	}
}
