package estimate

import (
	"fmt"
	"strings"

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
		if w.role != roleBuffer && len(a.uses[w.id]) == 0 {
			idle++
		}
	}
	if both > 0 {
		say(Warning, "%s and were merged because they had equal values: export with trained weights, or with optimize=False, to keep them apart", plural(both, "tensor is a parameter and a buffer", "tensors are parameters and buffers"))
	}
	if idle > 0 {
		say(Info, "%s used by no node", plural(idle, "parameter is", "parameters are"))
	}
	if n := len(a.types.Contradictions); n > 0 {
		say(Warning, "the file declares another type for %s than follows from its nodes: what follows is taken", plural(n, "value"))
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
	foldedConvs, evalNorms := 0, 0
	for _, s := range a.steps {
		switch s.node.Op {
		case "Conv":
			// Convolutions whose weight and bias both lost their names absorbed the
			// batch norm behind them; so did those that say they are one.
			if a.isRenamed(s.node, 1) && a.isRenamed(s.node, 2) || strings.Contains(s.place.call, "batch_norm") || strings.HasPrefix(s.place.op, "_native_batch_norm") {
				foldedConvs++
			}
		case "BatchNormalization":
			if t := s.node.Attr("training_mode"); (t == nil || t.Int == 0) && !isTrainingNorm(s) {
				evalNorms++
			}
		}
	}
	if foldedConvs > 0 {
		say(Warning, "this export is for inference: %s absorbed their batch norms, so parameters and layers are missing. For training export with %s", plural(foldedConvs, "convolution"), howToExport)
	} else if evalNorms > 0 {
		say(Warning, "this export is for inference: %s in eval mode, and dropout is gone. For training export with %s", plural(evalNorms, "batch norm is", "batch norms are"), howToExport)
	}
}

// isTrainingNorm reports whether a batch norm was exported by torch.export from a model in train
// mode. The exporter leaves training_mode out; the ATen operator that the node is
// named after tells.
func isTrainingNorm(s step) bool {
	name := s.place.op + s.node.Name
	return strings.Contains(name, "_native_batch_norm_legit") && !strings.Contains(name, "no_training")
}

// isRenamed reports whether input i of a node is a constant whose name folding made up.
func (a *analysis) isRenamed(n *onnxload.Node, i int) bool {
	return i < len(n.In) && n.In[i] != onnxload.NoValue && a.m.Values[n.In[i]].Init != nil && isAutomatic(a.m.Values[n.In[i]].Name)
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
			if size, err := sizeOf(a.types.Type(id), a.types.Limit); err == nil && !size.known {
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
