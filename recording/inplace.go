package recording

import "github.com/memestimate/memestimate/simulate/timeline"

// writesFirst are operators of which autograd's formulas take the form that returns a new tensor only for subclasses of
// tensors, as fake ones are (areAnyTensorSubclassLike in torch/csrc/autograd/FunctionsManual.cpp): real tensors are
// written in place. Recorders write the form of real tensors since 2026-11-22; recordings of before have the other.
var writesFirst = map[string]bool{
	"aten::index_put":   true, // index_backward
	"aten::scatter_add": true, // gather_backward
	"aten::scatter":     true, // value_selecting_reduction_backward
}

// inPlace returns the storage that a call of the backward pass really writes its result into, -1 for none: that of
// its first argument, where nothing has a use for it once the call has returned. last is the index of the call's last
// event.
func (p *player) inPlace(c *Call, last int) int32 {
	if p.phase != timeline.Backward || len(p.born) != 1 || !writesFirst[p.rec.Ops[c.Op].Name] {
		return -1
	}
	args := p.rec.Args(c)
	if len(args) == 0 || args[0].Kind() != Tensor {
		return -1
	}
	first, ok := args[0].Storage()
	if !ok {
		return -1
	}
	for _, e := range p.rec.Events[last+1:] {
		if e.Kind == Free && e.A == first {
			return first
		}
		if e.Kind != Free {
			break
		}
	}
	return -1
}
