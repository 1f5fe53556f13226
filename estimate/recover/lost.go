package recover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// noteExport says what the export lost of the model, as far as the graph shows it.
func (b *recovery) noteExport() {
	say := func(format string, args ...any) { b.prog.Notes = append(b.prog.Notes, fmt.Sprintf(format, args...)) }
	lost := func(format string, args ...any) { b.prog.Lost = append(b.prog.Lost, fmt.Sprintf(format, args...)) }
	if b.folded > 0 {
		lost("%d batch norms, which are restored", b.folded)
		say("batch norms that an export in evaluation mode folded into convolutions: %d; they are restored here", b.folded)
	}
	if n, size := b.merged(); n > 0 {
		lost("copies of %d parameters of equal values, %.2f MiB and as much for each gradient and optimizer state", n, size)
		say("parameters that several modules read, as the exporter merged tensors of equal values: %d; so %.2f MiB of "+
			"parameters are missing, with their gradients and optimizer states; export weights that were trained", n, size)
	}
	if t := b.src.Tied; t != nil {
		lost("whether the last layer is the table of embeddings, %.2f MiB", b.mib(t.Head))
		say("weight %q is taken for a copy of %q that folding of constants transposed, as transformers ties the last layer "+
			"to the embeddings unless a model says otherwise: both are counted as one; if they are two tensors, %.2f MiB of "+
			"parameters are missing, with their gradients and optimizer states; to know export with do_constant_folding=False",
			b.m.NameOf(t.Head), b.m.NameOf(t.Table), b.mib(t.Head))
	}
	for _, t := range b.copies() {
		lost("whether weight %q is %q, %.2f MiB", b.m.NameOf(t[0]), b.m.NameOf(t[1]), b.mib(t[0]))
		say("weight %q has the transposed shape of %q: if the model shares one tensor for both, folding of constants made "+
			"two of it, and %.2f MiB of parameters are too much, with their gradients and optimizer states; export with "+
			"do_constant_folding=False", b.m.NameOf(t[0]), b.m.NameOf(t[1]), b.mib(t[0]))
	}
	if n := b.idleMasks(); n > 0 {
		say("attentions whose mask depends on no input: %d; libraries build such masks for an export and pass none in a "+
			"run, where attention may then save other tensors", n)
	}
	if b.src.Train && slices.ContainsFunc(b.prog.Lines, ofReentrant) {
		say("the program checkpoints with use_reentrant=True, which is taken for use_reentrant=False: a recording has it as it is")
	}
	switch {
	case b.src.Train:
	case b.prog.Traced():
		say("which variables of the program keep activations is taken from the lines of its source that the exporter " +
			"wrote into the file")
	default:
		say("which variables of the program keep activations is guessed by the common style of code: a graph has none, and " +
			"the peak of an inference may be a tensor or two off")
	}
	for i, n := range b.nodes {
		if !b.src.Train && b.facts[i].Has(module.Quantized) {
			say("the graph computes in integers by its own nodes (%s): the run keeps their results as the graph has them, "+
				"PyTorch's quantized modules would keep others", n.Op)
			break
		}
	}
	b.noteDropout(say, lost)
}

// noteDropout says what is known of dropout in a training whose export is in evaluation mode.
func (b *recovery) noteDropout(say, lost func(format string, args ...any)) {
	if b.src.Train && !b.forTraining() {
		lost("dropout, if the model has any")
		text := "the graph has neither dropout nor stochastic depth: if the model has, be it inside of " +
			"attention, an export in " +
			"evaluation mode left them out, and what they save is not counted"
		if module.Framework(b.m) == "" {
			text += "; export with training=torch.onnx.TrainingMode.TRAINING"
		}
		say("%s", text)
	}
}

// mib is the size of a value in MiB, for a note: an approximation, so that it cannot overflow.
func (b *recovery) mib(v onnxload.ValueID) float64 {
	size := float64(b.elem(v).Bits()) / 8 / (1 << 20)
	for _, d := range b.dims(v) {
		size *= float64(d)
	}
	return size
}

