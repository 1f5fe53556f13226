package torch

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// An example is a call of one operator on leaves of these shapes; a tensor of ints is no leaf.
type example struct {
	args program.Args
	in   []exampleInput
}

type exampleInput struct {
	shape []int64
	dtype program.DType
	host  bool
}

func floats(n ...int64) exampleInput   { return exampleInput{shape: n, dtype: f32} }
func integers(n ...int64) exampleInput { return exampleInput{shape: n, dtype: i64} }

var number = exampleInput{host: true, dtype: f32}

// examples has a call for every operator that one tensor of [2, 4, 6, 6] is no example for.
var examples = map[string]example{
	"add": {in: []exampleInput{floats(2, 4, 6, 6), floats(4, 1, 1)}}, "sub": {in: []exampleInput{floats(2, 4, 6, 6),
		floats(4, 1, 1)}},
	"mul": {in: []exampleInput{floats(2, 4, 6, 6), floats(4, 1, 1)}}, "div": {in: []exampleInput{floats(2, 4, 6, 6),
		floats(4, 1, 1)}},
	"pow": {in: []exampleInput{floats(2, 4), floats(2, 4)}}, "maximum": {in: []exampleInput{floats(2, 4), floats(4)}},
	"minimum": {in: []exampleInput{floats(2, 4), floats(4)}}, "remainder": {in: []exampleInput{floats(2, 4),
		floats(2, 4)}},
	"where": {in: []exampleInput{{shape: []int64{2, 4}, dtype: mask}, floats(2, 4),
		floats(4)}}, "masked_fill": {in: []exampleInput{floats(2, 4), {shape: []int64{2, 4}, dtype: mask}}},
	"bitwise": {in: []exampleInput{integers(2, 4), integers(4)}}, "compare": {in: []exampleInput{floats(2, 4), floats(4)}},
	"clamp": {args: program.Args{Both: true}, in: []exampleInput{floats(2, 4)}}, "prelu": {in: []exampleInput{floats(2, 4, 6,
		6), floats(1)}},
	"dropout": {args: program.Args{Train: true, P: 0.5}, in: []exampleInput{floats(2, 4)}},
	"feature_dropout": {args: program.Args{Train: true, P: 0.5, Shape: []int64{2, 4, 1, 1}},
		in: []exampleInput{floats(2, 4, 6, 6)}},
	"to": {args: program.Args{DType: bf16},
		in: []exampleInput{floats(2, 4)}}, "type_as": {in: []exampleInput{floats(2, 4), integers(1)}},
	"fill": {args: program.Args{DType: f32, Shape: []int64{2, 4}}}, "glu": {args: program.Args{Dim: 1},
		in: []exampleInput{floats(2, 4)}},

	"linear": {in: []exampleInput{floats(2, 3, 4), floats(5, 4), floats(5)}}, "addmm": {in: []exampleInput{floats(5),
		floats(2, 4), floats(4, 5)}},
	"assign":      {in: []exampleInput{floats(4, 3), floats(2, 3)}},
	"weight_norm": {in: []exampleInput{floats(4, 3, 2), floats(4, 1, 1)}},
	"matmul": {in: []exampleInput{floats(2, 3, 4),
		floats(2, 4, 5)}}, "einsum": {args: program.Args{Mode: "bij,bjk->bik",
		Shape: []int64{2, 3, 5}}, in: []exampleInput{floats(2, 3, 4), floats(2, 4, 5)}},
	"fft_r2c": {args: program.Args{Dims: []int{1, 2}}, in: []exampleInput{floats(2, 4, 6)}},
	"fft_c2r": {args: program.Args{Dims: []int{1, 2}, Shape: []int64{2, 4, 6}}, in: []exampleInput{floats(2, 4, 4, 2)}},
	"conv": {args: program.Args{Shape: []int64{2, 8, 6, 6}, Groups: 1, Stride: []int64{1, 1},
		Dilate: []int64{1, 1}}, in: []exampleInput{floats(2, 4, 6, 6), floats(8, 4, 3, 3), floats(8)}},
	"deform_conv": {args: program.Args{Shape: []int64{2, 8, 6, 6}}, in: []exampleInput{floats(2, 4, 6, 6), floats(8, 4, 3, 3),
		floats(2, 18, 6, 6), floats(2, 9, 6, 6), floats(8)}},
	"conv_transpose": {args: program.Args{Shape: []int64{2, 8, 12, 12}, Groups: 1, Stride: []int64{2, 2},
		Dilate: []int64{1, 1}, Mode: "transposed"}, in: []exampleInput{floats(2, 4, 6, 6), floats(4, 8, 2, 2), floats(8)}},
	"batch_norm": {args: program.Args{Train: true},
		in: []exampleInput{floats(2, 4, 6, 6), floats(4), floats(4)}},
	"instance_norm": {in: []exampleInput{floats(2, 4, 6, 6), floats(4), floats(4)}},
	"layer_norm": {args: program.Args{Shape: []int64{6}},
		in: []exampleInput{floats(2, 6), floats(6), floats(6)}}, "rms_norm": {args: program.Args{Shape: []int64{6}},
		in: []exampleInput{floats(2, 6), floats(6)}},
	"group_norm": {args: program.Args{Groups: 2}, in: []exampleInput{floats(2, 4, 6, 6), floats(4), floats(4)}},
	"nll_loss":   {in: []exampleInput{floats(2, 4), integers(2)}},
	"normalize": {args: program.Args{Dims: []int{1}},
		in: []exampleInput{floats(2, 4)}},

	"max_pool": {args: program.Args{Shape: []int64{2, 4, 3, 3}},
		in: []exampleInput{floats(2, 4, 6, 6)}}, "adaptive_max_pool": {args: program.Args{Shape: []int64{2, 4, 1, 1}},
		in: []exampleInput{floats(2, 4, 6, 6)}},
	"max_unpool": {args: program.Args{Shape: []int64{2, 4, 6, 6}},
		in: []exampleInput{floats(2, 4, 3, 3), integers(2, 4, 3, 3)}},
	"avg_pool": {args: program.Args{Shape: []int64{2, 4, 3, 3}},
		in: []exampleInput{floats(2, 4, 6, 6)}}, "adaptive_avg_pool": {args: program.Args{Shape: []int64{2, 4, 1, 1}},
		in: []exampleInput{floats(2, 4, 6, 6)}},
	"upsample": {args: program.Args{Shape: []int64{2, 4, 12, 12}},
		in: []exampleInput{floats(2, 4, 6, 6)}}, "constant_pad": {args: program.Args{Shape: []int64{2, 4, 8, 8}},
		in: []exampleInput{floats(2, 4, 6, 6)}},
	"reflection_pad": {args: program.Args{Shape: []int64{2, 4, 8, 8}},
		in: []exampleInput{floats(2, 4, 6, 6)}}, "pixel_shuffle": {args: program.Args{Shape: []int64{2, 1, 12, 12}},
		in: []exampleInput{floats(2, 4, 6, 6)}},
	"col2im": {args: program.Args{Shape: []int64{2, 4, 6, 6}},
		in: []exampleInput{floats(2, 36, 36)}},
	"grid_sample": {args: program.Args{Shape: []int64{2, 4, 3, 3}},
		in: []exampleInput{floats(2, 4, 6, 6), floats(2, 3, 3, 2)}},
	"roi_align": {args: program.Args{Shape: []int64{5, 4, 2, 2}}, in: []exampleInput{floats(2, 4, 6, 6), integers(5, 5)}},

	"reshape": {args: program.Args{Shape: []int64{8, 36}},
		in: []exampleInput{floats(2, 4, 6, 6)}}, "permute": {args: program.Args{Dims: []int{1, 0}},
		in: []exampleInput{floats(2, 4)}},
	"expand": {args: program.Args{Shape: []int64{3, 2, 4}},
		in: []exampleInput{floats(2, 1)}}, "unsqueeze": {args: program.Args{Dim: 1},
		in: []exampleInput{floats(2, 4)}}, "squeeze": {args: program.Args{Dim: 1}, in: []exampleInput{floats(2, 1)}},
	"slice": {args: program.Args{Dims: []int{1}, Shape: []int64{2}},
		in: []exampleInput{floats(2, 4)}}, "select": {args: program.Args{Dim: 1}, in: []exampleInput{floats(2, 4)}},
	"split": {args: program.Args{Dim: 1, Shape: []int64{1, 3}},
		in: []exampleInput{floats(2, 4)}}, "unbind": {args: program.Args{Dim: 1}, in: []exampleInput{floats(2, 4)}},
	"cat": {args: program.Args{Dim: 1}, in: []exampleInput{floats(2, 4), floats(2, 3)}}, "stack": {args: program.Args{Dim: 1},
		in: []exampleInput{floats(2, 4), floats(2, 4)}}, "tile": {args: program.Args{Shape: []int64{4, 4}},
		in: []exampleInput{floats(2, 4)}},
	"embedding": {in: []exampleInput{floats(9, 4),
		integers(2, 3)}}, "index": {args: program.Args{Shape: []int64{3, 4}}, in: []exampleInput{floats(9, 4), integers(3)}},
	"gather": {in: []exampleInput{floats(9, 4), integers(2, 4)}}, "scatter": {in: []exampleInput{floats(9, 4),
		integers(2, 4), floats(2, 4)}},

	"max_dim": {args: program.Args{Dims: []int{1}},
		in: []exampleInput{floats(2, 4)}}, "argmax": {args: program.Args{Dims: []int{1}},
		in: []exampleInput{floats(2, 4)}}, "topk": {args: program.Args{Shape: []int64{2, 2}}, in: []exampleInput{floats(2, 4)}},
	"logsumexp": {args: program.Args{Dims: []int{1}},
		in: []exampleInput{floats(2, 4)}},
	"attention_end": {args: program.Args{Groups: 2, Mode: "averaged"}, in: []exampleInput{integers(4, 3, 8),
		integers(4, 3, 8), integers(4, 3, 8), integers(4, 3, 8), floats(4, 3, 3)}}, // the weights alone have a gradient
	"native_attention": {args: program.Args{Groups: 2, Mode: "averaged"},
		in: []exampleInput{floats(2, 3, 8), floats(24, 8), floats(24), floats(8, 8), floats(8), floats(3, 3)}},
	"sdpa": {in: []exampleInput{floats(2, 3, 5, 8), floats(2, 3, 5, 8), floats(2, 3, 5, 8)}},
	"lstm": recurrentExample(4), "gru": recurrentExample(3), "rnn": recurrentExample(1),
}

