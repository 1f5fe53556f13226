package torch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/estimate/shape"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// TestUnaryNodes holds every ONNX operator that becomes one PyTorch call of one tensor to its line in
// testdata/unary.txt:
//
//	Tanh: tanh keeps result, backward 1
//
// is the call, which of its argument and result live on for backward once the program has dropped both, and how many
// tensors backward asks for. An operator without a line fails, and so does one whose call has no row.
func TestUnaryNodes(t *testing.T) {
	data := must.Read(t, "testdata/unary.txt")
	lines := map[string]string{}
	for line := range strings.Lines(string(data)) {
		op, cost, ok := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.HasPrefix(line, "#"):
		case !ok:
			t.Errorf("line %q", line)
		case lines[op] != "":
			t.Errorf("%s has two lines", op)
		default:
			lines[op] = cost
		}
	}
	seen := 0
	for _, o := range shape.Operators() {
		if o.Domain != "" {
			continue
		}
		op := o.Name
		got, ok := unaryCost(op)
		want := lines[op]
		delete(lines, op)
		switch {
		case !ok && want != "":
			t.Errorf("%s has a line and is no operator of one tensor", op)
		case ok && want == "":
			t.Errorf("testdata/unary.txt has no line for %s, of which the rows say %q", op, got)
		case ok && got != want:
			t.Errorf("%s: %s, want %s", op, got, want)
		}
		if ok {
			seen++
		}
	}
	for op := range lines {
		t.Errorf("%s has a line and no row", op)
	}
	if seen < 20 {
		t.Errorf("only %d operators of one tensor", seen)
	}
}

// unaryCost describes what the rows say of an ONNX operator of one tensor; ok is false for any other.
func unaryCost(op string) (text string, ok bool) {
	latest := int64(0)
	for _, o := range shape.Operators() {
		if o.Domain == "" {
			latest = max(latest, slices.Max(o.Since))
		}
	}
	p, err := recovertest.RecoveredAt(latest, onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 4, 1024)}, Nodes: []onnx.Node{onnx.Op(op, "x", "y")}, Out: []onnx.Value{{Name: "y"}},
	}, true)
	if err != nil || len(p.Calls) != 1 || len(p.Calls[0].In) != 1 || p.Calls[0].Op == "opaque" {
		return "", false
	}
	call := p.Calls[0]
	l := newLab()
	x := l.op("neg", l.leaf(f32, 4, 1024)) // which keeps nothing, and whose backward makes one tensor
	x.retain()
	argument := x.st
	y := l.do(call.Op, *call.Args, x)
	switch {
	case l.err != nil:
		return l.err.Error(), true
	case y.fn == nil:
		return call.Op + " has no gradient", true
	}
	var keeps []string
	for _, st := range y.fn.saved {
		switch st {
		case argument:
			keeps = append(keeps, "argument")
		case y.st:
			keeps = append(keeps, "result")
		default:
			keeps = append(keeps, "more")
		}
	}
	if len(keeps) == 0 {
		keeps = []string{"nothing"}
	}
	begin := l.r.log.Len()
	g := l.r.empty(y.dtype, y.shape...)
	l.r.backwardFrom(y, g)
	made := len(allocations(l.since(begin))) - 2 // the gradient that comes in, and neg's
	place := ""
	if call.Args.Inplace {
		place = " in place"
	}
	return fmt.Sprintf("%s%s keeps %s, backward %d", call.Op, place, strings.Join(keeps, " and "), made), true
}
