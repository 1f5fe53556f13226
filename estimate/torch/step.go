// Package torch runs a program as PyTorch's eager mode does: dispatch, autocast, autograd, losses, optimizers, training
// steps. Of every tensor it knows layout and lifetime but no element, so what a run makes is a timeline of allocations.
package torch

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Run is what simulating a program gave.
type Run struct {
	Log  *timeline.Log
	Loss string // the criterion that was used: one of Losses, auto resolved
	// bytes of the storages that autograd saved in a forward pass and its loss, parameters and buffers left out
	Saved int64
	// the same by Call.Origin: each storage with the call that saved it first; the loss's are left out
	SavedBy []int64
	BLAS    int             // threads that used cuBLAS
	DNN     int             // threads that used cuDNN
	Guesses []program.Guess // that the run rests on: the program's, and how long its values live

	// Workspaces are other sizes of the convolutions' workspaces, by plan less 1 (timeline.Event.Plan): what they
	// would be, had cuDNN chosen its engines as single trees of the forests do that stand for its choice. None
	// where all trees agree.
	Workspaces [][]int64
	// MostWorkspaces are the largest that are known of such convolutions, likewise; none where nothing is chosen.
	MostWorkspaces []int64

	// Options.Like began like this run, which ended there: what follows is the same.
	Same bool

	tensors tensorsMade
	known   Known
	race    race
}

// Tensor returns what a block of the Log was made for: false for workspaces and other blocks that no tensor has, and
// without Options.Tensors.
func (r *Run) Tensor(block int32) (Tensor, bool) { return r.tensors.at(r.Log.First(block)) }

// Late returns what the run would have been with Replicas.Late: its Log, where that is no other.
func (r *Run) Late() *timeline.Log { return r.Log.Keeping(r.race.block, r.race.until) }

// Simulate runs the program as PyTorch would and returns every request to the
// allocator, in order: the model and the input move to the GPU, then the steps
//
//	out = model(x); loss = criterion(out, labels); loss.backward(); optimizer.step(); optimizer.zero_grad()
//
// with x, labels, out and loss as Python variables, which keep their tensors until they are assigned again. The loss is
// the sum of a criterion of each output that it takes: see headsOf. An inference is out = model(x) under no_grad and
// del out.
func Simulate(p *program.Program, opts Options) (*Run, error) {
	r, err := newRun(p, &opts)
	if err != nil {
		return nil, err
	}
	values, params := r.load()
	if r.err != nil {
		return nil, r.err
	}
	if opts.Train {
		r.wrapped()
	}
	if len(r.checkpoints) == 0 { // what backward recomputes is a forward pass too
		r.like = opts.Like
	}
	if opts.Train {
		err = r.train(values, params)
	} else {
		err = r.infer(values)
	}
	if err != nil {
		return nil, err
	}
	return r.result(), nil
}

// newRun returns the run of a program before anything runs.
func newRun(p *program.Program, opts *Options) (*run, error) {
	if err := opts.Settings.Check(); err != nil {
		return nil, err
	}
	if opts.GPU == nil {
		device := gpu.Default()
		opts.GPU = &device
	}
	r := &run{opts: opts, prog: p, layer: timeline.NoLayer, origin: -1}
	if opts.Spare != nil {
		opts.Spare.take(r, opts.Brief)
	} else {
		r.rows = rowsByName()
	}
	if r.log == nil {
		r.log = new(timeline.Log)
	}
	r.plans, r.lives = opts.Known.plans, opts.Known.lives
	r.plans.shared = r.plans.numbers != nil
	if err := p.Check(); err != nil {
		return nil, err
	}
	r.log.Layers, r.log.Full = p.Layers, opts.Full
	return r, nil
}

