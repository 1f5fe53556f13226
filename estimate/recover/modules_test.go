package recover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// An attentionForm is scaled_dot_product_attention as an exporter writes it.
type attentionForm struct {
	mask     string // what is added to the scores
	fixed    bool   // the mask comes from constants
	where    bool   // it is made from booleans
	guard    bool   // NaNs are replaced
	drop     bool
	merged   bool // the key's two transposes are one
	three    bool // the key is transposed in three dimensions
	unscaled bool // the query is not scaled
	groups   bool // keys and values are repeated for groups of heads
}

func (f attentionForm) graph() onnx.Graph {
	g := onnx.Graph{
		In: []onnx.Value{onnx.Float("q", 2, 4, 6, 8), onnx.Float("v", 2, 4, 6, 8)},
		Inits: []onnx.Tensor{recovertest.F32s("s", 0.5), recovertest.F32s("zero", 0), recovertest.F32s("inf", -1e9),
			recovertest.F32s("p", 0.1), onnx.Int64s("three", 8, 6, 8), onnx.Int64s("four", 2, 4, 8, 6)},
		Out: []onnx.Value{onnx.Float("y", 2, 4, 6, 8)},
	}
	do := func(op, in, out string, attrs ...onnx.Attr) {
		g.Nodes = append(g.Nodes, onnx.Op(op, in, out, attrs...))
	}
	key, v := "k", "v"
	switch {
	case f.merged:
		g.In = append(g.In, onnx.Float("k", 2, 6, 4, 8))
		do("Transpose", "k", "kt", onnx.A("perm", []int64{0, 2, 3, 1}))
	case f.three:
		g.In = append(g.In, onnx.Float("k", 2, 4, 6, 8))
		do("Reshape", "k three", "k3")
		do("Transpose", "k3", "k3t", onnx.A("perm", []int64{0, 2, 1}))
		do("Reshape", "k3t four", "kt")
	case f.groups:
		g.In = []onnx.Value{onnx.Float("q", 2, 4, 6, 8), onnx.Float("v", 2, 2, 6, 8), onnx.Float("k", 2, 2, 6, 8)}
		g.Inits = append(g.Inits, onnx.Int64s("axis", 2), onnx.Int64s("five", 2, 2, 2, 6, 8), onnx.Int64s("back", 2, 4, 6, 8))
		for _, x := range []string{"k", "v"} {
			do("Unsqueeze", x+" axis", x+"u")
			do("Expand", x+"u five", x+"e")
			do("Reshape", x+"e back", x+"r")
		}
		key, v = "kr", "vr"
		fallthrough
	default:
		if !f.groups {
			g.In = append(g.In, onnx.Float("k", 2, 4, 6, 8))
		}
		do("Transpose", key, "kt", onnx.A("perm", []int64{0, 1, 3, 2}))
	}
	query := "qs"
	if f.unscaled {
		query = "q"
	} else {
		do("Mul", "q s", "qs")
	}
	do("Mul", "kt s", "ks")
	do("MatMul", query+" ks", "scores")
	at := "scores"
	if f.mask != "" {
		switch {
		case f.fixed:
			g.Inits = append(g.Inits, onnx.Zeros(f.mask, onnxload.Float32, 6, 6))
		case f.where:
			g.In = append(g.In, onnx.Val("keep", onnxload.Bool, 2, 1, 6, 6))
			do("Where", "keep zero inf", f.mask)
		default:
			g.In = append(g.In, onnx.Float(f.mask, 2, 1, 6, 6))
		}
		do("Add", "scores "+f.mask, "masked")
		at = "masked"
	}
	do("Softmax", at, "probs", onnx.A("axis", -1))
	at = "probs"
	if f.guard {
		do("IsNaN", at, "nan")
		do("Where", "nan zero probs", "clean")
		at = "clean"
	}
	if f.drop {
		do("Dropout", at+" p", "dropped")
		at = "dropped"
	}
	do("MatMul", at+" "+v, "y")
	return g
}

