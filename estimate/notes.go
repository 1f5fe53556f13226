package estimate

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/onnxload"
)

// notes tells what the reader of the figures should know.
func (a *analysis) notes(ws []weight, counters int64, r *Report) []Note {
	notes := []Note{}
	say := func(level, format string, args ...any) {
		notes = append(notes, Note{level, fmt.Sprintf(format, args...)})
	}
	if c := r.Coverage; !c.Complete() {
		say(Warning, "%d of %d nodes are of operators that are not modelled: every total is a lower bound", c.Nodes-c.Modelled, c.Nodes)
	}
	a.exportNotes(say)
	if n := a.unsized(); n > 0 {
		say(Warning, "the size of %s is not known: every total is a lower bound", plural(n, "value"))
	}
	if n := len(a.types.Bounded); n > 0 {
		say(Info, "%s depend on data: the most they can take is counted", plural(n, "dimension"))
	}
	if a.loops > 0 {
		say(Info, "the bodies of %s (Loop, Scan) are counted once", plural(a.loops, "node"))
	}
	if a.relus > 0 {
		say(Info, "%s taken to work in place: nothing else reads their input, and ONNX does not record it", plural(a.relus, "ReLU is", "ReLUs are"))
	}
	if counters > 0 {
		say(Info, "buffers include the batch counters of %s, which exporters leave out", plural(int(counters), "batch norm"))
	}
	both, idle := 0, 0
	for _, w := range ws {
		if w.role == roleBoth {
			both++
		}
		if w.role != roleBuffer && a.constantOf(w.id).first == 0 {
			idle++
		}
	}
	if both > 0 {
		say(Warning, "%s and were merged because they had equal values: export with trained weights, or with optimize=False, to keep them apart", plural(both, "tensor is a parameter and a buffer", "tensors are parameters and buffers"))
	}
	if idle > 0 {
		say(Info, "%s used by no node", plural(idle, "parameter is", "parameters are"))
	}
	if all := a.types.Contradictions; len(all) > 0 {
		say(Warning, "the file declares another type for %s than follows from its nodes: what follows is taken; %s",
			plural(len(all), "value"), all[0].String(a.m.Values[all[0].Value].Name))
	}
	for _, n := range a.m.Notes {
		say(Info, "%s", n)
	}
	for _, n := range a.types.Notes {
		say(Info, "%s", n)
	}
	return notes
}

// howToExport is what an export must say to keep what training needs.
const howToExport = "torch.onnx.export(model.train(), ..., dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)"

// exportNotes recognises exports that lost what training needs.
func (a *analysis) exportNotes(say func(level, format string, args ...any)) {
	folded, idle := 0, 0
	for _, s := range a.steps {
		switch {
		case eager.HasFoldedNorm(a.m, s.node) && len(s.node.In) > 1 && s.node.In[1] != onnxload.NoValue && len(a.origins(s.node.In[1])) > 0:
			folded++
		case s.node.Op == "BatchNormalization" && !eager.TrainsNorm(s.node, s.place.op):
			idle++
		}
	}
	if folded > 0 {
		say(Warning, "this export is for inference: %s absorbed the batch norms behind them, so the sums lack parameters and layers. For training export with %s", plural(folded, "convolution"), howToExport)
	}
	if idle > 0 {
		say(Warning, "this export is for inference: %s in evaluation mode, and dropout, if the model has any, is gone. For training export with %s", plural(idle, "batch norm is", "batch norms are"), howToExport)
	}
}

// unsized counts the values with storage of their own whose size is not known.
func (a *analysis) unsized() int {
	n := 0
	for _, s := range a.steps {
		if s.untaken {
			continue
		}
		for _, id := range s.node.Out {
			if id == onnxload.NoValue || a.reads[id] == 0 || a.storage[id] != id {
				continue
			}
			if size, err := a.sizeOf(id); err == nil && !size.known {
				n++
			}
		}
	}
	return n
}

// plural counts things: "1 node", "2 nodes". Where the two forms differ otherwise, many is the
// second one.
func plural(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return fmt.Sprintf("%d %s", n, many[0])
	}
	return fmt.Sprintf("%d %ss", n, one)
}
