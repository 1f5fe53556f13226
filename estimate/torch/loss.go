package torch

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Losses are the names that Options.Loss takes. auto is cross entropy where the output looks
// like class scores, the mean of the output otherwise.
var Losses = []string{"auto", "cross-entropy", "nll", "mse", "l1", "smooth-l1", "bce-logits", "mean", "none"}

// LossEnds are those that keep the least of an output and the most.
var LossEnds = []string{"mean", "mse", "bce-logits"}

// lossOf resolves auto: scores of at least two classes make a cross entropy. They are [N, classes] for a sample;
// [N, L, classes] for each token, when a linear layer made them from integer ids, or widened the
// features to a vocabulary, and for each anchor of a detector, when maps of several sizes are joined; and [N, classes,
// H, W] for each place, when the places are the input's and the channels are not, which would be a picture again.
func (r *run) lossOf(out *tensor, id program.ValueID) string {
	if r.opts.Loss != "" && r.opts.Loss != "auto" {
		return r.opts.Loss
	}
	return autoLoss(r.prog, id, out.shape)
}

func autoLoss(p *program.Program, out program.ValueID, shape []int64) string {
	var in *program.Value
	if len(p.Inputs) > 0 {
		in = &p.Values[p.Inputs[0]]
	}
	switch len(shape) {
	case 2:
		if shape[1] > 1 {
			return "cross-entropy"
		}
	case 3:
		if w := lastLinear(p, out); in != nil && w != nil && shape[2] > 1 && (in.DType.IsInt() || w[0] >= 2*w[1]) {
			return "cross-entropy"
		}
		if in != nil && len(in.Shape) == 4 && shape[2] > 1 && joinsMaps(p, out) {
			return "cross-entropy"
		}
	case 4, 5:
		if in != nil && len(in.Shape) == len(shape) && shape[1] > 1 && slices.Equal(in.Shape[2:], shape[2:]) &&
			in.Shape[1] != shape[1] {
			return "cross-entropy"
		}
	}
	return "mean"
}

// joinsMaps reports whether the places of several maps, which convolutions made, are joined to an output, as a
// detector's heads join their predictions.
func joinsMaps(p *program.Program, out program.ValueID) bool {
	made := make(map[program.ValueID]*program.Call, len(p.Calls))
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			made[v] = &p.Calls[i]
		}
	}
	behindViews := func(v program.ValueID) *program.Call {
		for c := made[v]; c != nil; c = made[c.In[0]] {
			if !program.Of(c.Op).Is(program.Same) {
				return c
			}
		}
		return nil
	}
	c := behindViews(out)
	for c != nil && c.Op == "cat" && c.Args.Dim != 1 { // classes beside boxes
		c = behindViews(c.In[0])
	}
	if c == nil || c.Op != "cat" || len(c.In) < 2 {
		return false
	}
	return !slices.ContainsFunc(c.In, func(v program.ValueID) bool {
		m := behindViews(v)
		return m == nil || m.Op != "conv"
	})
}

// lastLinear returns the sizes, out and in, of the linear layer that makes an output, nil when another
// operator does.
func lastLinear(p *program.Program, v program.ValueID) []int64 {
	for i := len(p.Calls) - 1; i >= 0; i-- {
		c := &p.Calls[i]
		if !slices.Contains(c.Out, v) {
			continue
		}
		switch o := program.Of(c.Op); {
		// tanh(x / c) * c caps the logits of Gemma 2; a layer with an adapter adds its part and casts.
		case o.Is(program.Same | program.Picks), c.Op == "add", c.Op == "mul", c.Op == "div", c.Op == "tanh":
			v = c.In[0]
			if p.Values[v].Kind != program.Activation && len(c.In) > 1 {
				v = c.In[1]
			}
		case o.Is(program.Joins): // of tokens that a decoder makes one by one
			if len(c.In) == 0 || c.Args.Dim == len(p.Values[v].Shape)-1 {
				return nil
			}
			v = c.In[0]
		case c.Op == "linear":
			return p.Values[c.In[1]].Shape
		case c.Op == "conv": // the linear layer of each place, when it sees that place alone
			w := p.Values[c.In[1]].Shape
			if len(w) < 3 || program.Numel(w) != w[0]*w[1] {
				return nil
			}
			return w[:2]
		case c.Op == "addmm":
			w := p.Values[c.In[2]].Shape // [in, out]
			return []int64{w[1], w[0]}
		case c.Op == "matmul":
			w := p.Values[c.In[1]].Shape
			if len(w) != 2 {
				return nil
			}
			return []int64{w[1], w[0]}
		default:
			return nil
		}
	}
	return nil
}