func recurrentExample(gates int64) example {
	return example{args: program.Args{Hidden: 8, Layers: 1}, in: []exampleInput{floats(5, 2, 4), number, number,
		floats(gates*8, 4), floats(gates*8, 8), floats(gates * 8), floats(gates * 8)}}
}

// rowNames returns the names of all operators, sorted.
func rowNames() []string {
	var names []string
	for _, room := range opTables {
		for _, o := range room {
			names = append(names, o.name)
		}
	}
	slices.Sort(names)
	return names
}

// Every operator lets go of all that it took once its results, and then the gradients, are gone, with gradients and
// without, in each precision, and gives every parameter a gradient of its shape.
func TestEveryRowReturnsItsMemory(t *testing.T) {
	if all := rowNames(); len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("an operator has two rows")
	}
	for name := range examples {
		if !slices.Contains(rowNames(), name) {
			t.Errorf("an example for %q, which has no row", name)
		}
	}
	for _, name := range rowNames() {
		switch name {
		case "opaque": // its results are the graph's
			continue
		}
		for _, p := range []Precision{FP32, AMPBF16, AMPFP16, BF16} {
			for _, grad := range []bool{true, false} {
				e, ok := examples[name]
				if !ok {
					e = example{in: []exampleInput{floats(2, 4, 6, 6)}}
				}
				tryRow(t, name, e, p, grad)
			}
		}
	}
}