// Attention in the forms of the exporters becomes one call again.
func TestAttentionForms(t *testing.T) {
	groups := []string{"reshape(k)", "expand(ku)", "reshape(ke)", "reshape(v)", "expand(vu)", "reshape(ve)"}
	for _, c := range []struct {
		name string
		form attentionForm
		want []string
	}{
		{"plain", attentionForm{}, []string{"sdpa(q, k, v, -)"}},
		{"mask", attentionForm{mask: "m"}, []string{"sdpa(q, k, v, m)"}},
		{"fixed mask", attentionForm{mask: "m", fixed: true}, []string{"sdpa(q, k, v, -)"}},
		{"boolean mask", attentionForm{mask: "m", where: true}, []string{"sdpa(q, k, v, keep)"}},
		{"NaN guard", attentionForm{guard: true}, []string{"sdpa(q, k, v, -)"}},
		{"NaN guard and mask", attentionForm{mask: "m", guard: true}, []string{"sdpa(q, k, v, m)"}},
		{"dropout", attentionForm{drop: true}, []string{"sdpa(q, k, v, -)"}},
		{"merged transposes", attentionForm{merged: true}, []string{"permute(k)", "sdpa(q, _, v, -)"}},
		{"three dimensions", attentionForm{three: true}, []string{"sdpa(q, k, v, -)"}},
		{"groups", attentionForm{groups: true}, append(slices.Clone(groups), "sdpa(q, kr, vr, -)")},
		{"groups and fixed mask", attentionForm{groups: true, mask: "m", fixed: true}, []string{"sdpa(q, k, v, -)"}},
		{"written by hand", attentionForm{unscaled: true}, []string{"permute(k)", "mul(kt, number)", "matmul(q, ks)",
			"softmax(scores)", "matmul(probs, v)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustRecover(t, c.form.graph())
			wantCalls(t, p, c.want...)
			for _, call := range p.Calls {
				if call.Op == "sdpa" && (call.Args.Causal != c.form.fixed || (call.Args.P > 0) != c.form.drop) {
					t.Errorf("causal %v, dropout %v", call.Args.Causal, call.Args.P)
				}
			}
		})
	}
}

// The node of ONNX's attention puts keys and values of earlier tokens before those at hand.
func TestAttentionWithPast(t *testing.T) {
	in := []onnx.Value{onnx.Float("q", 2, 4, 6, 8), onnx.Float("k", 2, 4, 6, 8), onnx.Float("v", 2, 4, 6, 8),
		onnx.Float("pk", 2, 4, 10, 8), onnx.Float("pv", 2, 4, 10, 8)}
	out := []onnx.Value{{Name: "y"}, {Name: "allk"}, {Name: "allv"}}
	p, err := recovertest.RecoveredAt(23, onnx.Graph{In: in, Out: out,
		Nodes: []onnx.Node{onnx.Op("Attention", "q k v - pk pv", "y allk allv")}}, true)
	must.OK(t, err)
	wantCalls(t, p, "cat(pk, k)", "cat(pv, v)", "sdpa(q, _, _, -)")
}

// A key that is itself a transpose leaves no transpose before the product.
func TestAttentionToATransposedKey(t *testing.T) {
	g := attentionForm{}.graph()
	g.In[len(g.In)-1] = onnx.Float("k", 2, 4, 8, 6)
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n onnx.Node) bool { return n.Op == "Transpose" })
	for i := range g.Nodes {
		for j, in := range g.Nodes[i].In {
			if in == "kt" {
				g.Nodes[i].In[j] = "k"
			}
		}
	}
	wantCalls(t, mustRecover(t, g), "permute(k)", "sdpa(q, _, v, -)")
}

// A key of one head that no node repeats goes to attention as it is, without enable_gqa.
func TestAttentionToOneHeadAsItIs(t *testing.T) {
	g := attentionForm{mask: "m", fixed: true}.graph()
	g.In[1], g.In[2] = onnx.Float("v", 2, 1, 6, 8), onnx.Float("k", 2, 1, 6, 8)
	p := mustRecover(t, g)
	wantCalls(t, p, "sdpa(q, k, v, -)")
	if !p.Calls[0].Args.Broadcast {
		t.Error("the call is taken to have enable_gqa")
	}
}

// recurrentGraph is a module of layers as torch.onnx exports it: [T, N, I], a node a layer, the weights stacked.
func recurrentGraph(op string, layers int, both, drop bool) onnx.Graph {
	const hidden = 4
	gates := map[string]int64{"LSTM": 4, "GRU": 3, "RNN": 1}[op]
	dirs, direction := int64(1), "forward"
	if both {
		dirs, direction = 2, "bidirectional"
	}
	g := onnx.Graph{In: []onnx.Value{onnx.Float("x", 5, 2, 4*dirs)},
		Out:   []onnx.Value{onnx.Float("y", 5, 2, hidden*dirs)},
		Inits: []onnx.Tensor{onnx.Int64s("to", 5, 2, -1), recovertest.F32s("p", 0.3)}}
	at := "x"
	for l := range layers {
		w, r, b := fmt.Sprintf("rnn.w%d", l), fmt.Sprintf("rnn.r%d", l), fmt.Sprintf("rnn.b%d", l)
		g.Inits = append(g.Inits, recovertest.Weights(w, dirs, gates*hidden, 4*dirs),
			recovertest.Weights(r, dirs, gates*hidden, hidden), recovertest.Weights(b, dirs, 2*gates*hidden))
		out := fmt.Sprintf("h%d", l)
		g.Nodes = append(g.Nodes, onnx.Op(op, strings.Join([]string{at, w, r, b}, " "), out, onnx.A("hidden_size", hidden),
			onnx.A("direction", direction)),
			onnx.Op("Transpose", out, out+"t", onnx.A("perm", []int64{0, 2, 1, 3})))
		at = out + "r"
		if l == layers-1 {
			at = "y"
		}
		g.Nodes = append(g.Nodes, onnx.Op("Reshape", out+"t to", at))
		if drop && l < layers-1 {
			g.Nodes = append(g.Nodes, onnx.Op("Dropout", at+" p", at+"d"))
			at += "d"
		}
	}
	return g
}