// labels makes the targets that a loss needs on the GPU: class numbers, or values like the
// output's. nil where it needs none.
func (r *run) labels(loss string, out *tensor) *tensor {
	var t *tensor
	switch loss {
	case "cross-entropy", "nll":
		shape := []int64{out.shape[0]}
		switch {
		case len(out.shape) == 3:
			shape = out.shape[:2]
		case len(out.shape) > 3:
			shape = append(shape, out.shape[2:]...)
		}
		t = r.empty(program.Int64, shape...)
	case "mse", "l1", "smooth-l1", "bce-logits":
		t = r.empty(out.dtype, out.shape...)
	default:
		return nil
	}
	r.recategorize(t.st, timeline.Input)
	return t
}

// loss runs the criterion on the output.
func (r *run) loss(name string, out, labels *tensor) (*tensor, error) {
	switch name {
	case "cross-entropy":
		return r.crossEntropy(out, labels), nil
	case "nll":
		return r.nll(out, labels), nil
	case "mse", "smooth-l1":
		return r.pointwiseLoss("MseLoss", out, labels), nil
	case "l1": // under autocast both are cast
		x := r.inFloat32(out)
		d := runSub(r, program.PlainCall, []*tensor{x, labels})[0]
		r.release(x)
		a := unary("Abs", keepsInput, 2)(r, program.PlainCall, one(d))[0]
		m := r.mean(a, nil, false)
		r.release(d)
		r.release(a)
		return m, nil
	case "bce-logits":
		return r.bceLogits(out, labels), nil
	case "mean":
		f := r.to(out, program.Float32)
		m := r.mean(f, nil, false)
		r.release(f)
		return m, nil
	case "none":
		return nil, nil
	}
	return nil, fmt.Errorf("unknown loss %q", name)
}

// inFloat32 is what autocast makes of a criterion's argument: its cast to float32, or the argument itself.
func (r *run) inFloat32(x *tensor) *tensor {
	if r.amp != nil && x.dtype.Bits() == 16 {
		return r.to(x, program.Float32)
	}
	return x.retain()
}

// crossEntropy is F.cross_entropy of [N, C], [N, L, C] flattened to rows, or [N, C, spatial...]:
// log_softmax, whose result is saved, then nll_loss. Under autocast log_softmax keeps the
// logits' type, because F.cross_entropy names it, and nll_loss casts to float32
// (aten/src/ATen/native/LossNLL.cpp).
func (r *run) crossEntropy(out, labels *tensor) *tensor {
	x, y := out.retain(), labels.retain()
	if len(out.shape) == 3 {
		rows := out.shape[0] * out.shape[1]
		fx, fy := r.reshape(x, []int64{rows, out.shape[2]}), r.reshape(y, []int64{rows})
		r.release(x)
		r.release(y)
		x, y = fx, fy
	}
	logp := r.softmax("LogSoftmax", x, x.dtype)
	l := r.nll(logp, y)
	for _, t := range []*tensor{logp, x, y} {
		r.release(t)
	}
	return l
}

// nll is nll_loss, of any number of dimensions: a scalar loss and a scalar weight sum. Its
// gradient is a zero tensor of the log-probabilities' size that is filled at the targets.
func (r *run) nll(logp, labels *tensor) *tensor {
	x := r.inFloat32(logp)
	l, weight := r.empty(x.dtype), r.empty(x.dtype)
	if r.needsGrad(x) {
		xc := *x
		r.record("NllLoss", one(l), one(x), []*tensor{x, labels, weight}, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.strided(xc.dtype, xc.shape, kernels.RowMajor(xc.shape)))
		})
	}
	r.release(weight)
	r.release(x)
	return l
}

// pointwiseLoss is mse_loss or smooth_l1_loss: the loss is first written into a tensor of
// the output's size, then averaged into the result, whose storage was made for that
// size too and keeps it (the structured kernels' meta functions in BinaryOps.cpp).
func (r *run) pointwiseLoss(name string, out, labels *tensor) *tensor {
	x := r.inFloat32(out)
	l, buf := r.pointwise(x.dtype, x), r.pointwise(x.dtype, x)
	l.layout = noDims
	r.reduceScratch(buf, allDims(buf))
	r.release(buf)
	if r.needsGrad(x) {
		xc := *x
		r.record(name, one(l), one(x), []*tensor{x, labels}, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.pointwise(xc.dtype, &xc))
		})
	}
	r.release(x)
	return l
}

// bceLogits is binary_cross_entropy_with_logits: log_sigmoid(input) and (1 - target) * input - that.
func (r *run) bceLogits(out, labels *tensor) *tensor {
	x := r.inFloat32(out)
	a, b := r.pointwise(x.dtype, x), r.pointwise(x.dtype, x)
	l := r.reduce(b, nil, false, x.dtype)
	r.release(b)
	r.release(a)
	if r.needsGrad(x) {
		xc := *x
		r.record("BinaryCrossEntropyWithLogits", one(l), one(x), []*tensor{x, labels},
			func(r *run, n *node, g []*tensor) []*tensor {
				return one(r.pointwise(xc.dtype, &xc))
			})
	}
	r.release(x)
	return l
}
