package lifetime

import (
	"math"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// NoCheckpoints is the name of the doubt whether what is taken to be kept is computed again. Made, it has each module
// of a checkpoint_sequential be a segment of its own where its line does not say how many there are, and RootSegments
// has as many as the root of the number of modules, which takes the least where these keep as much as they are given.
const (
	NoCheckpoints = "no-checkpoints"
	RootSegments  = "root-segments"
)

// OpenSegments returns of how many checkpoint_sequential the program's lines do not say into how many segments they
// divide their modules.
func OpenSegments(p *program.Program) int {
	if p.Sources == nil {
		return 0
	}
	return regionsOf(p).open
}

// A turn is the calls of one module that torch.utils.checkpoint.checkpoint_sequential calls.
type turn struct {
	span  program.Span
	child int32 // the module
	frame int32 // the line
}

// segments puts the modules of a checkpoint_sequential into segments, of which all but the last are checkpointed: each
// has as many modules as the whole part of their number by that of segments, and the last has what is left too
// (torch/utils/checkpoint.py). How many there are and which is which their names tell, layers.3; a module that computes
// nothing has no calls. Where the line does not say how many segments there are, or the calls are of fewer modules than
// it says, nothing is taken to be checkpointed, as with one: see OpenSegments.
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
	if modules > 1 && (n < 1 || n > modules) {
		r.open++
		switch {
		case r.p.With[NoCheckpoints]:
			n = modules
		case r.p.With[RootSegments]:
			n = int(math.Sqrt(float64(modules)))
		}
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
