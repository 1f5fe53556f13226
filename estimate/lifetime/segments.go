package lifetime

import (
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/pysource"
)

// A turn is the calls of one module that torch.utils.checkpoint.checkpoint_sequential calls.
type turn struct {
	span  aten.Span
	child int32 // the module
	frame int32 // the line
}

// segments puts the modules of a checkpoint_sequential into segments, of which all but the last are checkpointed: each
// has as many modules as the whole part of their number by that of segments, and the last has what is left too
// (torch/utils/checkpoint.py). How many there are and which is which their names tell, layers.3; a module that computes
// nothing has no calls. Where the line does not say how many segments there are, nothing is taken to be checkpointed,
// as with one.
func (r *regions) segments() {
	turns := r.turns
	r.turns = nil
	if len(turns) == 0 {
		return
	}
	of := make([]int, len(turns)) // by turn: the number of its module
	for i, t := range turns {
		of[i] = i
		if t.child >= 0 {
			name := r.p.Scopes[t.child].Name
			if k, err := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:]); err == nil && k >= i && k < 1<<20 {
				of[i] = k
			}
		}
	}
	modules := of[len(of)-1] + 1
	n, alone := pysource.Segments(r.p.Sources.Frames[turns[0].frame-1].Source)
	if alone {
		n = modules
	}
	if n < 2 || n > modules {
		return
	}
	size, segment := modules/n, -1
	for i, t := range turns {
		switch k := of[i] / size; {
		case k >= n-1:
			return
		case k == segment:
			r.checkpoints[len(r.checkpoints)-1].Last = t.span.Last
		default:
			r.checkpoints = append(r.checkpoints, t.span)
			segment = k
		}
	}
}
