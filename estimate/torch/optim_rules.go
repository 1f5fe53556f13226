package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// Whether a foreach implementation still holds the decayed gradients when it makes its other lists.
const (
	dropsGrads = false
	keepsGrads = true
)

// lists is a foreach implementation that makes n lists of temporaries, after the decayed
// gradients if there are any.
func lists(keeps bool, n int) func(*stepping) {
	return func(s *stepping) {
		grads := s.decayed()
		if !keeps {
			s.drop(grads)
			grads = nil
		}
		var temps [][]int32
		for range n {
			temps = append(temps, s.list())
		}
		s.drop(grads)
		s.drop(temps...)
	}
}

// firstMomentum makes the momentum buffers at the first step: clones of the gradients.
func (s *stepping) firstMomentum() {
	if s.o.row.name == "sgdm" {
		for _, l := range s.with {
			s.states(l, 1)
		}
	}
}

// sgdForeach adds the momentum of Nesterov into the gradients themselves.
func sgdForeach(s *stepping) {
	grads := s.decayed()
	s.firstMomentum()
	s.drop(grads)
}

func sgdLoop(s *stepping) {
	s.decay()
	if s.o.row.name == "sgdm" {
		s.states(s.at, 1)
	}
	if s.o.set["nesterov"] {
		s.let(varGrad, s.like()) // grad.add(buf)
	}
}

// adamForeach lets the decayed gradients go before it makes exp_avg_sq_sqrt.
func adamForeach(s *stepping) {
	s.drop(s.decayed())
	s.drop(s.list())
}

// adamLoop is denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps); NAdam divides first.
func adamLoop(s *stepping) {
	s.decay()
	root := s.like()
	denom := s.like()
	s.release(root)
	s.let(varFirst, denom)
}

// onlyVar is a for-loop with one variable for what it computes: avg or std, a square root to
// which eps is added in place.
func onlyVar(s *stepping) {
	s.decay()
	s.let(varFirst, s.like())
}

// adagradForeach makes std and the numerator, which is the list of decayed gradients if there is one.
func adagradForeach(s *stepping) {
	numerator := s.decayed()
	std := s.list()
	if numerator == nil {
		numerator = s.list()
	}
	s.drop(numerator, std)
}

func adadeltaLoop(s *stepping) {
	s.decay()
	s.let(varFirst, s.like())  // std
	s.let(varSecond, s.like()) // delta
}

// adamaxForeach takes the absolute value of the gradients: in place where they are a list of its own.
func adamaxForeach(s *stepping) {
	grads := s.decayed()
	if grads == nil {
		grads = s.list()
	}
	s.drop(grads)
}

// adamaxLoop compares exp_inf with grad.abs().add_(eps).
func adamaxLoop(s *stepping) {
	s.decay()
	s.release(s.like())
}

// radamWarmup is the number of steps, with beta2 at its default of 0.999, after which the variance
// is rectified: rho_t > 5.
const radamWarmup = 5

func radamLoop(s *stepping) {
	s.decay()
	s.let(varFirst, s.like()) // bias_corrected_exp_avg
	update := s.like()        // bias_corrected_exp_avg * lr
	if s.step > radamWarmup {
		root := s.like()       // exp_avg_sq.sqrt().add_(eps)
		reciprocal := s.like() // a number divided by a tensor is its reciprocal, multiplied
		rate := s.like()
		s.release(reciprocal)
		s.release(root)
		scaled := s.like()
		s.release(update)
		s.release(rate)
		update = s.like()
		s.release(scaled)
	}
	s.release(update)
}

// adafactorStep keeps a row and a column of second moments for each parameter of two or more
// dimensions, the whole for the others; the update is made in one temporary of the parameter's size.
func adafactorStep(s *stepping) {
	for _, l := range s.with {
		if l.stepped {
			continue
		}
		l.stepped = true
		if g := l.grad; len(g.shape) < 2 {
			s.state(l, g.bytes())
		} else {
			row, col := s.factors(g)
			s.state(l, row.bytes())
			s.state(l, col.bytes())
		}
	}
	const ( // in the order of their first assignment
		mean   = iota // row_mean, or grad_squared
		column        // col_mean
		estimate
		update
	)
	var vars [4]*tensor
	let := func(v int, t *tensor) {
		old := vars[v]
		vars[v] = t
		s.release(old)
	}
	for _, l := range s.with {
		s.norm(l.param)
		g := l.grad
		if k := len(g.shape); k > 1 {
			row, col := s.factors(g)
			let(mean, s.reduce(g, []int{k - 1}, true, g.dtype))
			let(column, s.reduce(g, []int{k - 2}, true, g.dtype))
			let(estimate, s.matmul(row, col))
			s.release(s.reduce(row, []int{k - 2}, true, row.dtype))
		} else {
			let(mean, s.emptyLike(g, g.dtype))
			let(estimate, s.emptyLike(g, g.dtype))
		}
		let(update, vars[estimate].retain())
		s.norm(vars[update])
		s.recycle()
	}
	for v := range vars {
		let(v, nil)
	}
}

// factors returns what looks like the row and the column that adafactorStep keeps of a parameter with this gradient.
func (s *stepping) factors(g *tensor) (row, col *tensor) {
	k := len(g.shape)
	a, b := slices.Clone(g.shape), slices.Clone(g.shape)
	a[k-1], b[k-2] = 1, 1
	return s.looks(0, operand{s.layouts.rowMajor(a), g.dtype, false}),
		s.looks(1, operand{s.layouts.rowMajor(b), g.dtype, false})
}

// norm is t.norm(2).item().
func (s *stepping) norm(t *tensor) { s.release(s.reduce(t, nil, false, t.dtype)) }

// muonSteps are the iterations of Newton and Schulz.
const muonSteps = 5

// muonStep steps the matrices by Muon, which takes no other parameters, and then those by AdamW, as
// its documentation advises.
func muonStep(s *stepping) {
	rest := &stepping{run: s.run, o: s.o}
	matrices := s.with[:0:0]
	for _, l := range s.with {
		if len(l.param.shape) == 2 {
			matrices = append(matrices, l)
		} else {
			rest.with = append(rest.with, l)
		}
	}
	for _, l := range matrices {
		s.states(l, 1)
	}
	var update *tensor
	for _, l := range matrices {
		s.at = l
		lerp := s.like() // grad.lerp(buf, momentum)
		s.release(update)
		update = s.orthogonal(lerp)
		s.release(lerp)
		s.recycle()
	}
	s.release(update)
	for _, l := range rest.with {
		s.states(l, 2)
	}
	adamForeach(rest)
}

// orthogonal is _zeropower_via_newtonschulz in bfloat16, on the matrix or its transpose, whichever
// has fewer rows.
func (s *stepping) orthogonal(g *tensor) *tensor {
	x := s.to(g, program.BFloat16)
	norm := s.reduce(x, nil, false, x.dtype)
	clamped := s.empty(x.dtype)
	s.release(norm)
	s.release(clamped)
	small := min(g.shape[0], g.shape[1])
	var gram, update *tensor
	for range muonSteps {
		old := gram
		gram = s.empty(program.BFloat16, small, small)
		s.useBLAS(false)
		s.release(old)
		old = update
		update = s.empty(program.BFloat16, small, small)
		s.release(old)
		next := s.empty(program.BFloat16, small, max(g.shape[0], g.shape[1]))
		s.release(x)
		x = next
	}
	s.release(gram)
	s.release(update)
	return x
}
