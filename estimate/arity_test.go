package estimate

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	fromonnx "github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// Every operator with a row is given no input, one, and so on to one more than it can have, each of them left out or
// of a type that it does not take, and asked for no result to four; and likewise constants, whose values its results
// follow from. A model is refused or estimated. A node with other inputs than its row's is counted as one that is not
// modelled, whatever its operator.
func TestEveryArity(t *testing.T) {
	types := []onnxtest.Type{
		{Kind: onnxload.TensorType, Elem: onnxload.Float32, Dims: []any{2, 4, 6, 6}}, // of which the others are wrong
		{Kind: onnxload.TensorType, Elem: onnxload.Float32, Dims: []any{}},
		{Kind: onnxload.TensorType, Elem: onnxload.Int64, Dims: []any{0}},
		{Kind: onnxload.TensorType, Elem: onnxload.Bool, Dims: []any{6}},
		{Kind: onnxload.TensorType, Elem: onnxload.String, Dims: []any{2}},
		{Kind: onnxload.SequenceType, Of: &onnxtest.Type{Kind: onnxload.TensorType, Elem: onnxload.Float32, Dims: []any{2}}},
		{Kind: onnxload.OptionalType, Of: &onnxtest.Type{Kind: onnxload.TensorType, Elem: onnxload.Float32, Dims: []any{2}}},
	}
	numbers := []onnxtest.Tensor{
		{DType: onnxload.Float32, Typed: []float32{2}}, {DType: onnxload.Float32, Dims: []int64{1}, Typed: []float32{1}},
		{DType: onnxload.Int64, Dims: []int64{2}, Typed: []int64{1, 0}},
		{DType: onnxload.Bool, Dims: []int64{1}, Typed: []int32{1}},
	}
	ran, misfits, turn := 0, 0, 0
	for _, op := range shape.Operators() {
		f := fromonnx.Facts(op.Domain, op.Name)
		var number *onnxtest.Tensor                     // that each input is; nil where they are the model's
		try := func(inputs, outputs, slot, wrong int) { // wrong -1: the input in that slot is left out
			if turn++; !inTurn(turn) {
				return
			}
			n := onnxtest.Node{Op: op.Name, Domain: op.Domain}
			g := onnxtest.Graph{}
			for k := range inputs {
				name, typ := fmt.Sprint("x", k), types[0]
				switch {
				case k == slot && wrong < 0:
					n.In = append(n.In, "")
					continue
				case k == slot:
					typ = types[wrong]
				}
				n.In = append(n.In, name)
				if number != nil {
					c := *number
					c.Name = name
					g.Inits = append(g.Inits, c)
					continue
				}
				g.In = append(g.In, onnxtest.Value{Name: name, Type: typ})
			}
			for k := range outputs {
				n.Out = append(n.Out, fmt.Sprint("y", k))
				g.Out = append(g.Out, onnxtest.Value{Name: n.Out[k], Type: types[0]})
			}
			g.Nodes = []onnxtest.Node{n}
			fits := f == nil || f.Fit(inputs, func(k int) bool { return k != slot || wrong >= 0 })
			opset := op.Since[len(op.Since)-1]
			m := onnxtest.Model{Opset: max(opset, 20), Opsets: []onnxtest.Import{{Domain: op.Domain, Version: opset}}, Graph: g}
			if op.Domain == "" {
				m.Opset, m.Opsets = opset, nil
			}
			unknown, ok := tryModel(t, m.Bytes())
			if ran++; ok && !fits && outputs > 0 {
				if misfits++; unknown == 0 {
					t.Errorf("%s with %d inputs, number %d of kind %d, and %d outputs is taken for a node like others", op.Name,
						inputs, slot, wrong, outputs)
				}
			}
		}
		most := 4 // of an operator of which only the shapes are known
		switch {
		case f == nil:
		case f.Most > 16: // any number
			most = f.Least + 2
		default:
			most = f.Most
		}
		for inputs := range most + 2 {
			for outputs := range 5 {
				try(inputs, outputs, -1, 0)
				for i := range numbers {
					number = &numbers[i]
					try(inputs, outputs, -1, 0)
				}
				number = nil
			}
			for slot := range inputs {
				for wrong := -1; wrong < len(types); wrong++ {
					try(inputs, 1, slot, wrong)
				}
			}
		}
	}
	t.Logf("%d models, of which %d have a node with inputs that its row does not have", ran, misfits)
	if ran < 4500 || misfits < 450 {
		t.Errorf("only %d models, and %d with other inputs than an operator has", ran, misfits)
	}
}

