package estimate

import "github.com/memestimate/memestimate/estimate/program"

// The outcomes of a step in some memory.
const (
	FitsAsPredicted = "fits"
	Retries         = "retries" // it goes on, slower: the allocator gives back all that it has cached, to ask again
	RunsOut         = "runs out"
)

// A Survivor is the cheapest set of blocks with which a step goes on in some memory as predicted, be it because the
// allocator gives back what it has cached. With fewer blocks of the order in which they are chosen it runs out.
type Survivor struct {
	Blocks     []string `json:"blocks"`     // none where the plain step survives
	Expression string   `json:"checkpoint"` // the same for --checkpoint
	Price      float64  `json:"price"`
	Need       int64    `json:"need_bytes"`        // as of the set that is proposed: what it takes where nothing limits it
	Outcome    string   `json:"outcome"`           // it fits, or goes on by retries
	Retries    int64    `json:"retries"`           // in the first twenty steps
	EachStep   int64    `json:"retries_each_step"` // in the last of these, and so in each that follows

	set []program.Block
}

// manySurvive is the number of steps that are simulated of one that may survive by retries: what the allocator has
// cached takes up to 15 to become alike, in resnet50, and some run out on the way.
const manySurvive = 20

// outcome simulates a step with a set of blocks checkpointed where the allocator may reserve so much.
func (b *Model) outcome(s Step, set []program.Block, limit int64) (string, *Simulation, error) {
	if limit <= 0 {
		return RunsOut, nil, nil
	}
	s.Checkpoint, s.MemoryLimit, s.steps = namesOf(set), limit, manySurvive
	sim, err := b.simulateOnce(s)
	switch {
	case err != nil:
		return "", nil, err
	case sim.Replay.OOM != nil:
		return RunsOut, nil, nil
	case sim.Replay.Stats.AllocRetries > 0:
		return Retries, sim, nil
	}
	return FitsAsPredicted, sim, nil
}

// underLimit adds what becomes of a step with fewer blocks checkpointed where the allocator may reserve so much.
func (b *Model) underLimit(s Step, f *CheckpointFit, blocks, order, set []program.Block, limit int64,
	take taking) (err error) {
	if f.EndFewer, _, err = b.outcome(s, set[:len(set)-1], limit); err != nil {
		return err
	}
	most := len(set) - 1
	if f.Need > f.Memory { // then all of them may survive too
		most++
	}
	if f.Survivor, err = b.survivor(s, blocks, order[:most], limit); err != nil || f.Survivor == nil {
		return err
	}
	f.Survivor.Need, f.Survivor.Price, err = take(f.Survivor.set)
	return err
}

// survivor returns the fewest first blocks of an order with which the step survives where the allocator may reserve so
// much, nil where all of them do not. They are counted up: what lies between cached blocks is lost,
// so that a step may survive with a set and run out with a larger one.
func (b *Model) survivor(s Step, blocks, order []program.Block, limit int64) (*Survivor, error) {
	set, end, sim, err := order[:0], RunsOut, (*Simulation)(nil), error(nil)
	for n := 0; n <= len(order) && end == RunsOut; n++ {
		set = order[:n]
		if end, sim, err = b.outcome(s, set, limit); err != nil {
			return nil, err
		}
	}
	if end == RunsOut {
		return nil, nil
	}
	v := &Survivor{set: set, Outcome: end, Retries: sim.Replay.Stats.AllocRetries}
	v.Blocks, v.Expression = asExpression(set, blocks)
	for _, span := range sim.Replay.Spans {
		if span.Step == manySurvive {
			v.EachStep += span.Retries
		}
	}
	return v, nil
}
