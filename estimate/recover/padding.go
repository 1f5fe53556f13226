package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// isPadding reports whether a mask joins one of positions alone with one that says of each token of a batch whether it
// is padding, as an input's attention_mask does. transformers looks at that in a run, and passes no mask where no token
// is padding (_ignore_causal_mask_sdpa and _ignore_bidirectional_mask_sdpa in masking_utils.py); an export has it.
func (b *recovery) isPadding(mask onnxload.ValueID) bool {
	positions, tokens := false, false
	todo := []onnxload.ValueID{b.boolMask(mask)}
	for range 64 { // those of transformers take less than thirty
		if len(todo) == 0 {
			return positions && tokens
		}
		id := b.id(todo[0])
		todo = todo[1:]
		if id == onnxload.NoValue {
			return false
		}
		if b.fixed[id] {
			positions = positions || b.elem(id) == program.Bool
			continue
		}
		n, _ := b.producer(id)
		if d, known := b.types.Type(id).Shape.Ints(); known && len(d) == 2 {
			tokens = true
			continue
		}
		if n == nil {
			return false
		}
		switch n.Op {
		case "And":
			todo = append(todo, b.in(n, 0), b.in(n, 1))
		case "Cast", "Expand", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Slice", "Gather", "GatherND":
			todo = append(todo, b.in(n, 0))
		default:
			return false
		}
	}
	return false
}
