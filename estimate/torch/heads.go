package torch

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// EveryHead is the guess that an output which nothing reads is part of the loss.
const EveryHead = "every-head"

// Heads are the outputs that a loss takes, by their places among the program's outputs.
type heads struct {
	at      []int
	loss    []string // by head: one of Losses, auto resolved
	guesses []program.Guess
}

// headsOf chooses the outputs that the loss takes: the first, and each further one that nothing in the model reads, so
// that it was made to be returned: deep supervision, the maps of a detector, auxiliary classifiers. What else is
// returned, hidden states or a cache of keys and values, was made for the model itself. A number to which all
// parameters lead that lead to any output is the loss that a model works out itself, and stands alone.
func headsOf(p *program.Program, criterion string) (h heads) {
	if len(p.Outputs) < 2 || p.Without[EveryHead] {
		h.at = []int{0}
		return h
	}
	made := make([]int32, len(p.Values)) // one more than the call
	read := make([]bool, len(p.Values))
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			if v != program.NoValue {
				made[v] = int32(i) + 1
			}
		}
		for _, v := range p.Calls[i].In {
			if v != program.NoValue {
				read[v] = true
			}
		}
	}
	seen := make([]bool, len(p.Values))
	numbers, most := 0, 0
	for k, out := range p.Outputs {
		v, again := &p.Values[out], seen[out]
		seen[out] = true
		if k > 0 && (v.Kind != program.Activation || !v.DType.IsFloat() || read[out] || again) {
			continue
		}
		if (criterion == "" || criterion == "auto") && len(v.Shape) == 0 && v.DType.IsFloat() && made[out] > 0 &&
			numbers < mostNumbers {
			if numbers++; numbers == 1 {
				most = trainedBy(p, made, p.Outputs...)
			}
			if trainedBy(p, made, out) == most {
				return heads{at: []int{k}, guesses: []program.Guess{{Row: EveryHead, Origin: p.Calls[made[out]-1].Origin}}}
			}
		}
		h.at = append(h.at, k)
		if k > 0 && made[out] > 0 {
			h.guesses = append(h.guesses, program.Guess{Row: EveryHead, Origin: p.Calls[made[out]-1].Origin})
		}
	}
	return h
}

// mostNumbers is of how many numbers it is found out whether they are the loss.
const mostNumbers = 64

// trainedBy counts the parameters that lead to values: made has one more than the call that makes each.
func trainedBy(p *program.Program, made []int32, outs ...program.ValueID) (params int) {
	reached := make([]bool, len(p.Values))
	work := slices.Clone(outs)
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if v == program.NoValue || reached[v] {
			continue
		}
		reached[v] = true
		if p.Values[v].Kind == program.Parameter && !p.Values[v].Frozen {
			params++
		}
		if made[v] > 0 {
			work = append(work, p.Calls[made[v]-1].In...)
		}
	}
	return params
}

// differentiable are those of the chosen outputs that have a gradient: a cost that was sampled or a class that was
// chosen stands beside what is trained. Where none of them has one, it is the first of all outputs that does.
func differentiable(at []int, outs []*tensor) []int {
	with := slices.DeleteFunc(slices.Clone(at), func(k int) bool { return outs[k] == nil || outs[k].fn == nil })
	if len(with) > 0 {
		return with
	}
	if k := slices.IndexFunc(outs, func(out *tensor) bool { return out != nil && out.fn != nil }); k >= 0 {
		return []int{k}
	}
	return at
}

// targets chooses each head's criterion, and makes what it compares the head with. Heads of one shape share it.
func (r *run) targets(outs []*tensor) ([]*tensor, error) {
	r.heads.at = differentiable(r.heads.at, outs)
	labels := make([]*tensor, len(r.heads.at))
	for i, k := range r.heads.at {
		out, loss := outs[k], r.lossOf(outs[k], r.prog.Outputs[k])
		if (loss == "cross-entropy" || loss == "nll") && len(out.shape) < 2 {
			if i == 0 {
				return nil, fmt.Errorf("loss: %s needs an output of samples and classes, that of the model has shape %v", loss,
					out.shape)
			}
			loss = "mean"
		}
		r.heads.loss = append(r.heads.loss, loss)
		same := slices.IndexFunc(r.heads.at[:i], func(o int) bool { return slices.Equal(outs[o].shape, out.shape) })
		if same >= 0 && r.heads.loss[same] == loss {
			labels[i] = labels[same]
		} else {
			labels[i] = r.labels(loss, out)
		}
	}
	r.criterion = r.heads.loss[0]
	return labels, nil
}

// sumOfLosses runs the criteria of all heads and adds them up: nil for none. A loss without a gradient stands alone.
func (r *run) sumOfLosses(outs, labels []*tensor) (sum *tensor, err error) {
	for i, k := range r.heads.at {
		l, err := r.loss(r.heads.loss[i], outs[k], labels[i])
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if sum = l; sum == nil || sum.fn == nil {
				return sum, nil
			}
			continue
		}
		both, err := r.apply(&program.Call{Op: "add", Args: program.Plain}, []*tensor{sum, l})
		if err != nil {
			return nil, err
		}
		r.release(sum)
		r.release(l)
		sum = both[0]
	}
	return sum, nil
}
