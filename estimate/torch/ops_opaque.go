package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// opaqueOps is what stands for an operator of which no more is known than its arguments and results.
var opaqueOps = []op{
	{"opaque", castNone, runOpaque},
}

// runOpaque makes the results that the graph declares. Its gradients are of its arguments' sizes; what it
// needs on the way is not known and not counted, nor is what it saves unless Args.Mode is "saves": its arguments.
func runOpaque(r *run, c *program.Call, in []*tensor) []*tensor {
	outs := make([]*tensor, len(c.Out))
	for i, v := range c.Out {
		if v != program.NoValue {
			outs[i] = r.empty(r.modelType(r.prog.Values[v].DType), r.prog.Values[v].Shape...)
		}
	}
	float := slices.ContainsFunc(outs, func(t *tensor) bool { return t != nil && t.dtype.IsFloat() })
	if float && r.needsGrad(in...) {
		like := make([]operand, len(in))
		for i, t := range in {
			if t != nil {
				like[i] = t.operand()
			}
		}
		var saved []*tensor
		if c.Args.Mode == "saves" {
			saved = in
		}
		r.record("Opaque", outs, in, saved, func(r *run, n *node, g []*tensor) []*tensor {
			return n.each(func(i int) *tensor { return r.empty(like[i].dtype, like[i].shape...) })
		})
	}
	return outs
}