// tryModel takes a model through a training step. ok is false where it is refused; else unknown counts the nodes
// without a model.
func tryModel(t *testing.T, raw []byte) (unknown int, ok bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%v at\n%s", p, debug.Stack())
		}
	}()
	m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{})
	if err != nil {
		return 0, false
	}
	b, err := Bind(m, Options{})
	if err != nil {
		return 0, false
	}
	p, err := b.Program(true)
	if err != nil {
		return 0, false
	}
	trainInputs(p)
	if _, err := torch.Simulate(p, torch.Options{Train: true, Settings: torch.Settings{Loss: "mean"}}); err != nil &&
		strings.Contains(err.Error(), "is read before a call makes it") {
		t.Errorf("%s: %v", m.Graph.Nodes[0].Op, err)
	}
	for _, n := range p.Unknown {
		unknown += n
	}
	return unknown, true
}

// Every node of ONNX's own tests is trained, its inputs taken for parameters: whatever operator
// it becomes, the requests must be in order, and every free be of a live block.
func TestEveryNodeTrains(t *testing.T) {
	runs, calls := 0, map[string]bool{}
	err := onnxtest.Archives("shape/testdata/onnx-nodes*.tar.gz", func(name string, raw []byte) {
		m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{Path: name})
		if err != nil {
			return // the reader has tests of its own
		}
		for _, opts := range []torch.Options{
			{}, {Train: true, Settings: torch.Settings{Loss: "mean"}}, {Train: true,
				Settings: torch.Settings{Loss: "mean", Precision: torch.AMPBF16}}, {Train: true,
				Settings: torch.Settings{Loss: "mean", Precision: torch.FP16, ChannelsLast: true}},
		} {
			b, err := Bind(m, Options{})
			if err != nil {
				continue // likewise shape inference
			}
			p, err := b.Program(opts.Train)
			if err != nil {
				continue
			}
			trainInputs(p)
			if opts.Train && (len(p.Outputs) == 0 || !p.Values[p.Outputs[0]].DType.IsFloat()) {
				continue
			}
			run, err := torch.Simulate(p, opts)
			if err != nil && strings.Contains(err.Error(), "depends on no parameter") {
				continue // there is nothing to train
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			runs++
			for _, c := range p.Calls {
				calls[c.Op] = true
			}
			checkBlocks(t, name, run.Log)
		}
	})
	must.OK(t, err)
	t.Logf("%d runs of %d operators", runs, len(calls))
	if runs < 3000 || len(calls) < 80 {
		t.Errorf("only %d runs and %d operators", runs, len(calls))
	}
}

// trainInputs makes parameters of a program's floating point inputs.
func trainInputs(p *program.Program) {
	var rest []program.ValueID
	for _, id := range p.Inputs {
		if v := &p.Values[id]; v.DType.IsFloat() {
			v.Kind = program.Parameter
			p.State = append(p.State, id)
		} else {
			rest = append(rest, id)
		}
	}
	p.Inputs = rest
}

func checkBlocks(t *testing.T, name string, l *timeline.Log) {
	t.Helper()
	live := make([]int64, l.Blocks())
	for i, e := range slices.Collect(l.Events) {
		switch e.Kind {
		case timeline.Alloc:
			if e.Bytes <= 0 || live[e.Block] != 0 {
				t.Errorf("%s: event %d allocates %d bytes for block %d, which has %d", name, i, e.Bytes, e.Block, live[e.Block])
				return
			}
			live[e.Block] = e.Bytes
		case timeline.Free:
			if live[e.Block] != e.Bytes {
				t.Errorf("%s: event %d frees %d bytes of block %d, which has %d", name, i, e.Bytes, e.Block, live[e.Block])
				return
			}
			live[e.Block] = 0
		}
	}
}
