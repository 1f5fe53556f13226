package eager

import (
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/estimate/workspace"
)

// play allocates and frees what a kernel takes; made is called for each result that it makes.
func (r *run) play(s workspace.Script, made func(result int)) {
	if len(s) == 0 {
		return
	}
	var room [16]*storage
	taken := room[:0]
	for _, step := range s {
		switch step.Do {
		case workspace.Take:
			taken = append(taken, r.alloc(step.Bytes, timeline.Workspace))
		case workspace.Give:
			r.drop(taken[step.Which])
		case workspace.Make:
			made(step.Which)
		}
	}
}