// forTraining reports whether the graph shows that it was made for training: it draws random numbers, or a batch norm
// computes statistics. Whatever else it lacks then, the model does.
func (b *recovery) forTraining() bool {
	for i, n := range b.nodes {
		_, trains := module.BatchNorm(n, b.places[i].Op)
		if trains || b.facts[i].Has(module.Random) {
			return true
		}
	}
	return false
}

// merged counts the parameters that several modules read, none of them inside another, and the MiB of those that each
// would have of its own. PyTorch has modules share a table of embeddings and the weight of the last layer,
// so tables are left out; the rest are tensors of equal values, such as the ones and zeros that weights begin with,
// which the TorchScript exporter (DeduplicateInitializers) and onnxscript's optimizer make one.
func (b *recovery) merged() (n int, size float64) {
	for id, kind := range b.src.Kinds {
		v := onnxload.ValueID(id)
		if kind != program.Parameter || len(b.usesOf(v)) < 2 {
			continue
		}
		if modules := b.readers(v); modules > 1 && b.own[v] == nil {
			n++
			size += float64(modules-1) * b.mib(v)
		}
	}
	return n, size
}

// readers counts the modules that read a parameter, those inside another of them left out; 0 for a table of embeddings.
func (b *recovery) readers(v onnxload.ValueID) int {
	modules := map[string]bool{}
	for _, i := range b.usesOf(v) {
		n := b.nodes[i]
		if n.Op == "Gather" {
			return 0
		}
		if b.isFolded(n) && b.in(n, 1) != v { // the bias that folding made is no parameter
			continue
		}
		modules[b.places[i].Module] = true
	}
	count := 0
	for m := range modules {
		inside := false
		for m != "" && !inside {
			m = m[:max(strings.LastIndexByte(m, '.'), 0)]
			inside = modules[m]
		}
		if !inside {
			count++
		}
	}
	return count
}

// copies finds the weights of products that the TorchScript exporter folded a transpose into, "onnx::MatMul_812", and
// that have the transposed sizes of a table of embeddings. The weight of a last layer that is tied to that table
// becomes a tensor of its own so. A pair is such a weight and the table.
func (b *recovery) copies() (pairs [][2]onnxload.ValueID) {
	tables, seen := map[[2]int64]onnxload.ValueID{}, map[onnxload.ValueID]bool{}
	for _, n := range b.nodes {
		if v := b.in(n, 0); n.Op == "Gather" && b.isParameter(v) && b.made[v] < 0 {
			if d := b.dims(v); len(d) == 2 && d[0] != d[1] {
				tables[[2]int64{d[1], d[0]}] = v
			}
		}
	}
	for _, n := range b.nodes {
		w := b.in(n, 1)
		if n.Op != "MatMul" || !b.isParameter(w) || b.made[w] >= 0 ||
			!strings.HasPrefix(b.m.NameOf(w), "onnx::MatMul_") {
			continue
		}
		d := b.dims(w)
		if len(d) != 2 {
			continue
		}
		if t := b.src.Tied; t != nil && t.Head == w {
			continue
		}
		if table, ok := tables[[2]int64{d[0], d[1]}]; ok && !seen[w] {
			seen[w] = true
			pairs = append(pairs, [2]onnxload.ValueID{w, table})
		}
	}
	return pairs
}

// idleMasks counts the attentions whose mask is computed of neither an input nor a parameter.
func (b *recovery) idleMasks() (n int) {
	alive := make([]bool, len(b.prog.Values)) // an input or a parameter has a part in it
	for i, v := range b.prog.Values {
		alive[i] = v.Kind == program.InputValue || v.Kind == program.Parameter
	}
	for _, c := range b.prog.Calls {
		if program.Of(c.Op).Is(program.Attention) && len(c.In) > 3 && c.In[3] != program.NoValue && !alive[c.In[3]] {
			n++
		}
		live := slices.ContainsFunc(c.In, func(v program.ValueID) bool { return v != program.NoValue && alive[v] })
		for _, v := range c.Out {
			if v != program.NoValue {
				alive[v] = alive[v] || live
			}
		}
	}
	return n
}

