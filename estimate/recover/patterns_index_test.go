package recover_test

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// x[:, index] as torch.export writes it, and what only looks like it.
func TestIndexByTensor(t *testing.T) {
	inits := []onnx.Tensor{onnx.Bare("places", onnxload.Int64, 3, 5), onnx.Int64s("to", 3, 5),
		onnx.Int64s("more", 2, 3, 5), onnx.Int64s("last", -1)}
	spread := func(to string) []onnx.Node {
		return []onnx.Node{onnx.Op("Expand", "places "+to, "e"), onnx.Op("Unsqueeze", "e last", "u"),
			onnx.Op("Concat", "u", "c", onnx.A("axis", -1))}
	}
	perm := func(p ...int64) onnx.Attr { return onnx.A("perm", p) }
	apart := []string{"permute(x)", "expand(places)", "reshape(e)", "cat(u)", "index(t, c)"}
	with := func(to string, rest ...onnx.Node) []onnx.Node {
		return append(append([]onnx.Node{onnx.Op("Transpose", "x", "t", perm(1, 0, 2))}, spread(to)...), rest...)
	}
	runPatterns(t, []patternCase{
		{name: "the first dimension", inits: inits, nodes: append(spread("to"), onnx.Op("GatherND", "x c", "y")),
			want: []string{"index(x, places)"}},
		{name: "the second", inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "g"),
			onnx.Op("Transpose", "g", "y", perm(2, 0, 1, 3))), want: []string{"index(x, places)"}},
		{name: "places that folding put in a column", inits: append(slices.Clone(inits),
			onnx.Bare("column", onnxload.Int64, 6, 1)), nodes: []onnx.Node{onnx.Op("GatherND", "x column", "y")},
			want: []string{"index(x, column)"}},
		{name: "a table that folding turned", inits: append(slices.Clone(inits), onnx.Bare("val_7", onnxload.Float32, 9, 4)),
			shape: []any{4, 3, 5},
			nodes: append(spread("to"), onnx.Op("GatherND", "val_7 c", "g"), onnx.Op("Transpose", "g", "b", perm(2, 0, 1)),
				onnx.Op("Add", "x b", "y")), want: []string{"index(val_7, places)", "add(x, b)"}},
		{name: "a table as it is", inits: append(slices.Clone(inits), recovertest.Weights("attn.table", 9, 4)),
			shape: []any{4, 3, 5},
			nodes: append(spread("to"), onnx.Op("GatherND", "attn.table c", "g"), onnx.Op("Transpose", "g", "b", perm(2, 0, 1)),
				onnx.Op("Add", "x b", "y")), want: []string{"index(attn.table, places)", "permute(g)", "add(x, b)"}},
		{name: "turned another way", inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "g"),
			onnx.Op("Transpose", "g", "y", perm(2, 1, 0, 3))), want: append(slices.Clone(apart), "permute(g)")},
		{name: "not turned back", inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "y")), want: apart},
		{name: "places that spread", inits: inits, nodes: append(spread("more"), onnx.Op("GatherND", "x c", "y")),
			want: []string{"expand(places)", "reshape(e)", "cat(u)", "index(x, c)"}},
	})
	turned := mustRecover(t, patternCase{inits: inits, nodes: with("to", onnx.Op("GatherND", "t c", "g"),
		onnx.Op("Transpose", "g", "y", perm(2, 0, 1, 3)))}.graph())
	if c := turned.Calls[0]; c.Args.Dim != 1 || !slices.Equal(c.Args.Shape, []int64{2, 3, 5, 8}) {
		t.Errorf("dimension %d towards %v, wanted 1 towards [2 3 5 8]", c.Args.Dim, c.Args.Shape)
	}
}

// What torch.export leaves of contiguous() is an Identity with the name of a clone; a dropout of nothing leaves one
// too.
func TestClonesOfTransposes(t *testing.T) {
	turn := onnx.Op("Transpose", "x", "t", onnx.A("perm", []int64{0, 2, 1}))
	runPatterns(t, []patternCase{
		{name: "contiguous", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone_1"), onnx.Op("Relu", "clone_1", "y")},
			want: []string{"permute(x)", "contiguous(_)", "relu(t)"}},
		{name: "behind an unsqueeze", inits: []onnx.Tensor{onnx.Int64s("axis", 0)},
			nodes: []onnx.Node{turn, onnx.Op("Unsqueeze", "t axis", "u"), onnx.Op("Identity", "u", "clone_1"),
				onnx.Op("Relu", "clone_1", "y")}, want: []string{"permute(x)", "reshape(t)", "contiguous(_)", "relu(u)"}},
		{name: "another name", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "alias"), onnx.Op("Relu", "alias", "y")},
			want: []string{"permute(x)", "relu(t)"}},
		{name: "read before it is copied", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone"),
			onnx.Op("Add", "clone t", "y")}, want: []string{"permute(x)", "add(t, t)"}},
		{name: "reshape", inits: []onnx.Tensor{onnx.Int64s("to", 2, 32)},
			nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone"), onnx.Op("Reshape", "clone to", "_unsafe_view"),
				onnx.Op("Relu", "_unsafe_view", "y")}, want: []string{"permute(x)", "reshape(t)", "relu(_unsafe_view)"}},
		{name: "dropout", nodes: []onnx.Node{turn, onnx.Op("Identity", "t", "clone").Named("block.drop1:Identity"),
			onnx.Op("Relu", "clone", "y")}, want: []string{"permute(x)", "relu(t)"}},
	})
}

