package recover

import (
	"math"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// A pattern is a group of ONNX nodes that one PyTorch operator was exported to. match
// is tried at every node of the anchor's operator, and claims the nodes of the group.
type pattern struct {
	anchor string
	match  func(b *recovery, i int)
}

// patterns are tried in this order: the larger before those that they contain.
var patterns = []pattern{
	{"LSTM", matchRNN("lstm")},
	{"GRU", matchRNN("gru")},
	{"RNN", matchRNN("rnn")},
	{"SplitToSequence", matchSplitSequence},
	{"SequenceInsert", matchTensorSplit},
	{"Concat", matchRoll},
	{"Concat", matchComplexMul},
	{"GatherND", matchIndex},
	{"Slice", matchChunk},
	{"Sub", matchPlaces},
	{"ScatterND", matchUnpool},
	{"DFT", matchFFT},
	{"InstanceNormalization", matchGroupNorm},
	{"Softmax", matchSDPA},
	{"Softmax", matchSoftmaxFloat},
	{"Erf", matchGelu},
	{"Tanh", matchTanhGelu},
	{"Softplus", matchMish},
	{"ReduceMean", matchLayerNorm},
	{"ReduceMean", matchRMSNorm},
	{"ReduceL2", matchWeightNorm},
	{"Sqrt", matchRsqrt},
	{"Elu", matchElu},
	{"Sigmoid", matchSilu},
	{"Sigmoid", matchGlu},
	{"Div", matchVariance},
	{"ReduceMean", matchPopulation},
	{"MatMul", matchLinear},
	{"RandomUniformLike", matchNoise},
	{"RandomUniform", matchNoise},
	{"Bernoulli", matchNoise},
}

// matchGelu finds x * 0.5 * (1 + erf(x / sqrt 2)) in the orders that exporters write. PyTorch's write (x * (1 + erf)) *
// 0.5 alone (gelu in symbolic_opset9.py of torch.onnx, aten_gelu of torch_lib), so that any other order in a file of
// theirs is a program's own, each step of which keeps what it reads.
func matchGelu(b *recovery, i int) {
	erf := b.nodes[i]
	div, di := b.producer(b.in(erf, 0))
	if div == nil || div.Op != "Div" && div.Op != "Mul" {
		return
	}
	x := b.in(div, 0)
	if !b.isNumber(b.in(div, 1), math.Sqrt2) && !b.isNumber(b.in(div, 1), 1/math.Sqrt2) {
		return
	}
	add, ai := b.user(erf.Output(0), "Add")
	if add == nil || !b.isNumber(b.other(add, erf.Output(0)), 1) {
		return
	}
	mul, mi := b.user(add.Output(0), "Mul")
	if mul == nil {
		return
	}
	members := []int{di, i, ai, mi}
	last := mul
	if o := b.other(mul, add.Output(0)); b.id(o) == b.id(x) { // (x * (1+erf)) * 0.5
		half, hi := b.user(mul.Output(0), "Mul")
		if half == nil || !b.isNumber(b.other(half, mul.Output(0)), 0.5) {
			return
		}
		members, last = append(members, hi), half
	} else if b.byPyTorch() {
		return
	} else if half, hi := b.producedBy(o, "Mul"); half != nil &&
		(b.in(half, 0) == b.id(x) || b.in(half, 1) == b.id(x)) { // (x * 0.5) * (1+erf)
		members = append(members, hi)
	} else if b.isNumber(o, 0.5) { // x * ((1+erf) * 0.5)
		outer, oi := b.user(mul.Output(0), "Mul")
		if outer == nil || b.id(b.other(outer, mul.Output(0))) != b.id(x) {
			return
		}
		members, last = append(members, oi), outer
	} else {
		return
	}
	b.claim(func() { b.call("gelu", program.Args{}, []program.ValueID{b.value(x)}, last.Output(0)) }, members...)
}

// byPyTorch reports whether one of PyTorch's exporters wrote the file.
func (b *recovery) byPyTorch() bool { return b.m.Producer == "pytorch" }

// selfGated reports whether a product of x and a gate, a function of x, may be taken for one call. In PyTorch's
// exporters x comes first (silu and mish in symbolic_opset9.py): in a file of theirs the other order is a program's
// own. So is a gate that has a call's name: torch.export names a value after the call that makes it, sigmoid_3, and
// val_12 what stands within the silu that it takes apart.
func (b *recovery) selfGated(mul *onnxload.Node, x, gate onnxload.ValueID) bool {
	name, _, _ := strings.Cut(b.m.Values[gate].Name, "_")
	if b.byPyTorch() && (b.in(mul, 0) != x || name == "sigmoid" || name == "tanh") {
		return false
	}
	return b.guess(selfGated)
}

// matchSilu finds x * sigmoid(x).
func matchSilu(b *recovery, i int) {
	s := b.nodes[i]
	x := b.in(s, 0)
	mul, mi := b.user(s.Output(0), "Mul")
	if mul == nil || b.id(b.other(mul, s.Output(0))) != x || !b.selfGated(mul, x, s.Output(0)) {
		return
	}
	b.claim(func() {
		b.call("silu", program.Args{Inplace: b.inPlaceAfter(x, 2)}, []program.ValueID{b.value(x)}, mul.Output(0))
	}, i, mi)
}

// matchLinear finds x @ W, with W a parameter or the transpose of one, and the bias added to it.
func matchLinear(b *recovery, i int) {
	mm := b.nodes[i]
	x, w := b.in(mm, 0), b.in(mm, 1)
	members := []int{i}
	weight := func() program.ValueID { return b.transposed(w) }
	if t, ti := b.producer(w); t != nil && t.Op == "Transpose" && b.isParameter(b.in(t, 0)) && len(b.dims(w)) == 2 {
		p := b.in(t, 0)
		weight = func() program.ValueID { return b.value(p) }
		if b.single(w) {
			members = append(members, ti)
		}
	} else if !b.isParameter(w) || len(b.dims(w)) != 2 || !b.onlyWeight(w) {
		return
	}
	if t := b.src.Tied; t != nil && t.Head == w {
		weight = func() program.ValueID { // one tensor with two names
			b.of[w] = b.value(t.Table)
			return b.of[w]
		}
	}
	out := mm.Output(0)
	bias := onnxload.NoValue
	if add, ai := b.user(out, "Add"); add != nil {
		o := b.other(add, out)
		if d := b.dims(o); b.id(o) != onnxload.NoValue && !b.host[b.id(o)] && len(d) == 1 && d[0] == b.dims(w)[1] {
			bias, out = o, add.Output(0)
			members = append(members, ai)
		}
	}
	b.claim(func() { b.call("linear", program.Args{}, []program.ValueID{b.value(x), weight(), b.value(bias)}, out) }, members...)
}

// onlyWeight reports whether a parameter is read as a matrix that something is multiplied by, and
// never otherwise: then it may be kept as its transpose.
func (b *recovery) onlyWeight(w onnxload.ValueID) bool {
	only, known := b.weights[w]
	if !known { // asked by each of the nodes that read it
		only = !b.out[w] && !slices.ContainsFunc(b.usesOf(w), func(u int32) bool {
			n := b.nodes[u]
			return n.Op != "MatMul" || n.Domain != "" || b.in(n, 0) == w
		})
		b.weights[w] = only
	}
	return only
}

// maxParts is the most parts that a split is followed into.
const maxParts = 1 << 12

// matchSplitSequence finds a split whose parts torch.export takes out of a sequence one by one.
func matchSplitSequence(b *recovery, i int) {
	split := b.nodes[i]
	seq := b.id(split.Output(0))
	x := b.in(split, 0)
	members := []int{i}
	parts := map[int64][]onnxload.ValueID{}
	for _, u := range b.usesOf(seq) {
		at := b.nodes[u]
		k, ok := b.number(b.in(at, 1))
		if out := at.Output(0); at.Op != "SequenceAt" || !ok || k < 0 || out == onnxload.NoValue ||
			len(b.dims(out)) != len(b.dims(x)) { // without keepdims a part has lost the dimension
			return
		}
		parts[int64(k)] = append(parts[int64(k)], at.Output(0))
		members = append(members, int(u))
	}
	rank := len(b.dims(x))
	if len(members) == 1 || b.out[seq] || rank == 0 {
		return
	}
	a := b.axis(split, 0, rank)
	total, size := b.dims(x)[a], int64(0)
	for _, outs := range parts {
		size = max(size, b.dims(outs[0])[a])
	}
	sizes := b.splitSizes(split, total)
	if size <= 0 {
		return
	}
	args := program.Args{Dim: a}
	var outs []onnxload.ValueID
	if total/size > maxParts {
		return
	}
	for k, left := int64(0), total; left > 0; k, left = k+1, left-size {
		if k < int64(len(sizes)) {
			size = sizes[k]
		}
		args.Shape = append(args.Shape, min(size, left))
		out := onnxload.NoValue
		if p := parts[k]; p != nil {
			out = p[0]
			for _, same := range p[1:] {
				b.same[same] = out
			}
		}
		outs = append(outs, out)
	}
	b.claim(func() { b.call("split", args, []program.ValueID{b.value(x)}, outs...) }, i)
	for _, k := range members {
		b.done[k] = true
	}
}

// splitSizes returns the sizes of the parts of a SplitToSequence that lists them, nil where it has one for all.
func (b *recovery) splitSizes(split *onnxload.Node, total int64) []int64 {
	list := b.in(split, 1)
	if list == onnxload.NoValue || len(b.dims(list)) != 1 {
		return nil
	}
	c := b.types.Value(list)
	if c == nil || len(c.Ints) > maxParts {
		return nil
	}
	var sizes []int64
	for _, d := range c.Ints {
		n, ok := d.Int()
		if !ok || n <= 0 || n > total {
			return nil
		}
		sizes = append(sizes, n)
		total -= n
	}
	if total != 0 {
		return nil
	}
	return sizes
}

// matchRsqrt finds 1/sqrt(x).
func matchRsqrt(b *recovery, i int) {
	x := b.in(b.nodes[i], 0)
	if out, ri := b.reciprocalOf(b.nodes[i].Output(0)); out != onnxload.NoValue {
		b.claim(func() { b.call("rsqrt", program.Args{}, []program.ValueID{b.value(x)}, out) }, i, ri)
	}
}

// reciprocalOf returns 1/v and its node, when nothing else reads v.
func (b *recovery) reciprocalOf(v onnxload.ValueID) (onnxload.ValueID, int) {
	if n, i := b.user(v, "Reciprocal"); n != nil {
		return n.Output(0), i
	}
	if n, i := b.user(v, "Div"); n != nil && b.isNumber(b.in(n, 0), 1) {
		return n.Output(0), i
	}
	return onnxload.NoValue, -1
}

// vector returns a parameter that an export folded into [C, 1, 1], as the module keeps it, [C]. One that was merged
// with a parameter of those dimensions, which other nodes read, stays as it is.
func (b *recovery) vector(id onnxload.ValueID) program.ValueID {
	v := b.value(id)
	if v == program.NoValue || b.prog.Values[v].Kind != program.Parameter {
		return v
	}
	shape := []int64{program.Numel(b.dims(id))}
	read := func(u int32) bool {
		return !b.done[u] && !b.facts[u].Has(module.View) && !b.facts[u].Has(module.Prepares)
	}
	if len(b.dims(id)) > 1 && slices.ContainsFunc(b.usesOf(b.id(id)), read) {
		return b.temp("reshape", program.Args{Shape: shape}, b.elem(id), shape, v)
	}
	b.prog.Values[v].Shape = shape
	return v
}

// parameterBehind returns the parameter that a value is a reshape of, or a cast to the type that it has.
func (b *recovery) parameterBehind(id onnxload.ValueID) onnxload.ValueID {
	for range 4 {
		id = b.id(id)
		if b.isParameter(id) {
			return id
		}
		n, _ := b.producer(id)
		if n == nil || n.Op != "Unsqueeze" && n.Op != "Reshape" && n.Op != "CastLike" {
			break
		}
		id = b.in(n, 0)
	}
	return onnxload.NoValue
}

// matchChunk finds the slices that a split or chunk was exported to: they take one dimension apart without a
// rest, and the last one ends at a number that was computed, where Python's x[a:] ends at the largest integer.
func matchChunk(b *recovery, i int) {
	x := b.in(b.nodes[i], 0)
	var outs []onnxload.ValueID
	var members []int
	args := program.Args{Dim: -1}
	at := int64(0)
	shape := b.dims(x)
	for _, u := range b.usesOf(x) {
		n := b.nodes[u]
		if n.Op != "Slice" || b.done[u] || b.places[u].Module != b.places[i].Module {
			continue
		}
		if len(members) == 0 && int(u) != i {
			return // was tried from its first slice, in vain
		}
		start, ok1 := b.number(b.in(n, 1))
		end, ok2 := b.number(b.in(n, 2))
		axis, ok3 := b.number(b.in(n, 3))
		if step, ok := b.number(b.in(n, 4)); !ok1 || !ok2 || !ok3 || ok && step != 1 {
			return
		}
		d := int(axis)
		if d < 0 {
			d += len(shape)
		}
		if d < 0 || d >= len(shape) || args.Dim >= 0 && d != args.Dim || int64(start) != at || int64(end) > shape[d] {
			return
		}
		args.Dim, at = d, int64(end)
		args.Shape = append(args.Shape, b.dims(n.Output(0))[d])
		outs = append(outs, n.Output(0))
		members = append(members, int(u))
	}
	if len(outs) < 2 || args.Dim < 0 || at != shape[args.Dim] {
		return
	}
	b.claim(func() { b.call("split", args, []program.ValueID{b.value(x)}, outs...) }, members[0])
	for _, k := range members {
		b.done[k] = true
	}
}
