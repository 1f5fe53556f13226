package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchBags finds torch.nn.functional.embedding_bag, of which both exporters write a Loop over the bags: TorchScript
// looks a bag's rows up in the body and reduces them there (embedding_bag in symbolic_opset11.py and those after it),
// torch.export's exporter looks all rows up before, multiplies each by its weight, 1 where none is given, and reduces
// slices of them (torchlib _aten_embedding_bag_onnx), which a ConcatFromSequence puts together.
func matchBags(b *recovery, i int) {
	loop := b.nodes[i]
	flow, ok := b.types.Flow(loop)
	if !ok || flow.Body == nil {
		return
	}
	body := map[onnxload.ValueID]*onnxload.Node{}
	var reduced []*onnxload.Node
	collect(flow.Body, body, &reduced, 0)
	if len(reduced) == 0 {
		return
	}
	args := program.Args{}
	for _, n := range reduced {
		if n.Op == "ReduceMax" && len(reduced) == 1 {
			args.Mode = "max" // of the bag that each element is from
		}
	}
	rows := body[b.in(reduced[0], 0)]
	if rows != nil && rows.Op == "Gather" && b.isParameter(b.in(rows, 0)) && len(loop.Out) == 1 {
		ids := body[b.in(rows, 1)]
		if ids == nil || ids.Op != "Slice" {
			return
		}
		b.bags(args, b.in(rows, 0), b.in(ids, 0), loop.Output(0), i)
		return
	}
	if rows == nil || rows.Op != "Slice" || len(loop.Out) != 2 {
		return
	}
	var members []int
	from, weights := b.in(rows, 0), onnxload.NoValue
	for _, op := range []string{"Cast", "Mul"} {
		if n, k := b.producedBy(from, op); n != nil {
			if op == "Mul" {
				weights = b.in(n, 1)
			}
			from, members = b.in(n, 0), append(members, k)
		}
	}
	table, ti := b.producedBy(from, "Gather")
	joined, ji := b.user(loop.Output(0), "ConcatFromSequence")
	if table == nil || joined == nil || !b.isParameter(b.in(table, 0)) {
		return
	}
	y := joined.Output(0)
	for _, op := range []string{"CastLike", "Cast"} {
		if n, k := b.user(y, op); n != nil {
			y, members = n.Output(0), append(members, k)
			break
		}
	}
	b.forgetOnes(weights)
	b.bags(args, b.in(table, 0), b.in(table, 1), y, append(members, ti, ji, i)...)
}

// forgetOnes makes nothing of the weights of rows that an optimizer computed, ones: val_11.
func (b *recovery) forgetOnes(weights onnxload.ValueID) {
	if weights == onnxload.NoValue {
		return
	}
	if n, _ := b.producer(weights); n != nil && n.Op == "Unsqueeze" {
		weights = b.in(n, 0)
	}
	if b.m.Values[weights].Init != nil && strings.HasPrefix(b.m.NameOf(weights), "val_") {
		b.of[weights] = b.add(program.Value{Kind: program.Number, DType: b.elem(weights), Shape: b.dims(weights)})
	}
}

// collect gathers the nodes of a body and of the branches within it by their results, and those that reduce rows.
func collect(g *onnxload.Graph, made map[onnxload.ValueID]*onnxload.Node, reduced *[]*onnxload.Node, depth int) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		made[n.Output(0)] = n
		switch n.Op {
		case "ReduceSum", "ReduceMean", "ReduceMax":
			*reduced = append(*reduced, n)
		}
		for _, a := range n.Attrs {
			for _, inner := range a.Graphs {
				if depth < 8 {
					collect(inner, made, reduced, depth+1)
				}
			}
		}
	}
}

// bags claims the nodes of an embedding_bag of all rows of a table.
func (b *recovery) bags(args program.Args, table, ids, y onnxload.ValueID, nodes ...int) {
	b.claim(func() {
		args.Shape = b.dims(y)
		b.call("embedding_bag", args, []program.ValueID{b.value(table), b.value(ids)}, y)
	}, nodes...)
}