// result is what is known of a run that is over. Its memory goes to the next one.
func (r *run) result() *Run {
	p, opts := r.prog, r.opts
	r.log.Full = nil // who followed the run is done, and may be large
	if opts.Spare != nil {
		opts.Spare.put(r, opts.Brief)
	}
	run := &Run{Log: r.log, Loss: r.criterion, Saved: r.saved, SavedBy: r.savedBy, BLAS: count(r.blas),
		DNN: count(r.dnn), Same: r.same, Guesses: p.Guesses, tensors: r.made, known: Known{plans: r.plans}}
	if opts.Spare != nil { // a large program has none, and is not kept longer than it runs
		run.known.lives = r.lives
	}
	if r.ddp != nil {
		run.race = r.ddp.race
	}
	if opts.Brief {
		return run
	}
	run.Workspaces = kernels.OtherChoices(r.plans.planned)
	for i := range r.plans.planned {
		run.MostWorkspaces = append(run.MostWorkspaces, max(r.plans.planned[i].Bytes, r.plans.planned[i].Most))
	}
	if ends := &r.lives.ends; r.lives.of != nil {
		run.Guesses = slices.Concat(p.Guesses, ends.Guesses)
	}
	run.Guesses = append(slices.Clip(run.Guesses), r.heads.guesses...)
	return run
}

func count(threads [2]bool) (n int) {
	for _, used := range threads {
		if used {
			n++
		}
	}
	return n
}

// begin marks the beginning of a phase.
func (r *run) begin(p timeline.Phase) {
	r.layer = timeline.NoLayer
	r.log.Mark(r.step, p)
}

// forward runs the program once. Activations are let go after the last call that
// Python still refers to them in: see program.Liveness.
func (r *run) forward(values []*tensor) error {
	if r.lives.of != r.prog {
		r.lives.of = r.prog
		r.lives.ends = r.prog.Liveness()
	}
	ends := &r.lives.ends
	r.values = values
	r.gatherRoot(values)
	for i := range r.prog.Calls {
		c := &r.prog.Calls[i]
		r.layer, r.origin, r.index = c.Layer, c.Origin, int32(i)
		r.enterGroup(i, values)
		r.enterCheckpoint(i, values)
		rest, err := r.call(c, values)
		if err != nil {
			return fmt.Errorf("call %d (%s) of layer %q: %w", i, c.Op, r.prog.Layers[c.Layer], err)
		}
		r.requireGrads(c, values)
		r.releaseAll(rest)
		for _, v := range ends.After[i] {
			r.release(values[v])
			values[v] = nil
		}
		r.exitCheckpoint(i)
		r.exitGroup(i, values)
		r.recycle()
	}
	r.leaveRoot(values)
	r.layer, r.origin = timeline.NoLayer, -1
	return nil
}

// isLike reports, behind the first forward pass, whether the run is what Options.Like is. Variables live in forward
// passes alone: what is left of one is its outputs and what autograd saves. So where all its requests were the same, so
// are those that follow.
func (r *run) isLike() bool {
	r.same = r.like != nil && r.log.Begins(r.like)
	r.like = nil
	return r.same
}

func (r *run) releaseAll(list []*tensor) {
	for _, t := range list {
		r.release(t)
	}
}

// takeOutputs takes over the references to the outputs, all of which out = model(x) holds.
func (r *run) takeOutputs(values []*tensor) []*tensor {
	outs := make([]*tensor, len(r.prog.Outputs))
	for i, id := range r.prog.Outputs {
		t := values[id]
		if r.prog.Values[id].Kind == program.Activation {
			values[id] = nil
		} else if t != nil {
			t.retain()
		}
		outs[i] = t
	}
	return outs
}

func (r *run) infer(values []*tensor) error {
	steps := r.opts.Steps
	if steps == 0 {
		steps = 2
	}
	for r.step = 1; int(r.step) <= steps; r.step++ {
		r.begin(timeline.Forward)
		r.enterAutocast()
		if err := r.forward(values); err != nil {
			return err
		}
		outs := r.takeOutputs(values)
		r.exitAutocast()
		if r.isLike() {
			return nil
		}
		r.begin(timeline.Finish)
		r.releaseAll(outs)
	}
	return nil
}