// x[:, 1:] = y writes into x; the exporters scatter it at places that come from shapes alone.
func TestSliceAssignment(t *testing.T) {
	graph := func(op, places string) patternCase {
		return patternCase{shape: []any{4, 8}, inits: []onnx.Tensor{onnx.Int64s("rows", 1, 2, 3), onnx.Int64s("to", 3, 1),
			onnx.Int64s("two", 2)}, nodes: []onnx.Node{
			onnx.Op("Relu", "x", "base"), onnx.Op("Sigmoid", "x", "part"), onnx.Op("Slice", "part rowsfrom rowsto axis",
				"y1"), onnx.Op("Reshape", "rows to", "at"), onnx.Op("ArgMax", "y1", "found", onnx.A("axis", 1)), onnx.Op(op,
				"base "+places+" y1", "y")}}
	}
	fixed, data := graph("ScatterND", "at"), graph("ScatterND", "found")
	for _, c := range []*patternCase{&fixed, &data} {
		c.inits = append(c.inits, onnx.Int64s("rowsfrom", 0), onnx.Int64s("rowsto", 3), onnx.Int64s("axis", 0))
	}
	fixed.name, fixed.want = "at fixed places", []string{"relu(x)", "sigmoid(x)", "slice(part)", "assign(base, y1)"}
	data.name, data.want = "where data say", []string{"relu(x)", "sigmoid(x)", "slice(part)", "argmax(y1)",
		"scatter(base, found, y1)"}
	runPatterns(t, []patternCase{fixed, data})
}

// F.pad by nothing is a copy; before a pooling that counts it, it is the exporter's.
func TestPadByNothing(t *testing.T) {
	none := onnx.Int64s("none", 0, 0, 0, 0, 0, 0, 0, 0)
	picture := []any{2, 4, 8, 8}
	runPatterns(t, []patternCase{
		{name: "pad", shape: picture, inits: []onnx.Tensor{none},
			nodes: []onnx.Node{onnx.Op("Pad", "x none", "p"), onnx.Op("Relu", "p", "y")},
			want:  []string{"constant_pad(x)", "relu(p)"}},
		{name: "reflected", shape: picture, inits: []onnx.Tensor{none},
			nodes: []onnx.Node{onnx.Op("Pad", "x none", "p", onnx.A("mode", "reflect")), onnx.Op("Relu", "p", "y")},
			want:  []string{"reflection_pad(x)", "relu(p)"}},
		{name: "pooling", shape: picture, inits: []onnx.Tensor{none},
			nodes: []onnx.Node{onnx.Op("Pad", "x none", "p"),
				onnx.Op("AveragePool", "p", "y", onnx.A("kernel_shape", []int64{2, 2}))}, want: []string{"avg_pool(x)"}},
	})
}

// A pooling that returns places, as both exporters write it, and one that puts values back there, as torch.export does.
func TestUnpool(t *testing.T) {
	ints := func(name string, v ...int64) onnx.Tensor { return onnx.Int64s(name, v...) }
	inits := []onnx.Tensor{ints("s", 0, 0), ints("e", 1, 1), ints("two", 2, 3), ints("zero", 0), ints("one", 1),
		ints("maps", 6), ints("column", 2, 3, 1, 1), ints("size", 16), ints("flat", -1), ints("all", 2, 3, 4, 4)}
	kernel := func(n int64) []onnx.Attr {
		return []onnx.Attr{onnx.A("kernel_shape", []int64{n, n}), onnx.A("strides", []int64{n, n})}
	}
	pool := func(window int64) []onnx.Node {
		return []onnx.Node{onnx.Op("MaxPool", "x", "p i", kernel(2)...), onnx.Op("MaxPool", "x", "q j", kernel(window)...),
			onnx.Op("Slice", "j s e two", "f"), onnx.Op("Sub", "i f", "places")}
	}
	unpool := func(size string) []onnx.Node {
		return append(pool(1), onnx.Op("Squeeze", "zero", "from"), onnx.Op("Squeeze", "maps", "to"),
			onnx.Op("Squeeze", "one", "step"), onnx.Op("Range", "from to step", "r"), onnx.Op("Reshape", "r column", "c"),
			onnx.Op("Mul", "c "+size, "begins"), onnx.Op("Add", "places begins", "a"), onnx.Op("Reshape", "a flat", "af"),
			onnx.Op("ConstantOfShape", "all", "z"), onnx.Op("Reshape", "z flat", "zf"), onnx.Op("Reshape", "p flat", "pf"),
			onnx.Op("Unsqueeze", "af flat", "u"), onnx.Op("ScatterND", "zf u pf", "s1"), onnx.Op("Reshape", "s1 all", "y"))
	}
	places := append(pool(1), onnx.Op("Cast", "places", "w", onnx.A("to", 1)), onnx.Op("Mul", "p w", "y"))
	runPatterns(t, []patternCase{
		{name: "places", shape: []any{2, 3, 4, 4}, inits: inits, nodes: places,
			want: []string{"max_pool(x)", "to(places)", "mul(p, w)"}},
		{name: "put back there", shape: []any{2, 3, 4, 4}, inits: inits, nodes: unpool("size"),
			want: []string{"max_pool(x)", "max_unpool(p, places)"}},
	})
	p := mustRecover(t, patternCase{shape: []any{2, 3, 4, 4}, inits: inits, nodes: unpool("maps")}.graph())
	if slices.ContainsFunc(p.Calls, func(c program.Call) bool { return c.Op == "max_unpool" }) {
		t.Error("places with steps of another size than a map's are taken for those of max_unpool")
	}
}
