package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/caching"
)

// A Guess is a choice between programs that are exported alike, or what else an estimate rests on that the file does
// not say. Sizes are bytes.
type Guess struct {
	// a row of recover.Guesses or program.VariableGuesses, or one of the causes: see causes.go
	Name  string `json:"name"`
	Takes string `json:"takes"` // what is taken for what
	// false: too few measured models bear it out, and the upper bound has room for it
	Made    bool     `json:"made"`
	Assume  string   `json:"assume,omitempty"` // the value of --assume that decides it otherwise
	Places  int      `json:"places"`           // where it is, or could have been, made
	Layers  []string `json:"layers,omitempty"` // the first of them
	Tensors int64    `json:"tensor_bytes"`     // that the calls there make
	Weighed bool     `json:"weighed"`          // Bytes is known: the run was simulated with it decided otherwise
	Bytes   int64    `json:"bytes"`            // by which the peak of what is allocated would be larger then
	// by which it would be smaller at the other end, of a cause that has two
	Fewer int64 `json:"bytes_less,omitempty"`

	madeInRun bool // see guessRow
}

// A guessRow describes a guess, about how a library writes something or about how long Python's variables live.
type guessRow struct {
	name, takes string
	madeInRun   bool // it is made when a program runs: recovery does not ask for it
}

// guessRows are all of them.
func guessRows() (rows []guessRow) {
	for _, r := range recover.Guesses {
		rows = append(rows, guessRow{r.Name, r.Takes, false})
	}
	for _, r := range program.VariableGuesses {
		rows = append(rows, guessRow{r.Name, r.Takes, true})
	}
	return append(rows, guessRow{name: torch.EveryHead,
		takes: "an output that nothing in the model reads taken for part of the loss", madeInRun: true})
}

// GuessNames are the names of the guesses that can be decided otherwise.
func GuessNames() (names []string) {
	for _, r := range guessRows() {
		names = append(names, r.name)
	}
	return names
}

// large reports whether runs of a model take so much time and memory that they are made one at a time.
func (b *Model) large() bool { return b.size >= manyNodes }

const (
	mostWeighed = 6 // guesses that are decided otherwise, each of which takes another run
	someLayers  = 8 // of a guess
)

// guesses lists what a run rests on: those that move the peak most come first, then those with the largest tensors. The
// run is simulated once more with each of the few switched off that have the largest.
func (b *Model) guesses(s Step, sim *Simulation) ([]Guess, error) {
	list := guessesOf(sim)
	slices.SortStableFunc(list, func(x, y Guess) int { return cmp.Compare(y.Tensors, x.Tensors) })
	var weigh []func() error
	for i := range min(len(list), mostWeighed) {
		if !b.large() {
			weigh = append(weigh, func() error { return b.weigh(&list[i], s, sim) })
		}
	}
	causes, err := b.causes(s, sim, weigh...)
	list = append(list, causes...)
	slices.SortStableFunc(list, func(x, y Guess) int {
		return cmp.Or(cmp.Compare(y.Weight(), x.Weight()), cmp.Compare(y.Tensors, x.Tensors))
	})
	return list, err
}

// guessesOf gathers the guesses of a run by their rows, in the order of these, with where they are.
func guessesOf(sim *Simulation) (list []Guess) {
	of := map[string][]int32{}
	for _, c := range sim.Run.Guesses {
		of[c.Row] = append(of[c.Row], c.Origin)
	}
	if len(of) == 0 {
		return nil
	}
	calls := sim.prog.CallsByOrigin()
	for _, row := range guessRows() {
		places := of[row.name]
		if len(places) == 0 {
			continue
		}
		g := Guess{Name: row.name, Takes: row.takes, Made: true, Assume: row.name + "=no", Places: len(places),
			madeInRun: row.madeInRun}
		slices.Sort(places)
		for _, origin := range slices.Compact(places) {
			if origin < 0 || int(origin) >= len(calls) {
				continue
			}
			for _, c := range calls[origin] {
				g.at(sim.prog.LayerOf(c), sim.prog.ResultBytes(c))
			}
		}
		list = append(list, g)
	}
	return list
}

// at adds a call to where a guess is.
func (g *Guess) at(layer string, bytes int64) {
	g.Tensors += bytes
	if layer != "" && len(g.Layers) < someLayers && !slices.Contains(g.Layers, layer) {
		g.Layers = append(g.Layers, layer)
	}
}

// again is the same model without some guesses, or with the longest lives of variables: to be recovered anew, or, where
// guesses are made when a program runs, with the programs that were recovered.
func (b *Model) again(without map[string]bool, longest, madeInRun bool) *Model {
	c := b.choices
	c.without, c.longest = maps.Clone(c.without), longest
	maps.Copy(c.without, without)
	other := b.choosing(c)
	if !madeInRun {
		return other
	}
	b.recovering.Lock()
	defer b.recovering.Unlock()
	other.programs.nodes = b.programs.nodes
	for k, p := range b.programs.of {
		if p != nil {
			recovered := *p
			recovered.Without, recovered.Longest = other.without, longest
			other.programs.of[k] = &recovered
		}
	}
	return other
}

// weigh simulates a run with one guess decided otherwise.
func (b *Model) weigh(g *Guess, s Step, sim *Simulation) error {
	other := b.again(map[string]bool{g.Name: true}, false, g.madeInRun)
	peak, err := other.peakAllocated(s, sim, g.madeInRun && g.Name != torch.EveryHead)
	if err != nil {
		return err
	}
	g.Bytes, g.Weighed = peak-sim.Peak.Allocated, true
	return nil
}

// peakAllocated returns the most bytes that a step allocates at once, as Simulation.Peak says it, and nothing else: for
// several of them beside a run of the same step, whose convolutions are planned already. Where nothing but the lives of
// variables differs, it is that of the run if they all end where they did.
func (b *Model) peakAllocated(s Step, beside *Simulation, lives bool) (int64, error) {
	s.Record = false
	conf, err := s.parse()
	if err != nil {
		return 0, err
	}
	if s.MemoryLimit == 0 && !s.limitedByGPU() && conf.MemoryFraction == 0 {
		opts, _ := s.options()
		p, err := b.planned(s)
		if err != nil {
			return 0, err
		}
		opts.Known = beside.Run.Known()
		if lives {
			opts.Like = beside.Run.Log
		}
		opts.Spare = b.spare()
		defer b.spared(opts.Spare)
		opts.Brief = true
		run, err := torch.Simulate(p, opts)
		if err != nil {
			return 0, fmt.Errorf("simulate: %w", err)
		}
		if run.Same || run.Log.Same(beside.Run.Log) {
			return beside.Peak.Allocated, nil
		}
		if peak, err := caching.PeakAllocated(run.Log, conf, nil); err == nil {
			return peak, nil
		}
	}
	sim, err := b.simulateOnce(s)
	if err != nil {
		return 0, err
	}
	return sim.Peak.Allocated, nil
}

// Weight is by how many bytes a guess may move the peak of what is allocated.
func (g *Guess) Weight() int64 { return max(g.Bytes, -g.Bytes, g.Fewer) }
