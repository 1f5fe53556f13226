package estimate

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/parallel"
	"github.com/memestimate/memestimate/estimate/timeline"
)

// A Generation is what generating text takes beside its first forward pass: derived from the sizes of keys and values,
// not simulated and not measured. Sizes are bytes.
type Generation struct {
	Prompt    int64 `json:"prompt_tokens"`
	NewTokens int64 `json:"new_tokens"`
	Token     int64 `json:"cache_bytes_per_token"` // of all samples
	Cache     int64 `json:"cache_bytes"`           // when the last token is made
	Last      int64 `json:"last_token_bytes"`      // allocated then
}

// generation is what the last token takes: the weights, the cache, of one layer the keys or values once more while
// they are joined with the new ones (DynamicLayer.update of transformers' cache_utils.py), what spreads them to all
// heads, and the logits, in their own type and in float32.
func generation(state int64, c parallel.Cache, bits int64, newTokens int) *Generation {
	bytes := bits / 8
	total := c.Prompt + int64(newTokens)
	g := &Generation{Prompt: c.Prompt, NewTokens: int64(newTokens), Token: c.Token * bytes, Cache: c.Token * bytes * total}
	g.Last = state + g.Cache + (c.Largest+2*c.Spread)*bytes*total + c.Logits*(bytes+aten.Float32.Bits()/8)
	return g
}

// generates adds what generating takes to the simulation of its first forward pass.
func (s *Simulation) generates(c parallel.Cache, step Step) {
	if c.Token == 0 {
		return
	}
	held, _ := heldAtEnd(s.Run.Log)
	state := held[timeline.Parameter] + held[timeline.Buffer]
	s.Generation = generation(state, c, step.Precision.Float().Bits(), step.NewTokens)
	s.Notes = append(s.Notes, s.Generation.note(c.Whole))
}

func (g *Generation) note(whole bool) Note {
	text := fmt.Sprintf("generating %d tokens after %d: keys and values take %s a token and %s in the end, "+
		"when %s are allocated; "+
		"the figures are those of the first forward pass, with its cache. This is derived, not measured", g.NewTokens,
		g.Prompt,
		mib(g.Token), mib(g.Cache), mib(g.Last))
	if whole {
		text += "; logits of the whole prompt are counted, since where they are made is not seen"
	}
	return Note{Warning, text}
}
