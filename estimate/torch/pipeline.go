package torch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Pipeline says that the program is one stage of a model that several GPUs run one after the other:
// torch.distributed.pipelining. The zero value is the whole model.
type Pipeline struct {
	Stages, Stage int  // how many there are, and which is run; below 2 there is no pipeline
	Microbatches  int  // forward and backward passes of a step
	FillDrain     bool // ScheduleGPipe: all forward passes come before the first backward pass; else Schedule1F1B
}

func (p Pipeline) first() bool { return p.Stage == 0 }
func (p Pipeline) last() bool  { return p.Stage == p.Stages-1 }

// warmup is how many forward passes come before the first backward pass (_step_microbatches of schedules.py).
func (p Pipeline) warmup() int {
	if p.FillDrain {
		return p.Microbatches
	}
	return min(p.Microbatches, p.Stages-p.Stage)
}

// A stage is what PipelineStage and its schedule keep (torch/distributed/pipelining/stage.py, schedules.py).
type stage struct {
	Pipeline
	received []*leaf   // by microbatch: args_recv_info, the input that the stage before sends
	grads    []*tensor // by microbatch: grad_recv_info, the gradient of the output that the stage behind sends
	outs     []*tensor // by microbatch: fwd_cache, what is sent on; of the last stage its losses' graphs hang on it
	losses   []*tensor // by microbatch: _internal_losses
	chunks   []*tensor // output_chunks of the last stage
	labels   *tensor   // of a microbatch, for the last stage
	merged   *tensor   // what step() returned before
	sent     []*tensor // gradients of inputs on their way to the stage before
}

// pipe is a training loop around schedule.step(x, target=labels).
func (r *run) pipe(values []*tensor, params []*leaf, steps int, o *optimizer) error {
	s := &stage{Pipeline: r.opts.Pipeline}
	var end moment       // of the step before
	var first *firstPass // of the first step, which the second one's is made of
	for r.step = 1; int(r.step) <= steps; r.step++ {
		r.begin(timeline.Forward)
		r.releaseAll(s.chunks) // clear_runtime_states
		s.chunks = s.chunks[:0]
		if r.step == 1 {
			if err := r.initializeStage(s, values); err != nil {
				return err
			}
		}
		if first != nil {
			held := first.again(r, params, false)
			s.chunks, s.merged, first = held[:len(held)-1], held[len(held)-1], nil
		} else {
			r.watched = r.watch()
			if err := r.microbatches(s, values); err != nil {
				return err
			}
			watched := r.watched
			if r.watched = nil; watched != nil && watched.end(r, params, s.held()) {
				first, r.copied = watched, true
			}
		}
		if err := r.endStep(o, params, nil); err != nil {
			return err
		}
		if !o.changes(steps) && r.restRepeats(&end, steps, s.held()) {
			return nil
		}
	}
	return nil
}

// held is what lives from step to step.
func (s *stage) held() []*tensor { return append(slices.Clip(s.chunks), s.merged) }

// microbatches are the passes of a step (_step_microbatches).
func (r *run) microbatches(s *stage, values []*tensor) error {
	for f, b := 0, 0; b < s.Microbatches; {
		if f < s.Microbatches && f-b < s.warmup() {
			if err := r.forwardChunk(s, values, f); err != nil {
				return err
			}
			f++
			continue
		}
		if err := r.backwardChunk(s, b); err != nil {
			return err
		}
		b++
	}
	r.releaseAll(s.sent)
	s.sent = s.sent[:0]
	r.releaseAll(s.losses) // _update_losses
	s.losses = s.losses[:0]
	r.mergeOutputs(s)
	return nil
}