// Recurrent modules of several layers are one call with all weights.
func TestRecurrentModules(t *testing.T) {
	for _, op := range []string{"LSTM", "GRU", "RNN"} {
		for _, layers := range []int{1, 2, 3} {
			for _, both := range []bool{false, true} {
				for _, drop := range []bool{false, true} {
					p := mustRecover(t, recurrentGraph(op, layers, both, drop))
					if len(p.Calls) != 1 || p.Calls[0].Op != strings.ToLower(op) {
						t.Fatalf("%d layers of %s:\n%s", layers, op, recovertest.CallsOf(p))
					}
					a := p.Calls[0].Args
					if a.Layers != int64(layers) || a.Both != both || (a.P > 0) != (drop && layers > 1) || len(p.Flat) != 1 ||
						len(p.Flat[0]) != 3*layers {
						t.Errorf("%d layers of %s, both %v, dropout %v: %+v, weights %v", layers, op, both, drop, a, p.Flat)
					}
				}
			}
		}
	}
	// The final states may be put together after the sequence was read.
	g := recurrentGraph("GRU", 2, false, false)
	g.Nodes[0].Out, g.Nodes[3].Out = append(g.Nodes[0].Out, "s0"), append(g.Nodes[3].Out, "s1")
	g.Nodes = append(g.Nodes, onnx.Op("Sin", "y", "sin"), onnx.Op("Concat", "s0 s1", "s", onnx.A("axis", 0)))
	g.Out = []onnx.Value{{Name: "sin"}, {Name: "s"}}
	wantCalls(t, mustRecover(t, g), "gru(x, -, -, rnn.w0, rnn.r0, rnn.b0, rnn.w1, rnn.r1, rnn.b1)", "sin(y)")
	// Layers of different widths are modules of their own.
	g = recurrentGraph("GRU", 2, false, false)
	g.Nodes[3].Attrs[0].Value = 6
	for i, x := range g.Inits {
		switch x.Name {
		case "rnn.w1":
			g.Inits[i].Dims = []int64{1, 18, 4}
		case "rnn.r1":
			g.Inits[i].Dims = []int64{1, 18, 6}
		case "rnn.b1":
			g.Inits[i].Dims = []int64{1, 36}
		}
	}
	g.Out = []onnx.Value{{Name: "y"}}
	p := mustRecover(t, g)
	wantCalls(t, p, "gru(x, -, -, rnn.w0, rnn.r0, rnn.b0)", "gru(h0r, -, -, rnn.w1, rnn.r1, rnn.b1)")
}