func (b *recovery) isFolded(n *onnxload.Node) bool {
	return module.HasFoldedNorm(b.m, n) && b.isParameter(b.in(n, 1))
}

// emitFolded emits a convolution and the batch norm that was folded into it, with the norm's parameters and
// statistics. Whether the convolution had a bias of its own is lost; with a norm behind it, modules leave it out.
func (b *recovery) emitFolded(n *onnxload.Node, op string, args program.Args, in []program.ValueID) {
	b.folded++
	in[1] = b.ownWeight(b.in(n, 1))
	out := b.dims(n.Output(0))
	dtype := b.elem(n.Output(0))
	y := b.temp(op, args, dtype, out, in...)
	b.placeFolded(b.m.NameOf(b.in(n, 1)))
	name := b.places[b.at].Module
	if name == "" {
		name = fmt.Sprintf("folded_%d", b.folded)
	}
	state := func(tail string, kind program.ValueKind, d program.DType, shape ...int64) program.ValueID {
		v := b.add(program.Value{Name: name + ".restored_bn." + tail, Kind: kind, DType: d, Shape: shape})
		b.prog.State = append(b.prog.State, v)
		return v
	}
	c := out[1]
	w, bias := state("weight", program.Parameter, program.Float32, c), state("bias", program.Parameter, program.Float32, c)
	state("running_mean", program.Buffer, program.Float32, c)
	state("running_var", program.Buffer, program.Float32, c)
	b.call("batch_norm", program.Args{Train: b.src.Train}, []program.ValueID{y, w, bias}, n.Output(0))
}

// ownWeight returns the weight of the folded convolution at hand. Where several modules have one that the exporter
// merged, each gets one of its own: folding made a tensor for each, and those before a norm whose weight begins at
// zero, the last of a residual block (zero_init_last in timm), come out alike.
func (b *recovery) ownWeight(id onnxload.ValueID) program.ValueID {
	id = b.id(id)
	module, v := b.places[b.at].Module, b.value(id)
	own := b.own[id]
	if own == nil && (len(b.usesOf(id)) < 2 || b.readers(id) < 2) {
		return v
	}
	if own == nil {
		own = map[string]program.ValueID{module: v}
		b.own[id] = own
	}
	w, ok := own[module]
	if !ok {
		w = b.add(program.Value{Name: module + ".weight", Kind: program.Parameter, DType: b.elem(id), Shape: b.dims(id)})
		b.prog.State = append(b.prog.State, w)
		own[module] = w
	}
	return w
}

// inferenceOnly says by what a graph shows that it was made for inference; "" when nothing does. Its
// training step is not that of the model it came from.
func (b *recovery) inferenceOnly() string {
	var why []string
	say := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(why, s) {
			why = append(why, s)
		}
	}
	for i, n := range b.nodes {
		switch {
		case b.facts[i].Has(module.Quantized):
			say("quantized arithmetic (%s)", n.Op)
		case n.Domain == contribDomain:
			say("operators that ONNX Runtime fused (%s)", n.Op)
		}
		if n.Op == "Concat" && n.Domain == "" && b.isCache(n) {
			say("keys and values of earlier tokens among its inputs")
		}
		if len(why) == 3 {
			break
		}
	}
	return strings.Join(why, ", ")
}

// isCache reports whether a Concat puts something behind an input of the graph, and the whole is a
// result of the graph: so a decoder carries its keys and values from call to call.
func (b *recovery) isCache(n *onnxload.Node) bool {
	first := b.in(n, 0)
	return len(n.In) == 2 && b.isTensor(first) && b.out[b.id(n.Output(0))] && b.elem(first).IsFloat() &&
		len(b.dims(first)) >= 3 && slices.Contains(b.m.Graph.Inputs, first)
}
