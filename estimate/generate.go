package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
)

// A Generate says how text is generated, by model.generate() of transformers with greedy search. The zero value
// generates none.
type Generate struct {
	NewTokens int    `json:"new_tokens,omitempty"`
	Cache     string `json:"kv_cache,omitempty"`       // one of Caches; "" is dynamic
	Window    int64  `json:"sliding_window,omitempty"` // tokens that attention sees; 0 is all
	CacheType string `json:"kv_cache_type,omitempty"`  // one of CacheTypes; "" is that of keys and values
}

// Caches are the kinds of caches: one that grows by a token at a time, and one that has its room from the first on.
var Caches = []string{"dynamic", "static"}

// CacheTypes are the element types that a cache can have but that of the model.
var CacheTypes = []string{"auto", "fp8"}

// MostNewTokens is how many tokens are simulated: each is a pass, which takes about a tenth of a millisecond and 9 kB
// of gpt2.
const MostNewTokens = 1 << 17

// Check says whether the names are known, and the numbers within bounds.
func (g Generate) Check() error {
	switch {
	case g.Cache != "" && !slices.Contains(Caches, g.Cache):
		return fmt.Errorf("unknown cache %q, want one of %v", g.Cache, Caches)
	case g.CacheType != "" && !slices.Contains(CacheTypes, g.CacheType):
		return fmt.Errorf("unknown type of a cache %q, want one of %v", g.CacheType, CacheTypes)
	case g.Window < 0 || g.NewTokens < 0:
		return errors.New("a number of tokens is negative")
	case g.NewTokens > MostNewTokens:
		return fmt.Errorf("%d new tokens, want at most %d", g.NewTokens, MostNewTokens)
	}
	return nil
}

// A Generation is what generating text takes. Sizes are bytes; all but cache_bytes are of the simulated run.
type Generation struct {
	Prompt    int64 `json:"prompt_tokens"`
	NewTokens int64 `json:"new_tokens"`
	Token     int64 `json:"cache_bytes_per_token"` // of all samples
	Cache     int64 `json:"cache_bytes"`           // at its largest
	Prefill   int64 `json:"prefill_bytes"`         // the most that is allocated while the prompt is read
	Last      int64 `json:"last_token_bytes"`      // the most that is allocated while tokens are made one by one
}

// lengths are numbers of tokens by which a graph is bound where its own cannot be told from dimensions of its weights.
var lengths = []int64{61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127}

// generating returns the program that reads the prompt, and adds to the options what generates after it.
func (b *Model) generating(s Step, opts *torch.Options) (*program.Program, program.Cache, error) {
	of, prompt := b, b.asked.Prompt
	if d, ok := promptDim(b.given, b.asked); ok {
		name := d.Param
		if prompt == 0 {
			prompt = b.asked.Dims[name]
		}
		var err error
		if of, err = b.atLength(name); err != nil {
			return nil, program.Cache{}, err
		}
	}
	p, err := of.program(false, s.Autocast())
	if err != nil {
		return nil, program.Cache{}, err
	}
	prefill, decode, cache, err := program.Generating(p, prompt)
	if err != nil {
		return nil, cache, fmt.Errorf("new-tokens: %w", err)
	}
	if err := cache.Holds(int64(s.NewTokens)); err != nil {
		return nil, cache, err
	}
	opts.Generation = torch.Generation{Decode: decode, NewTokens: s.NewTokens, Static: s.Cache == "static",
		Window: s.Window}
	if s.CacheType == "fp8" {
		opts.Generation.Stored = program.Float8E4M3FN
	}
	return prefill, cache, nil
}

// atLength binds the model's tokens to a length that no dimension of a weight is.
func (b *Model) atLength(name string) (*Model, error) {
	b.recovering.Lock()
	defer b.recovering.Unlock()
	if b.programs.short != nil {
		return b.programs.short, nil
	}
	dims := map[int64]bool{}
	for _, w := range b.weights {
		if init := b.analysis.Model.Values[w.ID].Init; init != nil {
			for _, d := range init.Dims {
				dims[d] = true
			}
		}
	}
	opt := b.asked
	opt.Prompt, opt.Dims = 0, maps.Clone(opt.Dims)
	opt.Without = slices.Sorted(maps.Keys(b.without))
	if opt.Dims == nil {
		opt.Dims = map[string]int64{}
	}
	at := slices.IndexFunc(lengths, func(n int64) bool { return !dims[n] && !dims[n*cmp.Or(b.asked.Batch, 1)] })
	opt.Dims[name] = lengths[max(at, 0)]
	short, err := Bind(b.given, opt)
	if err != nil {
		return nil, fmt.Errorf("with %d tokens: %w", opt.Dims[name], err)
	}
	b.programs.short = short
	return short, nil
}

// promptDim returns the tokens' dimension: the second of the first input of whole numbers, where it has a name and its
// size is not given with the input's shape.
func promptDim(m *onnxload.Model, opt Options) (onnxload.Dim, bool) {
	for _, id := range m.Graph.Inputs {
		t := m.Values[id].Type()
		if t.Elem != onnxload.Int64 && t.Elem != onnxload.Int32 || len(t.Dims) < 2 {
			continue
		}
		return t.Dims[1], t.Dims[1].Param != "" && !t.Dims[1].Known && opt.Inputs[m.Values[id].Name] == nil
	}
	return onnxload.Dim{}, false
}

// withPrompt returns the sizes of symbols, that of the prompt among them.
func withPrompt(m *onnxload.Model, opt Options) map[string]int64 {
	d, ok := promptDim(m, opt)
	if opt.Prompt == 0 || !ok {
		return opt.Dims
	}
	dims := maps.Clone(opt.Dims)
	if dims == nil {
		dims = map[string]int64{}
	}
	dims[d.Param] = opt.Prompt
	return dims
}

// generates adds what generating takes to its simulation.
func (s *Simulation) generates(c program.Cache, step Step) {
	if c.Layers == 0 {
		return
	}
	bits := step.Precision.Float().Bits()
	if step.CacheType == "fp8" {
		bits = program.Float8E4M3FN.Bits()
	}
	g := &Generation{Prompt: s.Run.Prompt, NewTokens: int64(step.NewTokens), Token: c.Token * bits / 8,
		Cache: s.Run.Cache}
	for _, p := range s.Replay.Spans {
		if p.Step == 1 {
			g.Prefill = max(g.Prefill, p.PeakAllocated.Allocated)
		} else if p.Step == 2 {
			g.Last = max(g.Last, p.PeakAllocated.Allocated)
		}
	}
	s.Generation = g
	s.Notes = append(s.Notes, g.note(c.Whole, step.Generate))
	if slices.ContainsFunc(s.Run.Guesses, func(g program.Guess) bool { return g.Row == recover.CausalFlag.Name }) {
		s.Notes = append(s.Notes, Note{Info, "the model is taken for a decoder, as its attention has a mask of positions " +
			"alone: so has that of an encoder such as BERT, which generates no text"})
	}
}

func (g *Generation) note(whole bool, how Generate) Note {
	text := fmt.Sprintf("generating %d tokens after %d: keys and values take %s a token and %s at most; %s are allocated "+
		"while the prompt is read, %s while tokens are made", g.NewTokens, g.Prompt, mib(g.Token), mib(g.Cache),
		mib(g.Prefill), mib(g.Last))
	if whole {
		text += "; logits of the whole prompt are counted, since where they are made is not seen"
	}
	if how.CacheType == "fp8" {
		return Note{Warning, text + "; a cache of 8 bits is derived, not measured: all of a layer is taken to be turned " +
			"into the model's type when attention reads it"}
	}
	return Note{Info, text}
}
