package torch

import (
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// play allocates and frees what a kernel takes; made is called for each result that it makes.
func (r *run) play(s kernels.Script, made func(result int)) {
	if len(s) == 0 {
		return
	}
	var room [16]*storage
	taken := room[:0]
	for _, step := range s {
		switch step.Do {
		case kernels.Take:
			taken = append(taken, r.alloc(step.Bytes, timeline.Workspace))
		case kernels.Give:
			r.drop(taken[step.Which])
		case kernels.Make:
			made(step.Which)
		}
	}
}