// initializeStage is _initialize_stage: the stage is run once on zeros for the shape of its result, then what will be
// received has its room, for every microbatch.
func (r *run) initializeStage(s *stage, values []*tensor) error {
	send, receive := r.alloc(4, timeline.Temporary), r.alloc(4, timeline.Temporary) // _get_init_p2p_neighbors_ops
	r.drop(send)
	r.drop(receive)
	like := make([]*tensor, len(r.prog.Inputs))
	for i, id := range r.prog.Inputs {
		old := values[id]
		like[i], values[id] = old, r.emptyLike(old, old.dtype)
	}
	r.grad = false
	r.enterAutocast()
	err := r.forward(values)
	if err != nil {
		return err
	}
	out := r.takeFirst(values)
	r.exitAutocast()
	r.grad = true
	if out == nil {
		return errors.New("the stage has no output")
	}
	meta := meta{out.layout, out.dtype}
	r.release(out)
	for i, id := range r.prog.Inputs {
		r.release(values[id])
		values[id] = like[i]
	}
	if !s.first() {
		in := values[r.prog.Received]
		for range s.Microbatches {
			t := r.emptyLike(in, in.dtype)
			r.recategorize(t.st, timeline.Input)
			t.requiresGrad = true
			t.leaf = r.leaves.one()
			*t.leaf = leaf{param: t}
			s.received = append(s.received, t.leaf)
		}
	}
	if !s.last() {
		for range s.Microbatches {
			t := r.laid(meta.dtype, meta.layout)
			r.recategorize(t.st, timeline.AutogradDetail)
			s.grads = append(s.grads, t)
		}
	}
	return nil
}

// forwardChunk is forward_one_chunk of a microbatch, and its loss.
func (r *run) forwardChunk(s *stage, values []*tensor, i int) error {
	r.begin(timeline.Forward)
	if !s.first() {
		values[r.prog.Received] = s.received[i].param
	}
	r.enterAutocast()
	if err := r.forward(values); err != nil {
		return err
	}
	out := r.takeFirst(values)
	r.exitAutocast()
	if out == nil {
		return errors.New("the stage has no output")
	}
	s.outs = append(s.outs, out)
	if !s.last() {
		return r.err
	}
	if !r.opts.DropOutput { // return_outputs
		s.chunks = append(s.chunks, out.retain())
	}
	r.begin(timeline.Loss)
	if r.criterion == "" {
		from := r.log.Written()
		r.criterion = r.lossOf(out, r.prog.Outputs[0])
		if s.labels = r.labels(r.criterion, out); s.labels != nil {
			r.keepForGood(s.labels.st)
			r.keepForGood(r.alloc(int64(s.Microbatches-1)*s.labels.bytes(), timeline.Input)) // the rest of the batch's
		}
		r.onceOnly(from)
	}
	loss, err := r.loss(r.criterion, out, s.labels)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return fmt.Errorf("loss: %w", err)
	}
	if loss == nil || loss.fn == nil {
		return r.noGradient()
	}
	s.losses = append(s.losses, loss)
	return nil
}

// backwardChunk is backward_one_chunk of a microbatch.
func (r *run) backwardChunk(s *stage, i int) error {
	r.begin(timeline.Backward)
	out := s.outs[i]
	s.outs[i] = nil
	if s.last() {
		r.runBackward(s.losses[i])
	} else if out.fn != nil {
		r.backwardFrom(out, s.grads[i])
	}
	if r.err != nil {
		return fmt.Errorf("backward: %w", r.err)
	}
	if s.last() && out.fn != nil { // detach_
		r.dropNode(out.fn)
		out.fn, out.requiresGrad = nil, false
	}
	r.release(out)
	if i == s.Microbatches-1 {
		s.outs = s.outs[:0]
	}
	if s.first() {
		return nil
	}
	if !s.FillDrain { // each send is waited for before the next one
		r.releaseAll(s.sent)
		s.sent = s.sent[:0]
	}
	s.sent = append(s.sent, s.received[i].grad)
	s.received[i].grad = nil
	return nil
}

// mergeOutputs is _merge_outputs: step() returns the results of all microbatches as one tensor.
func (r *run) mergeOutputs(s *stage) {
	if !s.last() || len(s.chunks) == 0 {
		return
	}
	merged := r.alloc(int64(len(s.chunks))*s.chunks[0].bytes(), timeline.Activation)
	r.laterDoes(func() { r.release(s.merged) })
	r.release(s.merged)
	t := r.tensors.one()
	*t = tensor{layout: s.chunks[0].layout, st: merged, dtype: s.chunks[0].dtype, refs: 1}
	s.merged = t
}

// whole makes room for an input of all microbatches, of which each is a part; what another stage sends has its room
// later.
func (r *run) whole(id program.ValueID, t *tensor) {
	p := r.opts.Pipeline
	if p.Stages < 2 || !r.opts.Train {
		return
	}
	bytes := t.st.bytes
	r.drop(t.st)
	if id == r.prog.Received {
		bytes = 0
	}
	t.st = r.alloc(bytes*int64(p.Microbatches), timeline.Input)
}