// Attention of windows, five dimensions, is the composed kernel's: it scales query and key, and keeps the scores.
func TestAttentionOfWindows(t *testing.T) {
	for _, shape := range [][]int64{{2, 3, 4, 5, 8}, {6, 5, 8}} {
		tryRow(t, "sdpa", example{in: []exampleInput{floats(shape...), floats(shape...), floats(shape...)}}, FP32, true)
		p := &program.Program{Values: []program.Value{{Kind: program.None}, {Shape: shape}, {Shape: shape}, {Shape: shape}}}
		if c := (&program.Call{Op: "sdpa", Args: program.Plain, In: []program.ValueID{1, 2, 3}}); !p.Fits(c) {
			t.Errorf("attention of %v does not fit", shape)
		}
		p.Values[2].Shape = append([]int64{7}, shape[1:]...)
		if c := (&program.Call{Op: "sdpa", Args: program.Plain, In: []program.ValueID{1, 2, 2}}); p.Fits(c) {
			t.Errorf("attention of %v to %v fits", shape, p.Values[2].Shape)
		}
	}
}

func tryRow(t *testing.T, name string, e example, p Precision, grad bool) {
	t.Helper()
	l := newLab()
	l.r.opts.Precision = p
	l.r.dnn = [2]bool{true, true}
	var in, leaves []*tensor
	for _, x := range e.in {
		d := x.dtype
		if d.IsFloat() {
			d = p.params()
		}
		switch {
		case x.host:
			in = append(in, scalar(d))
		case d.IsFloat():
			v := l.leaf(d, x.shape...)
			in, leaves = append(in, v), append(leaves, v)
		default:
			in = append(in, l.plain(d, x.shape...))
		}
	}
	before := liveBytes(l)
	l.r.grad = grad
	l.r.enterAutocast()
	outs := l.all(name, e.args, in...)
	l.r.exitAutocast()
	if l.err != nil {
		t.Fatal(l.err)
	}
	if y := outs[0]; grad && y.fn != nil {
		g := l.r.empty(y.dtype, y.shape...)
		l.r.backwardFrom(y, g)
		l.r.release(g)
		for i, v := range leaves {
			if v.leaf.grad == nil {
				t.Errorf("%s in %v: input %d has no gradient", name, p, i)
			} else if !slices.Equal(v.leaf.grad.shape, v.shape) || v.leaf.grad.dtype != v.dtype {
				t.Errorf("%s in %v: the gradient of %v %v is %v %v", name, p, v.dtype, v.shape, v.leaf.grad.dtype,
					v.leaf.grad.shape)
			}
			l.r.release(v.leaf.grad)
		}
	}
	for _, y := range outs {
		l.r.release(y)
	}
	if after := liveBytes(l); after != before {
		t.Errorf("%s in %v, gradients %v: %d bytes are left over", name, p, grad, after-before)
	}
}

