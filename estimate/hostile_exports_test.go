package estimate

import (
	"fmt"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// What recovery reads of PyTorch's own exports takes work in proportion to the file, too: what is written into and what
// views of that are, masks that are cast for each product, and the numbers of names.
func TestExportsWorkInProportion(t *testing.T) {
	x, q := on.Float("x", 4, 4), on.Float("q", 1, 1)
	returned := func(g *on.Graph, out string) { g.Out = append(g.Out, on.Value{Name: out}) }
	written := func() on.Graph { // the place of the first row, of shapes alone
		return on.Graph{In: []on.Value{x, q},
			Inits: []on.Tensor{on.Bare("w.weight", onnxload.Float32, 4, 4), on.Bare("row.weight", onnxload.Float32, 1, 4),
				on.Int64s("shape", 4, 4)},
			Nodes: []on.Node{on.Op("Shape", "x", "size", on.A("end", int64(1))), on.Op("Sub", "size size", "first"),
				on.Op("Shape", "q", "one"), on.Op("Reshape", "first one", "place"), on.Op("MatMul", "x w.weight", "v0")}}
	}
	views := written()
	for i := range 15_000 {
		v, y := fmt.Sprint("v", i+1), fmt.Sprint("y", i+1)
		views.Nodes = append(views.Nodes, on.Op("Reshape", fmt.Sprintf("v%d shape", i), v),
			on.Op("ScatterND", v+" place row.weight", y))
		returned(&views, y)
	}
	one := written()
	for i := range 2 * 30_000 {
		op, in, y := "Sigmoid", "v0", fmt.Sprint("y", i)
		if i >= 30_000 {
			op, in = "ScatterND", "v0 place row.weight"
		}
		one.Nodes = append(one.Nodes, on.Op(op, in, y))
		returned(&one, y)
	}
	masks := on.Graph{In: []on.Value{x}, Inits: []on.Tensor{on.Zeros("zero", onnxload.Float32)},
		Nodes: []on.Node{on.Op("Greater", "x zero", "mask")}}
	for i := range 30_000 {
		cast, y := fmt.Sprint("c", i), fmt.Sprint("y", i)
		masks.Nodes = append(masks.Nodes, on.Op("Cast", "mask", cast, on.A("to", int64(onnxload.Float32))),
			on.Op("Mul", "x "+cast, y))
		returned(&masks, y)
	}
	numbers := on.Graph{In: []on.Value{x}, Nodes: []on.Node{on.Op("Relu", "x", "relu")}}
	for i := range 60_000 {
		if i%10 == 0 {
			relu := fmt.Sprint("relu_", 20*(i+1))
			numbers.Nodes = append(numbers.Nodes, on.Op("Relu", "x", relu))
			returned(&numbers, relu)
		}
		y := fmt.Sprint("y", i)
		numbers.Nodes = append(numbers.Nodes, on.Op("Exp", "relu", y))
		returned(&numbers, y)
	}
	for name, g := range map[string]on.Graph{
		"assignments to views": views, "assignments to one tensor": one, "masks": masks, "numbers": numbers,
	} {
		inProportion(t, name, on.Model{Graph: g, Producer: "pytorch"}, Step{Infer: true})
	}
}