// What ONNX Runtime fused comes apart into the calls of PyTorch.
func TestFusedOperators(t *testing.T) {
	ms := func(op, in, out string, attrs ...onnx.Attr) onnx.Node {
		return onnx.Op(op, in, out, attrs...).Of("com.microsoft")
	}
	inits := []onnx.Tensor{recovertest.Weights("ln.weight", 8), recovertest.Weights("ln.bias", 8),
		recovertest.Weights("fc.bias", 8), recovertest.Weights("skip.table", 2, 4, 8),
		recovertest.Weights("qkv.weight", 8, 24), recovertest.Weights("qkv.bias", 24),
		recovertest.Weights("fc.weight", 8, 8), recovertest.Weights("conv.weight", 3, 4, 1), onnx.Bare("packed.buffer",
			onnxload.Uint8, 5, 1, 16), recovertest.Weights("scales.buffer", 5)}
	runPatterns(t, []patternCase{
		{name: "FastGelu", inits: inits, nodes: []onnx.Node{ms("FastGelu", "x fc.bias", "y")},
			want: []string{"add(x, fc.bias)", "gelu(_)"}},
		{name: "BiasGelu", inits: inits, nodes: []onnx.Node{ms("BiasGelu", "x fc.bias", "y")},
			want: []string{"add(x, fc.bias)", "gelu(_)"}},
		{name: "QuickGelu", nodes: []onnx.Node{ms("QuickGelu", "x", "y")},
			want: []string{"mul(x, number)", "sigmoid(_)", "mul(x, _)"}},
		{name: "Gelu", nodes: []onnx.Node{ms("Gelu", "x", "y")}, want: []string{"gelu(x)"}},
		{name: "SkipLayerNormalization", inits: inits, nodes: []onnx.Node{ms("SkipLayerNormalization",
			"x skip.table ln.weight ln.bias fc.bias", "n - - s"), onnx.Op("Add", "n s", "y")},
			want: []string{"add(x, skip.table)", "add(_, fc.bias)", "layer_norm(_, ln.weight, ln.bias)", "add(n, _)"}},
		{name: "SkipSimplifiedLayerNormalization", inits: inits,
			nodes: []onnx.Node{ms("SkipSimplifiedLayerNormalization", "x skip.table ln.weight", "y")},
			want:  []string{"add(x, skip.table)", "rms_norm(_, ln.weight)"}},
	})
	p := mustRecover(t, patternCase{inits: inits, nodes: []onnx.Node{ms("BiasGelu", "x fc.bias", "y")}}.graph())
	if !strings.Contains(p.InferOnly, "BiasGelu") || len(p.Unknown) > 0 {
		t.Errorf("for inference: %q, unknown: %v", p.InferOnly, p.Unknown)
	}
}

// Quantized arithmetic makes results of its own types, and a graph of it is for inference, as is one that is
// given the keys and values of earlier tokens.
func TestGraphsForInference(t *testing.T) {
	p := mustRecover(t, patternCase{shape: []any{2, 8}, inits: []onnx.Tensor{recovertest.F32s("scale", 0.1),
		onnx.Bare("zero", onnxload.Int8)}, nodes: []onnx.Node{
		onnx.Op("QuantizeLinear", "x scale zero", "q"), onnx.Op("DequantizeLinear", "q scale zero", "y")}}.graph())
	if !strings.Contains(p.InferOnly, "QuantizeLinear") || len(p.Unknown) > 0 {
		t.Errorf("for inference: %q, unknown: %v", p.InferOnly, p.Unknown)
	}
	g := onnx.Graph{In: []onnx.Value{onnx.Float("past", 2, 4, 6, 8), onnx.Float("k", 2, 4, 1, 8)},
		Out:   []onnx.Value{{Name: "y"}, {Name: "present"}},
		Nodes: []onnx.Node{onnx.Op("Concat", "past k", "present", onnx.A("axis", 2)), onnx.Op("Relu", "present", "y")}}
	if p := mustRecover(t, g); !strings.Contains(p.InferOnly, "earlier tokens") {
		t.Errorf("for inference: %q", p.InferOnly)
	}
	g.Out = g.Out[:1]
	if p := mustRecover(t, g); p.InferOnly != "" {
		t.Errorf("for inference: %q", p.InferOnly)
	}
}

// Losses within the graph.
func TestRareOperators(t *testing.T) {
	g := onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 8), onnx.Val("labels", onnxload.Int64, 2)},
		Inits: []onnx.Tensor{recovertest.Weights("fc.weight", 8, 8)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{onnx.Op("MatMul", "x fc.weight", "h"), onnx.Op("SoftmaxCrossEntropyLoss", "h labels", "y")}}
	wantCalls(t, mustRecover(t, g), "linear(x, fc.weight, -)", "log_softmax_typed(h)", "nll_loss(_, labels)")
	g.Nodes[1] = onnx.Op("NegativeLogLikelihoodLoss", "h labels", "y")
	wantCalls(t, mustRecover(t, g), "linear(x, fc.weight, -)", "nll_loss(h, labels)")
	g.Nodes[1] = onnx.Op("NegativeLogLikelihoodLoss", "h labels", "y", onnx.A("reduction", "none"))
	if p := mustRecover(t, g); len(p.Notes) == 0 || !strings.Contains(strings.Join(p.Notes, "\n"), "approximate") {
		t.Errorf("notes %q", p.Notes)
	}
}

