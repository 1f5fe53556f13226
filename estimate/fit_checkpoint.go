package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// A CheckpointFit is the cheapest set of a model's repeated blocks to checkpoint for a step to fit. Sizes are bytes,
// and but for Device the figure of the device memory that By names; prices are the FLOPs that are done again, as a
// share of those of the step, which does twice as many in backward as in forward.
type CheckpointFit struct {
	Memory     int64    `json:"memory_bytes"`
	By         string   `json:"by"`                // as in Fit
	Fits       bool     `json:"fits"`              // with that set; with no set where it is false
	Blocks     []string `json:"blocks"`            // the set
	Expression string   `json:"checkpoint"`        // the same for --checkpoint
	Of         int      `json:"of_blocks"`         // how many there are
	Need       int64    `json:"need_bytes"`        // with the set
	Device     int64    `json:"device_bytes"`      // with the set, as predicted
	Price      float64  `json:"price"`             // of the set
	Plain      int64    `json:"plain_bytes"`       // with none
	All        int64    `json:"every_block_bytes"` // with every one
	PriceAll   float64  `json:"every_block_price"`
	Fewer      int64    `json:"one_fewer_bytes,omitempty"` // without the last block of the set
	PriceFewer float64  `json:"one_fewer_price,omitempty"`
	EndFewer   string   `json:"one_fewer_outcome,omitempty"` // without it in that memory, as predicted: see outcomes

	Survivor *Survivor `json:"cheapest_surviving,omitempty"` // where a cheaper set than that survives
}

// ErrNoBlocks is returned for a model that has no repeated blocks to checkpoint.
var ErrNoBlocks = errors.New("the graph shows no blocks that repeat, to be checkpointed")

// FitCheckpoint finds which repeated blocks to checkpoint for a step to take at most so much memory on the device,
// with a confidence. A block counts by what a byte that it frees costs, and of those alike the first of the model goes
// first: it is run again when backward has let go of most. The fewest of that order that fit are found by halving,
// since each more leaves less to keep; then any that turns out not to be needed is left out again.
func (b *Model) FitCheckpoint(s Step, memory int64, c Confidence) (*CheckpointFit, error) {
	s = s.free()
	s.Record, s.Checkpoint = false, ""
	prog, err := b.Program(true)
	if err != nil {
		return nil, err
	}
	blocks, all := program.RepeatedBlocks(prog)
	if len(blocks) == 0 {
		return nil, ErrNoBlocks
	}
	f := &CheckpointFit{Memory: memory, Of: len(blocks)}
	var last *Peak
	take := func(set []program.Block) (need int64, _ float64, _ error) {
		t, price := s, 0.0
		for _, block := range set {
			price += block.FLOPs
		}
		t.Checkpoint = namesOf(set)
		if last, err = b.peak(t, c); err != nil {
			return 0, 0, err
		}
		need, f.By = last.At(c)
		return need, price / max(3*all, 1), nil
	}
	if f.Plain, _, err = take(nil); err != nil {
		return nil, err
	}
	f.Need, f.Device = f.Plain, last.Device
	if f.All, f.PriceAll, err = take(blocks); err != nil {
		return nil, err
	}
	order, err := byPrice(blocks, f.Plain, take)
	if err != nil {
		return nil, err
	}
	set, err := f.cheapest(order, take)
	if err != nil {
		return nil, err
	}
	if len(set) > 0 {
		if f.Need, f.Price, err = take(set); err != nil {
			return nil, err
		}
		f.Device = last.Device
		if f.Fewer, f.PriceFewer, err = take(set[:len(set)-1]); err != nil {
			return nil, err
		}
		if err = b.underLimit(s, f, blocks, order, set, memory-(last.Device-last.Reserved), take); err != nil {
			return nil, err
		}
	}
	f.Fits = f.Need <= memory
	f.Blocks, f.Expression = asExpression(set, blocks)
	return f, nil
}

