package eager

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// Optimizers are the names that Options.Optimizer takes.
var Optimizers = []string{"sgd", "sgdm", "adam", "adamw", "adamw-fused", "rmsprop", "adafactor"}

// An optimizer holds what torch.optim keeps between steps, for each parameter.
type optimizer struct {
	name   string
	params []*leaf
	state  map[*leaf][]*tensor
}

func (r *run) newOptimizer(params []*leaf) (*optimizer, error) {
	name := r.opts.Optimizer
	if name == "" {
		name = "adamw"
	}
	o := &optimizer{name: name, params: params, state: map[*leaf][]*tensor{}}
	for _, n := range Optimizers {
		if n == name {
			return o, nil
		}
	}
	return nil, fmt.Errorf("unknown optimizer %q", name)
}

// states makes n tensors like the parameter the first time it is stepped.
func (r *run) states(o *optimizer, l *leaf, n int) {
	if o.state[l] != nil {
		return
	}
	for range n {
		t := r.emptyLike(l.param, l.param.dtype)
		r.recategorize(t.st, timeline.OptimizerState)
		o.state[l] = append(o.state[l], t)
	}
}

// stepOptimizer is optimizer.step() over the parameters that have a gradient. The foreach
// implementations, PyTorch's default on CUDA, make their temporaries for all
// parameters at once (torch/optim).
func (r *run) stepOptimizer(o *optimizer) {
	var with []*leaf
	for _, l := range o.params {
		if l.grad != nil {
			with = append(with, l)
		}
	}
	switch o.name {
	case "sgd":
	case "sgdm":
		for _, l := range with {
			r.states(o, l, 1) // the first step clones the gradient
		}
	case "adam", "adamw":
		for _, l := range with {
			r.states(o, l, 2)
		}
		r.foreach(with, 1) // exp_avg_sq_sqrt
	case "adamw-fused":
		for _, l := range with {
			if o.state[l] == nil {
				t := r.empty(onnxload.Float32) // step, on the GPU for fused
				r.recategorize(t.st, timeline.OptimizerState)
				r.states(o, l, 2)
				o.state[l] = append(o.state[l], t)
			}
		}
	case "adafactor":
		r.stepAdafactor(o, with)
	case "rmsprop":
		for _, l := range with {
			r.states(o, l, 1)
		}
		r.foreach(with, 1) // avg
	}
}

// foreach makes n lists of temporaries like the parameters, then drops them.
func (r *run) foreach(with []*leaf, n int) {
	var temps []*tensor
	for range n {
		for _, l := range with {
			t := r.emptyLike(l.param, l.param.dtype)
			r.recategorize(t.st, timeline.Temporary)
			temps = append(temps, t)
		}
	}
	for _, t := range temps {
		r.release(t)
	}
}

// zeroGrad is optimizer.zero_grad(): the gradients go, unless they are only zeroed.
func (r *run) zeroGrad(o *optimizer) {
	if r.opts.ZeroGrads {
		return
	}
	for _, l := range o.params {
		r.release(l.grad)
		l.grad = nil
	}
}

// stepAdafactor is the for-loop implementation: a row and a column of second moments for
// each parameter of two or more dimensions, the whole for the others; the update is
// made in one temporary of the parameter's size (torch/optim/_adafactor.py).
func (r *run) stepAdafactor(o *optimizer, with []*leaf) {
	for _, l := range with {
		if o.state[l] != nil {
			continue
		}
		p := l.param
		k := len(p.shape)
		shapes := [][]int64{p.shape}
		if k > 1 {
			row, col := slices.Clone(p.shape), slices.Clone(p.shape)
			row[k-1], col[k-2] = 1, 1
			shapes = [][]int64{row, col}
		}
		for _, s := range shapes {
			t := r.empty(p.dtype, s...)
			r.recategorize(t.st, timeline.OptimizerState)
			o.state[l] = append(o.state[l], t)
		}
	}
	for _, l := range with {
		r.release(r.emptyLike(l.param, l.param.dtype))
	}
}
