package recover_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// from gives a node of a test's graph a stack of frames, the outermost first: "file:line source" each.
func from(n onnx.Node, frames ...string) onnx.Node {
	var b strings.Builder
	for i, f := range frames {
		if i > 0 {
			b.WriteString("\n  ")
		}
		place, source, _ := strings.Cut(f, " ")
		file, line, _ := strings.Cut(place, ":")
		fmt.Fprintf(&b, "File %q, line %s, in forward\n    %s", file, line, source)
	}
	n.Meta = append(n.Meta, onnxload.Entry{Key: "pkg.torch.onnx.stack_trace", Value: b.String()})
	return n
}

// An attribute of very many parts takes no more than as many names.
func TestHostileAttribute(t *testing.T) {
	const parts = 20_000
	var names strings.Builder
	for i := range parts {
		fmt.Fprint(&names, "p", i, " ")
	}
	axis := onnx.A("axis", 0)
	p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("in", parts, 3)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{from(onnx.Op("Exp", "in", "e").Named(":Exp"), "m.py:1 e = in.exp()"),
			from(onnx.Op("Split", "e", names.String(), axis, onnx.A("num_outputs", parts)).Named(":Split"),
				"m.py:2 self.parts = e.split(1)"),
			from(onnx.Op("Concat", names.String(), "y", axis).Named(":Concat"), "m.py:3 y = torch.cat(self.parts)")}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.Liveness()
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 50<<20 {
		t.Errorf("%d MB allocated", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
}

// Lines that no program has cost no more than those of one: lists of lists, names without end, statements without
// calls.
func TestHostileLines(t *testing.T) {
	const calls = 4000
	var many strings.Builder
	for i := range 120 {
		fmt.Fprintf(&many, "a%d=x;", i)
	}
	for name, line := range map[string]func(i int) string{
		"one list":      func(i int) string { return "xs.append(F.exp(x))" },
		"many names":    func(i int) string { return fmt.Sprintf("x%d = x", i) },
		"copies":        func(i int) string { return many.String() + "x = b(x)" },
		"one statement": func(i int) string { return "x = f(x" },
		"parts":         func(i int) string { return "+ x" },
		"brackets":      func(i int) string { return strings.Repeat("(", 900) },
		"turns":         func(i int) string { return "for b in self.b: x = b(x)" },
	} {
		for _, apart := range []bool{false, true} {
			g := onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 3)}, Out: []onnx.Value{{Name: "y"}}}
			x := "in"
			for i := range calls {
				y := "v" + strconv.Itoa(i)
				if i == calls-1 {
					y = "y"
				}
				number := 5
				if apart {
					number = i%97 + 1
				}
				g.Nodes = append(g.Nodes, from(onnx.Op("Exp", x, y).Named("m.b"+strconv.Itoa(i%50)+":Exp"),
					fmt.Sprintf("m.py:%d %s", number, line(i)), "b.py:3 return x.exp()"))
				x = y
			}
			start := time.Now()
			p := mustRecover(t, g)
			ends := p.Liveness()
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("%s: %v", name, d)
			}
			gone := 0
			for i := range p.Calls {
				gone += len(ends.After[i])
			}
			if gone != calls-1 {
				t.Errorf("%s: %d of %d activations go", name, gone, calls-1)
			}
		}
	}
}
