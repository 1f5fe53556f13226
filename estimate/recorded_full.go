package estimate

import (
	"fmt"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// A fullness says what a recording knows of a program that went on when it was told that the GPU's memory is full, as
// those do that try batches until one does not fit.
type fullness struct {
	caught bool // the run is on a GPU of the memory that the program was recorded with
	most   int64
	// fails is where the allocator has no memory although the tensors fit: by what the recording does not count, which
	// are workspaces and fragments. What the program does then it does not have.
	fails *OOM
}

// full holds the allocator of such a run to what the process may take: when that is used up, PyTorch gives cached
// blocks back, tries again, and only then raises its exception.
func full(run *recording.Run, s Step, cfg *caching.Config, d, on gpu.Device) (f fullness) {
	if run.Limit == 0 || s.MemoryLimit > 0 || d.Memory != on.Memory {
		return f
	}
	f.caught, f.most = true, cfg.Room
	cfg.Capacity = cfg.Room
	if run.Limit < d.Memory {
		cfg.Limit, f.most = run.Limit, min(run.Limit, cfg.Room)
	}
	return f
}

// replay replays the run, and where it does not survive its limits replays it without.
func (f *fullness) replay(sim *Simulation, cfg *caching.Config) (err error) {
	if sim.Replay, err = caching.NewReplayer(*cfg).Finish(sim.Run.Log); err != nil || !f.caught || sim.Replay.OOM == nil {
		return err
	}
	f.fails = sim.OOM()
	cfg.Capacity, cfg.Limit = 0, 0
	sim.Replay, err = caching.NewReplayer(*cfg).Finish(sim.Run.Log)
	return err
}

// hold keeps the figures to what there is: of a run that is told that the GPU is full, no more is ever taken. Where it
// runs out all the same, the need is what it takes with more memory, so that it does not fit.
func (f *fullness) hold(p *Peak, memory int64) {
	if !f.caught || f.fails != nil { // where it runs out, the need is what it had taken
		return
	}
	context := p.Device - p.Reserved
	p.Allocated, p.Reserved = min(p.Allocated, f.most), min(p.Reserved, f.most)
	p.Device = p.Reserved + context
	p.UpperBound, p.Likely, p.Safe = min(p.UpperBound, memory), min(p.Likely, memory), min(p.Safe, memory)
}

// note says what is not known of such a run.
func (f *fullness) note(run *recording.Run, on gpu.Device, replay *caching.Result) []Note {
	switch {
	case run.Limit == 0:
		return nil
	case !f.caught:
		return []Note{{Warning, fmt.Sprintf("the program was told that %s of the %s are full, and went on: with another "+
			"memory it goes on otherwise; record it for that GPU", mib(run.Limit), on.Name)}}
	case f.fails == nil && replay != nil && replay.Attempts > 0:
		return []Note{{Info, fmt.Sprintf("%s of the program ran out of memory, which it caught; what it does from then on "+
			"takes at most %s allocated, %s reserved", plural(replay.Attempts, "attempt"), mib(replay.Stands.Allocated),
			mib(replay.Stands.Reserved))}}
	case f.fails != nil:
		return []Note{{Warning, fmt.Sprintf("the program goes on when the GPU is full, and here its tensors fit, but not "+
			"with what kernels and the allocator take beside them: it runs out of memory in the %s of step %d, and what it "+
			"does then is not in the recording; the figures are those of a run that had the memory",
			f.fails.Phase, f.fails.Step)}}
	}
	return nil
}
