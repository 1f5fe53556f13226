package recover_test

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// scopesOf returns the modules that calls are in, by call, each with those around it.
func scopesOf(p *program.Program) string {
	var lines []string
	for _, c := range p.Calls {
		var path []string
		for s := c.Scope; s > 0; s = p.Scopes[s].Parent {
			path = append([]string{p.Scopes[s].Name}, path...)
		}
		lines = append(lines, strings.Join(path, " > "))
	}
	return strings.Join(lines, "\n")
}

// A class's parent has a frame and is the same module.
func TestFramesAndPlaces(t *testing.T) {
	const outer = "m.py:1 x = self.e(x)"
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("in", 2, 3)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{
			from(onnx.Op("Cos", "in", "c").Named("e/e.n:Cos"), outer, "e.py:7 x = self.n(x)", "n.py:8 return super().forward(x)",
				"norm.py:9 return x.cos()"),
			from(onnx.Op("Tan", "c", "d").Named("e:Tan"), outer, "e.py:10 x = x.tan()"),
			from(onnx.Op("Neg", "d", "y").Named(":Neg"), "m.py:11 return -x"),
		},
	})
	if got, want := scopesOf(p), "e > e.n\ne\n"; got != want {
		t.Errorf("modules\n%s\nwanted\n%s", got, want)
	}
	wantEnds(t, p, "c after tan(c)", "d after neg(d)")
}

// The convolution that lost its batch norm to folding is of the module of its weight, on the line before the norm's,
// whose name it binds; where one line calls both, on that.
func TestFoldedLines(t *testing.T) {
	graph := func(line string) onnx.Graph {
		return onnx.Graph{
			In: []onnx.Value{onnx.Float("in", 1, 3, 8, 8)}, Out: []onnx.Value{{Name: "y"}},
			Inits: []onnx.Tensor{onnx.Bare("m.conv.weight", onnxload.Float32, 3, 3, 1, 1)},
			Nodes: []onnx.Node{
				from(onnx.Op("Exp", "in", "a").Named("m:Exp"), "m.py:1 x = self.m(x)", "m.py:2 x = x.exp()"),
				from(onnx.Op("Conv", "a m.conv.weight", "getitem").Named("m/m.bn:Conv"), "m.py:1 x = self.m(x)", "m.py:3 "+line,
					"bn.py:4 return F.batch_norm("),
				from(onnx.Op("Sin", "getitem", "b").Named("m:Sin"), "m.py:1 x = self.m(x)", "m.py:5 z = y.sin()"),
				from(onnx.Op("Neg", "b", "y").Named("m:Neg"), "m.py:1 x = self.m(x)", "m.py:6 return -z"),
			},
		}
	}
	for line, want := range map[string]string{
		// x = self.conv(x), y = self.bn(x)
		"y = self.bn(x)":            "a after conv(a, m.conv.weight, -)|getitem after neg(b)|b after neg(b)",
		"y = self.bn(self.conv(x))": "a after neg(b)|getitem after neg(b)|b after neg(b)",
		"y = self.bn(t)":            "a after neg(b)|getitem after neg(b)|b after neg(b)", // t = self.conv(x)
	} {
		p := mustRecover(t, graph(line))
		if got := scopesOf(p); got != "m\nm > m.conv\nm > m.bn\nm\nm" {
			t.Errorf("%s: modules\n%s", line, got)
		}
		if got := strings.ReplaceAll(endsOf(p), "\n", "|"); got != want {
			t.Errorf("%s: activations go %s, wanted %s\n%s", line, got, want, recovertest.CallsOf(p))
		}
	}
}
