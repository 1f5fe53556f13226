package torch

import "github.com/memestimate/memestimate/estimate/program"

// A castPolicy is what torch.autocast does with the arguments of an operator
// (the lists of aten/src/ATen/autocast_mode.h).
type castPolicy uint8

const (
	castNone      castPolicy = iota // runs in the types that come in
	castLower                       // float32 arguments are cast to the autocast type
	castLowerList                   // the same, of a list of tensors
	castFloat                       // 16-bit arguments are cast to float32
	castPromote                     // arguments are cast to the widest among them
	castResult                      // the operator is asked for a float32 result of 16-bit arguments (fp32_set_opt_dtype)
)

// An autocast is a torch.autocast region: weights that it casts are kept until it ends.
type autocast struct {
	dtype program.DType
	cache map[*leaf]*tensor
	order []*leaf // in the order of casting, to release them so
}

// enterAutocast begins the region that the options ask for, if any.
func (r *run) enterAutocast() {
	if d := r.opts.Precision.autocast(); d != program.Undefined {
		r.amp = &autocast{dtype: d, cache: map[*leaf]*tensor{}}
	}
}

// exitAutocast ends the region and drops the cached casts.
func (r *run) exitAutocast() {
	if r.amp == nil {
		return
	}
	for _, l := range r.amp.order {
		r.release(r.amp.cache[l])
	}
	r.amp = nil
}

// autocast replaces arguments by their casts and returns those to release after the call.
func (r *run) autocast(p castPolicy, in []*tensor) (made []*tensor) {
	if r.amp == nil || p == castNone || p == castResult {
		return nil
	}
	to := program.Float32
	switch p {
	case castLower, castLowerList:
		to = r.amp.dtype
	case castPromote:
		to = program.Undefined
		for _, t := range in {
			if t != nil && t.dtype.IsFloat() {
				to = wider(to, t.dtype)
			}
		}
	}
	for k := range in {
		i := k
		// the compiler evaluates arguments from the last to the first, a list is cast in its order
		if p != castPromote && p != castLowerList {
			i = len(in) - 1 - k
		}
		t := in[i]
		if t == nil || t.host || !t.dtype.IsFloat() || t.dtype == to || t.dtype == program.Float64 {
			continue
		}
		c := r.cachedCast(t, to)
		in[i] = c
		made = append(made, c)
	}
	return made
}

// cachedCast casts t; a float32 parameter's cast is made once a region.
func (r *run) cachedCast(t *tensor, to program.DType) *tensor {
	if t.leaf == nil || t.fn != nil || to != r.amp.dtype || t.dtype != program.Float32 {
		return r.to(t, to)
	}
	c := r.amp.cache[t.leaf]
	if c == nil {
		c = r.to(t, to)
		c.st.parameter = true // it wants a gradient even when it is made under no_grad
		r.amp.cache[t.leaf] = c
		r.amp.order = append(r.amp.order, t.leaf)
	}
	return c.retain()
}

// resultType returns the element type of the result of an operator of castResult.
func (r *run) resultType(x *tensor) program.DType {
	if r.amp != nil && x.dtype.IsFloat() && x.dtype.Bits() == 16 {
		return program.Float32
	}
	return x.dtype
}
