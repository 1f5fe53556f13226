package estimate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// notes tells what the reader of the figures should know.
func notes(a *module.Analysis, ws []module.Weight, counters int64, r *Report) []Note {
	notes := []Note{}
	say := func(level, format string, args ...any) {
		notes = append(notes, Note{level, fmt.Sprintf(format, args...)})
	}
	if c := r.Coverage; !c.Complete() {
		say(Warning, "%d of %d nodes are of operators that are not modelled, %s: every total is a lower bound",
			c.Nodes-c.Modelled, c.Nodes, c.names())
	}
	told := slices.ContainsFunc(r.Notes, func(n Note) bool { return strings.Contains(n.Text, howToExport) })
	exportNotes(a, told, say)
	if n := a.Unsized(); n > 0 {
		say(Warning, "the size of %s is not known: every total is a lower bound", plural(n, "value"))
	}
	if n := a.Types.Bounded; n > 0 {
		say(Info, "%s depend on data: the most they can take is counted", plural(n, "dimension"))
	}
	if a.Loops > 0 {
		say(Info, "the bodies of %s (Loop, Scan) are counted once", plural(a.Loops, "node"))
	}
	if a.Relus > 0 {
		say(Info, "%s taken to work in place: nothing else reads their input, and ONNX does not record it",
			plural(a.Relus, "ReLU is", "ReLUs are"))
	}
	if counters > 0 {
		say(Info, "buffers include the batch counters of %s, which exporters leave out", plural(int(counters), "batch norm"))
	}
	weightNotes(a, ws, say)
	if all := a.Types.Contradictions; len(all) > 0 {
		say(Warning, "the file declares another type for %s than follows from its nodes: what follows is taken; %s",
			plural(len(all), "value"), all[0].String(a.Model.NameOf(all[0].Value)))
	}
	for _, n := range a.Model.Notes {
		say(Info, "%s", n)
	}
	for _, n := range a.Types.Notes {
		say(Info, "%s", n)
	}
	return notes
}

// weightNotes tells what is doubtful of parameters and buffers.
func weightNotes(a *module.Analysis, ws []module.Weight, say func(level, format string, args ...any)) {
	both, idle, named := 0, 0, []string{}
	for _, w := range ws {
		if w.Role == module.RoleBoth {
			both++
		}
		if w.Role != module.RoleBuffer && a.ConstantOf(w.ID).First == 0 {
			idle++
		}
		if w.ByName {
			named = append(named, a.Model.NameOf(w.ID))
		}
	}
	if len(named) > 0 {
		say(Info, "%s taken for a buffer by the name alone, such as %q: if it is trained, its gradient and "+
			"optimizer state are missing", plural(len(named), "tensor is", "tensors are"), named[0])
	}
	if both > 0 {
		say(Warning, "%s and were merged because they had equal values: export with trained weights, or with "+
			"optimize=False, to keep them apart",
			plural(both, "tensor is a parameter and a buffer", "tensors are parameters and buffers"))
	}
	if idle > 0 {
		say(Info, "%s used by no node", plural(idle, "parameter is", "parameters are"))
	}
}

// howToExport is what an export must say to keep what training needs.
const howToExport = `torch.onnx.export(model.train(), (x,), "model.onnx", dynamo=False, ` +
	`training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)`

// howToRecord is what gives the exact answer without a GPU: the step itself, on tensors without data.
const howToRecord = "python -m memestimate record train.py"

// lossNote says what a file that was not exported for training lost of the model that is trained, and what to do, where
// it is PyTorch's.
func lossNote(way module.Way, m *onnxload.Model, p *program.Program) []Note {
	exported := way == module.DefaultExport || way == OtherWay && m.Producer == "pytorch"
	if !exported || p.InferOnly != "" || len(p.Lost) == 0 {
		return nil
	}
	return []Note{{Warning, fmt.Sprintf("this file was not exported for training, and lost of the model: %s. "+
		"The exact answer is that of the step itself, on tensors without data: %s; or export with %s",
		strings.Join(p.Lost, "; "), howToRecord, howToExport)}}
}

