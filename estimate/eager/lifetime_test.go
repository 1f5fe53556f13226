package eager

import (
	"strings"
	"testing"

	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// ends describes when the activations of a program go: "a after relu(x)", one a line.
func endsOf(p *Program) string {
	ends, _ := p.lifetimes()
	calls := strings.Split(callsOf(p), "\n")
	var lines []string
	for i, list := range ends {
		for _, v := range list {
			if name := p.Values[v].Name; name != "" {
				lines = append(lines, name+" after "+calls[i])
			}
		}
	}
	return strings.Join(lines, "\n")
}

func wantEnds(t *testing.T, p *Program, want ...string) {
	t.Helper()
	if got := endsOf(p); got != strings.Join(want, "\n") {
		t.Errorf("activations go\n%s\nwanted\n%s\nthe calls are\n%s", got, strings.Join(want, "\n"), callsOf(p))
	}
}

// A Sequential's caller holds what it passes until all of its members ran; a loop over a ModuleList
// assigns its variable anew after each.
func TestListsOfModulesHoldNothing(t *testing.T) {
	graph := func(first, second string) onnx.Graph {
		return onnx.Graph{
			In: []onnx.Value{onnx.Float("x", 2, 3)}, Out: []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{
				onnx.Op("Relu", "x", "a").Named("s/s.stem:Relu"), onnx.Op("Exp", "a", "b").Named(first + ":Exp"),
				onnx.Op("Sqrt", "b", "c").Named(second + ":Sqrt"), onnx.Op("Neg", "c", "y").Named("s/s.head:Neg"),
			},
		}
	}
	wantEnds(t, mustRecover(t, graph("s/s.l/s.l.0", "s/s.l/s.l.1")), "b after sqrt(b)", "a after sqrt(b)", "c after neg(c)")
	wantEnds(t, mustRecover(t, graph("s/s.l.0", "s/s.l.1")), "a after exp(a)", "b after sqrt(b)", "c after neg(c)")
}
