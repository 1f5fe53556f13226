package torch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// A training is what a user's training loop holds from one pass to the next, as his variables do.
type training struct {
	values []*tensor
	outs   []*tensor
	labels []*tensor // by head, one for those of one shape
	loss   *tensor   // nil where nothing is trained by one
	scaler *gradScaler
}

// held is what the variables out and loss hold.
func (t *training) held() []*tensor { return append(slices.Clip(t.outs), t.loss) }

// train runs the training loop that most programs have: passes, the optimizer's step, zero_grad.
func (r *run) train(values []*tensor, params []*leaf) error {
	steps := r.opts.Steps
	if steps == 0 {
		steps = 3
	}
	o, err := r.newOptimizer(r.own(params))
	if err != nil {
		return err
	}
	r.heads = headsOf(r.prog, r.opts.Loss)
	r.grad = true
	t := &training{values: values, scaler: new(gradScaler)}
	var end moment // of the step before
	for r.step = 1; int(r.step) <= steps; r.step++ {
		for pass := range max(r.opts.Accumulate, 1) {
			if more, err := r.pass(t, r.step == 1 && pass == 0); err != nil || !more {
				return err
			}
		}
		scaled := t.scaler
		if !r.opts.Scaler || t.loss == nil {
			scaled = nil
		}
		if err := r.endStep(o, params, scaled); err != nil {
			return err
		}
		if !o.changes(steps) && r.restRepeats(&end, steps, append(t.held(), r.heldByGraph()...)) {
			return nil
		}
	}
	return nil
}

// pass is one forward and backward pass: the whole of a step, or one of those whose gradients it accumulates. There is
// no more of a run which its first forward pass shows to be like an earlier one.
func (r *run) pass(t *training, first bool) (more bool, err error) {
	r.begin(timeline.Forward)
	r.enterAutocast()
	r.beforeForward(t.values)
	if err := r.forward(t.values); err != nil {
		return false, err
	}
	old := t.outs
	t.outs = r.takeOutputs(t.values)
	for i := range t.outs {
		t.outs[i] = r.sink(t.outs[i])
	}
	if len(t.outs) == 0 || t.outs[0] == nil {
		return false, fmt.Errorf("the model has no output")
	}
	if r.isLike() {
		return false, nil
	}
	r.releaseAll(old)
	if err := r.computeLoss(t, first); err != nil {
		return false, err
	}
	r.exitAutocast()
	if t.loss == nil {
		return true, nil
	}
	return true, r.backward(t)
}

// computeLoss replaces the loss of the pass before by that of this one's outputs.
func (r *run) computeLoss(t *training, first bool) (err error) {
	r.begin(timeline.Loss)
	if first {
		if t.labels, err = r.targets(t.outs); err != nil {
			return err
		}
	}
	loss, err := r.sumOfLosses(t.outs, t.labels)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return fmt.Errorf("loss: %w", err)
	}
	if loss != nil && loss.fn == nil {
		return r.noGradient()
	}
	r.release(t.loss)
	t.loss = loss
	r.forgetHooked()
	if r.opts.DropOutput {
		r.releaseAll(t.outs)
		t.outs = nil
	}
	if loss != nil && r.saved == 0 && !r.opts.Brief {
		r.saved, r.savedBy = r.savedBytes(loss, r.prog.Origins)
	}
	return nil
}

// backward is loss.backward(), of the loss as torch.amp.GradScaler scales it where there is one.
func (r *run) backward(t *training) error {
	r.begin(timeline.Backward)
	loss := t.loss
	if r.opts.Scaler {
		scaled, err := r.scaled(t.scaler, loss)
		if err != nil {
			return err
		}
		loss = scaled
	}
	r.runBackward(loss)
	if r.err != nil {
		return fmt.Errorf("backward: %w", r.err)
	}
	if r.opts.Scaler {
		r.release(loss)
	}
	return nil
}

// endStep is optimizer.step() and zero_grad(), with what comes before where it is asked for: unscaling the gradients of
// a scaled loss, and clip_grad_norm_. The scaler is nil where nothing was scaled.
func (r *run) endStep(o *optimizer, params []*leaf, scaler *gradScaler) error {
	r.begin(timeline.Optimizer)
	if scaler != nil {
		r.unscale(scaler)
	}
	if r.opts.ClipNorm {
		r.clipNorm(params)
	}
	r.stepOptimizer(o)
	if scaler != nil {
		r.update(scaler)
	}
	r.begin(timeline.Finish)
	r.zeroGrad(params)
	if r.err != nil {
		return fmt.Errorf("optimizer: %w", r.err)
	}
	r.recycle()
	r.forgetGone()
	return nil
}

// A NoGradientError says why a loss cannot be differentiated, so that there is nothing to train.
type NoGradientError struct{ why string }

// Error names the loss, and why nothing would have a gradient.
func (e *NoGradientError) Error() string { return e.why }

// noGradient says why a loss cannot be differentiated.
func (r *run) noGradient() error {
	v := &r.prog.Values[r.prog.Outputs[0]]
	if !v.DType.IsFloat() {
		return &NoGradientError{fmt.Sprintf("loss: output %q is of %s, which has no gradient: the first "+
			"output must be of floats", v.Name, v.DType)}
	}
	return &NoGradientError{fmt.Sprintf("loss: output %q depends on no parameter through operators that have a gradient",
		v.Name)}
}

// savedBytes adds up the storages that the graph behind a loss keeps, parameters and buffers left
// out, in all and for each of n nodes of the program.
func (r *run) savedBytes(loss *tensor, n int) (sum int64, by []int64) {
	by = make([]int64, n)
	if loss.fn == nil {
		return 0, by
	}
	r.passes++
	loss.fn.mark = r.passes
	nodes := make([]*node, 0, r.seq) // those that save something
	work := append(r.work[:0], loss.fn)
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if len(n.saved) > 0 || n.packed != nil {
			nodes = append(nodes, n)
		}
		for _, e := range n.next {
			if e.fn != nil && e.fn.mark != r.passes && e.fn.leaf == nil {
				e.fn.mark = r.passes
				work = append(work, e.fn)
			}
		}
	}
	r.work = work
	slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.seq, b.seq) })
	for _, n := range nodes {
		add := func(s *storage) {
			if s.state || s.counted {
				return
			}
			s.counted = true
			sum += s.bytes
			if n.call >= 0 {
				by[n.call] += s.bytes
			}
		}
		for _, s := range n.saved {
			add(s)
		}
		if n.packed != nil {
			for _, t := range n.packed.in.inputs {
				if !t.host {
					add(t.st)
				}
			}
		}
	}
	return sum, by
}