// asExpression returns the names of a set of a model's blocks, and what --checkpoint takes for them.
func asExpression(set, blocks []program.Block) (names []string, expression string) {
	names = []string{}
	for _, block := range set {
		names = append(names, block.Name)
	}
	if len(set) > 0 && isFirst(set, blocks) {
		return names, fmt.Sprintf("%s:%d", program.Blocks, len(set))
	}
	return names, namesOf(set)
}

// namesOf is what --checkpoint takes for some blocks.
func namesOf(set []program.Block) string {
	names := make([]string, len(set))
	for i, block := range set {
		names[i] = regexp.QuoteMeta(block.Name)
	}
	return strings.Join(names, "|")
}

// cheapest returns the blocks to checkpoint for the step to fit, none where it fits without.
func (f *CheckpointFit) cheapest(order []program.Block, take taking) ([]program.Block, error) {
	if f.Plain <= f.Memory {
		return nil, nil
	}
	set, err := firstThatFit(order, f.Memory, take)
	if err != nil {
		return nil, err
	}
	return needed(set, f.Memory, take)
}

// firstThatFit returns the fewest first blocks of an order with which the step fits, all of them where none do.
func firstThatFit(order []program.Block, memory int64, take taking) ([]program.Block, error) {
	tooFew, fits := 0, len(order) // the first does not fit; the other may
	for fits-tooFew > 1 {
		at := (tooFew + fits) / 2
		bytes, _, err := take(order[:at])
		if err != nil {
			return nil, err
		}
		if bytes <= memory {
			fits = at
		} else {
			tooFew = at
		}
	}
	return slices.Clone(order[:fits]), nil
}

// isFirst reports whether a set is the first blocks of a model, in any order.
func isFirst(set, blocks []program.Block) bool {
	for _, block := range blocks[:len(set)] {
		if !slices.Contains(set, block) {
			return false
		}
	}
	return true
}

// peak simulates a step as far as a confidence needs it.
func (b *Model) peak(s Step, c Confidence) (*Peak, error) {
	simulate := b.Simulate
	if c == Predicted {
		simulate = b.simulateOnce
	}
	sim, err := simulate(s)
	if err != nil {
		return nil, err
	}
	return &sim.Peak, nil
}

type taking func([]program.Block) (need int64, price float64, err error)

// byPrice orders blocks by what a byte costs that checkpointing each alone frees. Blocks with as many FLOPs as the one
// before are taken to free as much.
func byPrice(blocks []program.Block, plain int64, take taking) ([]program.Block, error) {
	price := make([]float64, len(blocks))
	for i, block := range blocks {
		if i > 0 && block.FLOPs == blocks[i-1].FLOPs {
			price[i] = price[i-1]
			continue
		}
		need, _, err := take(blocks[i : i+1])
		if err != nil {
			return nil, err
		}
		price[i] = block.FLOPs / float64(max(plain-need, 1))
	}
	at := make([]int, len(blocks))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(price[a], price[b]) })
	order := make([]program.Block, len(blocks))
	for i, k := range at {
		order[i] = blocks[k]
	}
	return order, nil
}

// needed leaves out blocks without which the set fits still, the costliest first. Each size of block is tried once.
func needed(set []program.Block, memory int64, take taking) ([]program.Block, error) {
	tried := map[float64]bool{}
	for {
		costliest := -1
		for i, block := range set {
			if !tried[block.FLOPs] && (costliest < 0 || block.FLOPs >= set[costliest].FLOPs) {
				costliest = i
			}
		}
		if costliest < 0 || len(set) == 1 {
			return set, nil
		}
		without := slices.Delete(slices.Clone(set), costliest, costliest+1)
		need, _, err := take(without)
		if err != nil {
			return nil, err
		}
		if need <= memory {
			set = without
		} else {
			tried[set[costliest].FLOPs] = true
		}
	}
}
