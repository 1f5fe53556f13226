package torch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// An optimizerRow is everything memestimate knows about one optimizer of torch.optim. The foreach
// implementation works on lists of all parameters and is what PyTorch takes on CUDA; the for-loop
// works on one parameter after another; a fused kernel needs no temporaries at all.
type optimizerRow struct {
	name    string
	states  int      // tensors like the parameter that each keeps, made at the first step
	takes   []string // settings that may follow the name, each after a hyphen
	fused   bool     // has a fused implementation on CUDA
	eager   bool     // makes its states when it is constructed
	foreach func(s *stepping)
	loop    func(s *stepping) // runs for each parameter
	whole   func(s *stepping) // runs once instead of both, where there is only one implementation
}

// optimizerRows follow torch/optim of PyTorch 2.11, in the file named with each. Settings are the optimizers'
// own options and wd, weight decay that is added to the gradient; AdamW's and Muon's is not, and costs nothing.
var optimizerRows = []optimizerRow{
	// sgd.py
	{name: "sgd", takes: []string{"wd"}, fused: true, foreach: sgdForeach, loop: sgdLoop},
	// sgd.py, momentum > 0
	{name: "sgdm", takes: []string{"wd", "nesterov"}, fused: true, foreach: sgdForeach, loop: sgdLoop},
	// adam.py
	{name: "adam", states: 2, takes: []string{"wd", "amsgrad"}, fused: true, foreach: adamForeach, loop: adamLoop},
	// adamw.py
	{name: "adamw", states: 2, takes: []string{"amsgrad"}, fused: true, foreach: adamForeach, loop: adamLoop},
	// rmsprop.py: avg
	{name: "rmsprop", states: 1, takes: []string{"wd", "momentum", "centered"}, foreach: lists(keepsGrads, 1),
		loop: onlyVar},
	// adagrad.py: std
	{name: "adagrad", states: 1, takes: []string{"wd"}, eager: true, foreach: adagradForeach, loop: onlyVar},
	// adadelta.py: std, deltas
	{name: "adadelta", states: 2, takes: []string{"wd"}, foreach: lists(keepsGrads, 2), loop: adadeltaLoop},
	{name: "adamax", states: 2, takes: []string{"wd"}, foreach: adamaxForeach, loop: adamaxLoop}, // adamax.py
	// nadam.py: exp_avg_sq_sqrt
	{name: "nadam", states: 2, takes: []string{"wd"}, foreach: lists(keepsGrads, 1), loop: adamLoop},
	// radam.py: buffer
	{name: "radam", states: 2, takes: []string{"wd"}, foreach: lists(dropsGrads, 1), loop: radamLoop},
	// _adafactor.py without foreach
	{name: "adafactor", whole: adafactorStep},
	{name: "muon", whole: muonStep}, // _muon.py, adamw.py
}

// Optimizers are the names that Options.Optimizer takes, each with one setting at most. Several settings may
// be joined, as in "sgdm-wd-nesterov".
var Optimizers = optimizerNames()

func optimizerNames() (names []string) {
	for _, row := range optimizerRows {
		names = append(names, row.name)
		for _, s := range row.settings() {
			names = append(names, row.name+"-"+s)
		}
	}
	return names
}

// settings returns the settings that the optimizer takes.
func (row *optimizerRow) settings() []string {
	if row.fused {
		return append([]string{"fused"}, row.takes...)
	}
	return row.takes
}

// An optimizer holds what torch.optim keeps between steps, for each parameter.
type optimizer struct {
	row    *optimizerRow
	set    map[string]bool // settings
	params []*leaf
}

// newOptimizer makes the optimizer that the options name, "" being adamw.
func (r *run) newOptimizer(params []*leaf) (*optimizer, error) {
	name := r.opts.Optimizer
	if name == "" {
		name = "adamw"
	}
	parts := strings.Split(name, "-")
	i := slices.IndexFunc(optimizerRows, func(row optimizerRow) bool { return row.name == parts[0] })
	if i < 0 {
		return nil, fmt.Errorf("unknown optimizer %q, want one of %s", name, strings.Join(Optimizers, ", "))
	}
	o := &optimizer{row: &optimizerRows[i], set: map[string]bool{}, params: params}
	takes := o.row.settings()
	for _, s := range parts[1:] {
		if !slices.Contains(takes, s) {
			return nil, fmt.Errorf("optimizer %q: %s has no setting %q, want any of %q", name, parts[0], s, takes)
		}
		o.set[s] = true
	}
	if o.row.eager {
		for _, l := range params {
			r.states(l, o.row.states)
		}
	}
	return o, nil
}