// A convolution that pads one side more than the other follows an F.pad.
func TestConvOfUnevenPadding(t *testing.T) {
	conv := func(pads ...int64) patternCase {
		return patternCase{shape: []any{2, 3, 8, 8}, inits: []onnx.Tensor{recovertest.Weights("conv.weight", 4, 3, 3, 3)},
			nodes: []onnx.Node{
				onnx.Op("Conv", "x conv.weight", "y", onnx.A("kernel_shape", []int64{3, 3}), onnx.A("strides", []int64{2, 2}),
					onnx.A("pads", pads))}}
	}
	uneven, even := conv(0, 0, 1, 1), conv(1, 1, 1, 1)
	uneven.name, uneven.want = "uneven", []string{"constant_pad(x)", "conv(_, conv.weight, -)"}
	even.name, even.want = "even", []string{"conv(x, conv.weight, -)"}
	shared := conv(0, 0, 1, 1)
	shared.inits = append(shared.inits, onnx.Int64s("around", 0, 0, 0, 0, 0, 0, 1, 1))
	shared.nodes = append([]onnx.Node{onnx.Op("Pad", "x around", "p"),
		onnx.Op("MaxPool", "p", "m", onnx.A("kernel_shape", []int64{3, 3}), onnx.A("strides", []int64{2, 2}))},
		shared.nodes[0], onnx.Op("Concat", "c m", "y", onnx.A("axis", 1)))
	shared.nodes[2].Out[0] = "c"
	shared.name, shared.want = "padded for a pooling too", []string{"constant_pad(x)", "max_pool(p)",
		"conv(p, conv.weight, -)", "cat(c, m)"}
	runPatterns(t, []patternCase{uneven, even, shared})
}

// Of a recurrent module the final state may be all that is read, and all that a node keeps: _, h = self.gru(x).
func TestFinalStateAlone(t *testing.T) {
	for _, sequence := range []string{"", "h0"} {
		g := recurrentGraph("GRU", 1, false, false)
		g.In = append(g.In, onnx.Float("s", 1, 2, 4))
		gru := onnx.Op("GRU", "x rnn.w0 rnn.r0 rnn.b0 _ s", "h0 s0", onnx.A("hidden_size", 4), onnx.A("direction", "forward"))
		gru.In[4], gru.Out[0] = "", sequence
		g.Nodes = []onnx.Node{gru, onnx.Op("Sin", "s0", "y")}
		g.Out = []onnx.Value{{Name: "y"}}
		p := mustRecover(t, g)
		wantCalls(t, p, "gru(x, s, -, rnn.w0, rnn.r0, rnn.b0)", "sin(s0)")
		if c := p.Calls[0]; len(c.Out) != 2 || c.Out[0] != program.NoValue || c.Out[1] == program.NoValue || len(p.Flat) != 1 {
			t.Errorf("with its sequence called %q: results %v, weights of one block %v", sequence, c.Out, p.Flat)
		}
	}
}

// The initial states of several layers are slices of one value, which the module is given.
func TestInitialStatesOfLayers(t *testing.T) {
	stacked := func() onnx.Graph {
		g := recurrentGraph("GRU", 2, false, false)
		g.In = append(g.In, onnx.Float("s", 2, 2, 4), onnx.Float("other", 1, 2, 4))
		g.Inits = append(g.Inits, onnx.Int64s("0", 0), onnx.Int64s("1", 1), onnx.Int64s("2", 2))
		g.Nodes = append([]onnx.Node{onnx.Op("Slice", "s 0 1 0", "s0"), onnx.Op("Slice", "s 1 2 0", "s1")}, g.Nodes...)
		for i, k := range []int{2, 5} {
			g.Nodes[k].In = append(g.Nodes[k].In, "", fmt.Sprint("s", i))
		}
		g.Out = []onnx.Value{{Name: "y"}}
		return g
	}
	const weights = "rnn.w0, rnn.r0, rnn.b0, rnn.w1, rnn.r1, rnn.b1)"
	wantCalls(t, mustRecover(t, stacked()), "gru(x, s, -, "+weights)
	g := stacked()
	g.Nodes[5].In[5] = "other"
	wantCalls(t, mustRecover(t, g), "gru(x, -, -, "+weights)
	g = stacked()
	g.Nodes[5].In = g.Nodes[5].In[:4]
	wantCalls(t, mustRecover(t, g), "gru(x, -, -, "+weights)
}

// A recurrent layer whose output is used as ONNX has it is a call of its own.
func TestRecurrentLayerAlone(t *testing.T) {
	g := recurrentGraph("LSTM", 1, true, false)
	g.Nodes = append(g.Nodes[:1], onnx.Op("ReduceMax", "h0", "y", onnx.A("keepdims", 0)))
	g.Out = []onnx.Value{{Name: "y"}}
	wantCalls(t, mustRecover(t, g), "lstm(x, -, -, rnn.w0, rnn.r0, rnn.b0)", "reshape(_)", "permute(_)", "amax(h0)")
}