// exportNotes recognises exports that lost what training needs. What to do about it may have been told.
func exportNotes(a *module.Analysis, told bool, say func(level, format string, args ...any)) {
	if framework := module.Framework(a.Model); framework != "" {
		say(Warning, "the file comes from %s by its exporter %q, not from PyTorch: the run is what a PyTorch module of the "+
			"same operators would take, and %s may take another amount",
			framework, a.Model.Producer, framework)
	}
	if n, op := a.BackwardNodes(); n > 0 {
		say(Warning, "%s of a backward pass, such as %q: this is a training graph of ONNX Runtime, whose run is another "+
			"than PyTorch's; export the module itself to see what training it takes",
			plural(n, "node is", "nodes are"), op)
		return
	}
	folded, idle := 0, 0
	for _, s := range a.Steps {
		norm, trains := module.BatchNorm(s.Node, s.Place.Op)
		switch {
		case module.HasFoldedNorm(a.Model, s.Node) && len(s.Node.In) > 1 && s.Node.In[1] != onnxload.NoValue &&
			len(a.Origins(s.Node.In[1])) > 0:
			folded++
		case norm && !trains:
			idle++
		}
	}
	advice := ". For training export with " + howToExport
	if told || module.Framework(a.Model) != "" {
		advice = ""
	}
	if folded > 0 {
		say(Warning, "this export is for inference: %s absorbed the batch norms behind them, so the sums lack "+
			"parameters and layers%s",
			plural(folded, "convolution"), advice)
	}
	if idle > 0 {
		say(Warning, "this export is for inference: %s in evaluation mode, and dropout, if the model has any, is gone%s",
			plural(idle, "batch norm is", "batch norms are"), advice)
	}
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

// precisionNote says so where the graph's own parameters are of half precision and the run is one in float32.
func (b *Model) precisionNote(s Step) []Note {
	if s.Precision != "" && s.Precision != torch.FP32 {
		return nil
	}
	bytes, all := map[onnxload.DType]int64{}, int64(0)
	for _, w := range b.ownWeights() {
		if w.Role != module.RoleBuffer {
			bytes[b.analysis.Types.Type(w.ID).Elem] += w.Bytes
			all += w.Bytes
		}
	}
	for _, half := range []struct {
		dtype onnxload.DType
		flag  torch.Precision
	}{{onnxload.Float16, torch.FP16}, {onnxload.BFloat16, torch.BF16}} {
		if 2*bytes[half.dtype] > all {
			return []Note{{Warning, fmt.Sprintf("the graph's parameters are %v: this is the run of the model in float32, "+
				"--precision %s is that of the graph as it is", half.dtype, half.flag)}}
		}
	}
	return nil
}

// elsewhere tells what is not known of a device on which nothing was measured.
func elsewhere(d, on gpu.Device) []Note {
	switch {
	case d.Measured:
		return nil
	case d.MemoryOnly && d.Name == d.ID:
		return []Note{{Info, fmt.Sprintf("%s is a size: what the run takes is that on %s", d.ID, on.Name)}}
	case d.MemoryOnly:
		return []Note{{Warning, fmt.Sprintf("of %s the memory alone is known: what the run takes is that on %s", d.Name,
			on.Name)}}
	}
	return []Note{{Info, fmt.Sprintf("the rules were measured on %s: for %q memory, multiprocessors, attention's kernels "+
		"and cuBLAS's workspace are known, context and cuDNN's choices are taken to be alike",
		kernels.Measured.Name, d.Name)}}
}

// infos are notes of what a program or its plan says.
func infos(texts []string) (notes []Note) {
	for _, text := range texts {
		notes = append(notes, Note{Info, text})
	}
	return notes
}

// mib is a size in a sentence.
func mib(bytes int64) string { return fmt.Sprintf("%.2f MiB", float64(bytes)/(1<<20)) }

// inGiB is mib for what may be large.
func inGiB(bytes int64) string {
	if bytes < 1<<30 {
		return mib(bytes)
	}
	return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
}

// searchNotes say what cuDNN's searches for its fastest engines take.
func searchNotes(l *timeline.Log) []Note {
	most := int64(0)
	for _, p := range l.Plans() {
		if p.Plan == timeline.Searching {
			most = max(most, l.Of(p.Block).Bytes)
		}
	}
	if most == 0 {
		return nil
	}
	return []Note{{Warning, fmt.Sprintf("cuDNN searches for its fastest engines (torch.backends.cudnn.benchmark): in the "+
		"first step a convolution takes up to %s for that, as far as the GPU has it free, which decides nothing of whether "+
		"the run fits; which engines it finds is guessed", mib(most))}}
}

// shortNotes say what a run that survives does for lack of memory.
func shortNotes(replay *caching.Result) (notes []Note) {
	if n := replay.Stats.AllocRetries; n > 0 && replay.OOM == nil {
		notes = append(notes, Note{Warning,
			fmt.Sprintf("within the limit the run goes on only because the allocator gives its cached blocks back, %s: it will be slow",
				plural(int(n), "time"))})
	}
	if n := len(replay.Dropped); n > 0 {
		notes = append(notes, Note{Warning,
			fmt.Sprintf("memory is so short that %s not get the workspace of cuDNN's first choice and will be slower",
				plural(n, "kind of convolution does", "kinds of convolutions do"))})
	}
	return notes
}