// changes reports whether what the optimizer does depends on the number of steps, in so many.
func (o *optimizer) changes(steps int) bool { return o.row.name == "radam" && steps > radamWarmup }

// states makes n tensors like the parameter the first time it is stepped.
func (r *run) states(l *leaf, n int) {
	if l.stepped {
		return
	}
	l.stepped = n > 0
	for range n {
		r.state(l, l.param.bytes())
	}
}

// state makes a tensor of the optimizer's state. It stays to the end, so its block is all that there is of it.
func (r *run) state(l *leaf, bytes int64) {
	block := r.request(bytes, timeline.OptimizerState)
	if p := l.param.st.block; block != noBlock && p != noBlock { // it belongs where its parameter does
		r.log.SetLayer(block, r.log.Of(p).Layer)
	}
}

// A stepping is one call of optimizer.step() over the parameters that have a gradient.
type stepping struct {
	*run
	o    *optimizer
	with []*leaf
	at   *leaf            // the parameter that the for-loop is at
	vars [numVars]*tensor // variables of the for-loop's function: they keep their tensors into the next round
}

// The variables of for-loops, in the order in which Python drops them at the end.
const (
	varGrad = iota
	varFirst
	varSecond
	numVars
)

// stepOptimizer is optimizer.step().
func (r *run) stepOptimizer(o *optimizer) {
	s := &stepping{run: r, o: o}
	for _, l := range o.params {
		if l.grad != nil {
			s.with = append(s.with, l)
		}
	}
	if len(s.with) == 0 {
		return
	}
	r.grad = false // step is under no_grad
	defer func() { r.grad = true }()
	switch row := s.o.row; {
	case row.whole != nil:
		row.whole(s)
	case s.o.set["fused"]:
		s.fused()
	default:
		s.makeStates()
		if !r.opts.ForLoop {
			row.foreach(s)
			return
		}
		for _, l := range s.with {
			s.at = l
			s.let(varGrad, nil) // grad = grads[i]
			row.loop(s)
			r.recycle()
		}
		s.leave()
	}
}

// makeStates is _init_group: the states of all parameters come before any of them is stepped.
func (s *stepping) makeStates() {
	n := s.o.row.states
	for _, name := range []string{"amsgrad", "momentum", "centered"} { // one tensor more for each
		if s.o.set[name] {
			n++
		}
	}
	for _, l := range s.with {
		s.states(l, n)
	}
}

// fused makes the states that a fused kernel works on; Adam's count their steps on the GPU.
func (s *stepping) fused() {
	if s.o.row.states == 0 {
		s.firstMomentum()
		return
	}
	for _, l := range s.with {
		if !l.stepped {
			s.state(l, program.BytesOf(1, program.Float32)) // its step
			n := s.o.row.states
			if s.o.set["amsgrad"] {
				n++
			}
			s.states(l, n)
		}
	}
}

// like returns a tensor like the parameter that the for-loop is at.
func (s *stepping) like() *tensor { return s.emptyLike(s.at.param, s.at.param.dtype) }

// let assigns a variable, which drops what it held before.
func (s *stepping) let(v int, t *tensor) {
	old := s.vars[v]
	s.vars[v] = t
	s.release(old)
}

// leave is the function's return: its variables go.
func (s *stepping) leave() {
	for v := range s.vars {
		s.let(v, nil)
	}
}

// list is an out-of-place foreach operator: a tensor like each parameter. The blocks are all that is needed of them.
func (s *stepping) list() []int32 {
	out := make([]int32, 0, len(s.with))
	for _, l := range s.with {
		out = append(out, s.request(l.param.bytes(), timeline.Temporary))
	}
	return out
}

func (s *stepping) drop(lists ...[]int32) {
	for _, list := range lists {
		for _, block := range list {
			s.free(block)
		}
	}
}

// decayed is the list of gradients with the decayed parameters added, nil without weight decay.
func (s *stepping) decayed() []int32 {
	if !s.o.set["wd"] {
		return nil
	}
	return s.list()
}

// decay is the same in a for-loop.
func (s *stepping) decay() {
	if s.o.set["wd"] {
		s.let(varGrad, s.like())
	}
}

// zeroGrad is optimizer.zero_grad(): the gradients go, unless they are only zeroed.
func (r *run) zeroGrad(params []*leaf) {
	if r.opts.ZeroGrads {
		return
	}
	for _, l := range params {
		r.release(l.grad)
		l.grad = nil
		r.recycle()
	}
}