func liveBytes(l *lab) int64 {
	n := int64(0)
	for e := range l.r.log.Events {
		switch e.Kind {
		case timeline.Alloc:
			n += e.Bytes
		case timeline.Free:
			n -= e.Bytes
		}
	}
	return n
}

// Every operator is given no tensor, one, and so on to one more than it can have, each of them left out, a number, or
// of another rank or type. What aten.Program.Fits lets through runs, forward and backward, or is refused: no rule
// panics.
func TestEveryCallThatFits(t *testing.T) {
	shapes := [][]int64{{2, 4, 6, 6}, {}, {4}, {2, 4}, {2, 3, 4}, {0, 4}}
	ran, misfits := 0, 0
	for _, room := range opTables {
		for _, row := range room {
			of, example := program.Of(row.name), examples[row.name]
			most := of.Most
			if most > 8 { // any number
				most = max(of.Least, len(example.in)) + 1
			}
			for n := range most + 2 {
				for slot := -1; slot < n; slot++ {
					for k := range len(shapes) + 3 { // which the one in the slot is
						for _, args := range []program.Args{{}, example.args} {
							p := &program.Program{
								Values: []program.Value{{Kind: program.None}, {Name: "y", DType: f32,
									Shape: args.Shape}}, Outputs: []program.ValueID{1}, Layers: []string{"layer"}, Origins: 1,
								Scopes: []program.Scope{{Parent: -1}},
							}
							call := program.Call{Op: row.name, Args: &args, Out: []program.ValueID{1}}
							for i := range n {
								v := program.Value{Name: "x", Kind: program.Parameter, DType: f32, Shape: shapes[0]}
								if i < len(example.in) {
									v.Shape, v.DType = example.in[i].shape, example.in[i].dtype
								}
								if i == slot && k < len(shapes) {
									v.Shape = shapes[k]
								}
								switch {
								case i == slot && k == len(shapes):
									call.In = append(call.In, program.NoValue)
									continue
								case i == slot && k == len(shapes)+1 && of.Is(program.TakesNumbers):
									v.Kind = program.Number
								case i == slot && k == len(shapes)+2:
									v.DType = program.Bool
								}
								if v.Kind == program.Parameter && !v.DType.IsFloat() {
									v.Kind = program.Buffer
								}
								id := p.Add(v)
								call.In = append(call.In, id)
								switch v.Kind {
								case program.Parameter:
									p.Params = append(p.Params, id)
									fallthrough
								case program.Buffer:
									p.State = append(p.State, id)
								}
							}
							if !p.Fits(&call) {
								misfits++
								continue
							}
							p.Calls = []program.Call{call}
							ran++
							tryCall(t, p, slot, k)
						}
					}
				}
			}
		}
	}
	t.Logf("%d calls, and %d that do not fit", ran, misfits)
	if ran < 2000 || misfits < 2000 {
		t.Errorf("only %d calls, and %d that do not fit", ran, misfits)
	}
}

func tryCall(t *testing.T, p *program.Program, slot, kind int) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s of %d tensors, number %d of kind %d: %v at\n%s", p.Calls[0].Op, len(p.Calls[0].In), slot, kind, r,
				debug.Stack())
		}
	}()
	_, err := Simulate(p, Options{Train: true, Settings: Settings{Loss: "mean"}})
	if err != nil && strings.Contains(err.Error(), "is read before a call makes it") {
		t.Error(err)
	}
}
