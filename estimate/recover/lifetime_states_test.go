package recover_test

import (
	"fmt"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/lifetime"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// What the blocks of two modules return beside their results may be in lists of both, where lines bind a name to each.
func TestStatesOfSeveralModules(t *testing.T) {
	const calls, blocks = 9, 3
	for _, c := range []struct {
		line string
		want int
	}{{"x, xs = self.%s(x)", 2 * (blocks - 1)}, {"x = self.%s(x)", blocks - 1}} {
		var nodes []onnx.Node
		value := "in"
		for _, module := range []string{"s", "t"} {
			for b := range blocks {
				for i := range calls {
					next := fmt.Sprintf("%s%d_%d", module, b, i)
					nodes = append(nodes, from(onnx.Op("Exp", value, next).Named(fmt.Sprintf("%[1]s/%[1]s.b.%[2]d:Exp", module, b)),
						"m.py:1 "+fmt.Sprintf(c.line, module), "n.py:2 x = b(x)", fmt.Sprintf("o.py:%d x = x.exp()", i+1)))
					value = next
				}
			}
		}
		nodes = append(nodes, line("Neg", value, "y", "3 return self.o(x)", "o"))
		p := mustRecover(t, linesGraph(nodes...))
		p.With = map[string]bool{lifetime.KeptStates.Name: true}
		ends, _ := lifetime.Of(p)
		kept := 0
		for _, v := range ends.After(len(p.Calls) - 1) {
			if v != program.NoValue && p.Values[v].Name != value {
				kept++
			}
		}
		if kept != c.want {
			t.Errorf("%s: %d states are kept, want %d", c.line, kept, c.want)
		}
	}
}
