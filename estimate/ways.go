package estimate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
)

// A Way is a training step under some settings, simulated without limits. Sizes are bytes.
type Way struct {
	Settings  string  `json:"settings"` // as the command line has them; "" is the step as it was asked for
	GPUs      int     `json:"gpus"`
	Price     float64 `json:"price"` // FLOPs that are done again, as a share of the step's
	Allocated int64   `json:"allocated_bytes"`
	Device    int64   `json:"device_bytes"`
	Need      int64   `json:"need_bytes"` // what is held against the memory
	By        string  `json:"by"`         // as in Fit
	Fits      bool    `json:"fits"`
	Error     string  `json:"error,omitempty"`

	changes int // settings that change what is learnt: precision, optimizer
}

// defaultGPUs is how many GPUs Ways takes there to be where the step does not say.
const defaultGPUs = 8

// Ways simulates a step in each precision, with and without an optimizer of few states, with and without checkpointed
// blocks, on one GPU and on several, and says which of it takes at most so much memory on the device of a rank, with a
// confidence. The cheapest come first: those on fewest GPUs, of these those that change fewest settings that change
// what is learnt, of these those that compute least again, of these those that take most. What does not fit comes
// behind, and what cannot be simulated last: of each scheme once for each reason. Of a large model, each run of which
// takes most of a second, several GPUs are tried with the step's own precision, optimizer and checkpoints alone.
func (b *Model) Ways(s Step, memory int64, c Confidence) ([]Way, error) {
	prog, err := b.Program(true)
	if err != nil {
		return nil, err
	}
	s = s.free()
	s.Record = false
	blocks, all := program.RepeatedBlocks(prog)
	again := 0.0
	for _, block := range blocks {
		again += block.FLOPs
	}
	plans := combinations(s, len(blocks) > 0, again/max(3*all, 1))
	if b.large() {
		plans = slices.DeleteFunc(plans, func(p candidate) bool { return p.way.GPUs > 1 && p.changed })
	}
	b.each(len(plans), func(i int) {
		w := &plans[i].way
		peak, err := b.peak(plans[i].step, c)
		if err != nil {
			w.Error = err.Error()
			return
		}
		w.Allocated, w.Device = peak.Allocated, peak.Device
		w.Need, w.By = peak.At(c)
		w.Fits = peak.Fits(memory, c)
	})
	slices.SortStableFunc(plans, func(x, y candidate) int {
		a, b := &x.way, &y.way
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.changes, b.changes),
			cmp.Compare(a.Price, b.Price), cmp.Compare(b.Device, a.Device))
	})
	var ways []Way
	told := map[[2]string]bool{}
	for _, p := range plans {
		why := [2]string{p.scheme, p.way.Error}
		if p.way.Error == "" || !told[why] {
			told[why] = true
			ways = append(ways, p.way)
		}
	}
	return ways, nil
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

// rank orders ways by whether they fit.
func (w *Way) rank() int {
	switch {
	case w.Error != "":
		return 2
	case w.Fits:
		return 0
	}
	return 1
}

// A candidate is a Way before it is simulated.
type candidate struct {
	way    Way
	step   Step
	scheme string // the flags of how GPUs train together
	// its precision, optimizer or checkpoints are not those of the step that was asked for
	changed bool
}

// combinations are all settings that Ways tries. again is what checkpointing the blocks computes once more, as a share
// of the step's FLOPs.
func combinations(s Step, blocks bool, again float64) (plans []candidate) {
	for _, scheme := range waysTogether(s) {
		for _, precision := range []torch.Precision{torch.FP32, torch.AMPBF16, torch.BF16} {
			for _, optimizer := range optimizersFor(s) {
				for _, checkpoint := range checkpointsFor(s, blocks) {
					p := candidate{step: s, scheme: scheme.flags}
					var flags []string
					set := func(changes int, format string, args ...any) {
						flags, p.way.changes = append(flags, fmt.Sprintf(format, args...)), p.way.changes+changes
					}
					if precision != cmp.Or(s.Precision, torch.FP32) {
						set(1, "--precision %s", precision)
					}
					if optimizer != cmp.Or(s.Optimizer, "adamw") {
						set(1, "--optimizer %s", optimizer)
					}
					if checkpoint != s.Checkpoint {
						set(0, "--checkpoint %s", checkpoint)
					}
					p.step.Precision, p.step.Scaler, p.step.Optimizer, p.step.Checkpoint = precision, false, optimizer, checkpoint
					p.changed = len(flags) > 0
					scheme.set(&p.step)
					p.way.GPUs = max(p.step.GPUs, 1)
					if scheme.flags != "" {
						set(0, "%s", scheme.flags)
					}
					if checkpoint == program.Blocks {
						p.way.Price = again
					}
					p.way.Settings = strings.Join(flags, " ")
					plans = append(plans, p)
				}
			}
		}
	}
	return plans
}

// A together is a way in which GPUs train together.
type together struct {
	flags string
	set   func(*Step)
}

// waysTogether are those that leave a rank less to hold than a GPU alone has: all GPUs with ZeRO-1, FSDP2 on two, four
// and so on: the first that fits is the smallest number of GPUs that holds the step.
func waysTogether(s Step) []together {
	n := s.GPUs
	if n < 2 {
		n = defaultGPUs
	}
	alone := func(s *Step) { s.Plan = s.Alone() }
	list := []together{{"", alone}}
	if s.GPUs > 1 {
		list[0].flags = "--gpus 1"
	}
	list = append(list, together{fmt.Sprintf("--gpus %d --parallel zero1", n), func(s *Step) {
		alone(s)
		s.GPUs, s.Parallel = n, program.ZeRO1
	}})
	for k := 2; k < 2*n; k *= 2 {
		k := min(k, n)
		list = append(list, together{fmt.Sprintf("--gpus %d --parallel fsdp --meta-device", k), func(s *Step) {
			alone(s)
			s.GPUs, s.Parallel, s.MetaDevice = k, program.FSDP, true
		}})
	}
	return list
}

// optimizersFor are the step's own, and one whose states are rows and columns.
func optimizersFor(s Step) []string {
	own := cmp.Or(s.Optimizer, "adamw")
	if own == "adafactor" {
		return []string{own}
	}
	return []string{own, "adafactor"}
}

// checkpointsFor are the step's own, and every block.
func checkpointsFor(s Step, blocks bool) []string {
	if s.Checkpoint == program.Blocks || !blocks {
		return []string{s.Checkpoint}
	}
	return []string{s.Checkpoint, program.Blocks}
}
