package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// A Fitting is how large a batch can be. Sizes are bytes.
type Fitting struct {
	Schema    string  `json:"schema"`
	Model     string  `json:"model"`
	GPU       string  `json:"gpu,omitempty"`
	Memory    int64   `json:"memory_bytes"`          // what the process may take on the device
	Batch     int64   `json:"batch"`                 // the largest whose device memory fits; 0 for none
	Likely    int64   `json:"likely_batch"`          // the largest whose Peak.Likely fits
	Safe      int64   `json:"safe_batch"`            // the largest whose Peak.Safe fits
	SafeShare float64 `json:"safe_share"`            // of runs that Safe holds in, as Peak's
	Fewest    int     `json:"fewest_gpus,omitempty"` // the fewest GPUs, of several, that hold a batch of one safely
	Curve     []Point `json:"curve"`                 // every batch that was simulated, in order
	Capped    bool    `json:"capped,omitempty"`      // Batch is the largest that was tried, not that fits
	Notes     []Note  `json:"notes"`
	Context   int64   `json:"context_bytes"`

	Settings Settings `json:"settings"`
}

// A Point is the run with one batch.
type Point struct {
	Batch      int64  `json:"batch"`
	Allocated  int64  `json:"allocated_bytes"`
	Reserved   int64  `json:"reserved_bytes"`
	Device     int64  `json:"device_bytes"`
	Likely     int64  `json:"likely_bytes"`
	SafeBytes  int64  `json:"safe_bytes"`
	UpperBound int64  `json:"upper_bound_bytes"`
	Phase      string `json:"phase"` // of the peak
	Fits       bool   `json:"fits"`
	Safe       bool   `json:"safe"` // SafeBytes fit as well
}

// At returns the device memory of a batch with a confidence.
func (p *Point) At(c Confidence) int64 {
	switch c {
	case Predicted:
		return p.Device
	case Likely:
		return p.Likely
	}
	return p.SafeBytes
}

// Largest returns the largest batch that fits with a confidence; 0 for none.
func (f *Fitting) Largest(c Confidence) int64 {
	switch c {
	case Predicted:
		return f.Batch
	case Likely:
		return f.Likely
	}
	return f.Safe
}

// Tried returns what a batch that was tried takes, for 0 what one sample does.
func (f *Fitting) Tried(batch int64) *Point {
	at, _ := slices.BinarySearchFunc(f.Curve, max(batch, 1), func(p Point, b int64) int { return cmp.Compare(p.Batch, b) })
	return &f.Curve[at]
}

// line returns the largest batch of at most so much memory if sizes lie on the straight line through two points: any
// larger one where it is level. What the optimizer takes at its peak does not depend on the batch.
func line(a, b Point, c Confidence, memory int64) int64 {
	sizeA, sizeB := a.At(c), b.At(c)
	if sizeA == 0 || sizeB == 0 { // one was not simulated
		return a.Batch + (b.Batch-a.Batch)/2
	}
	if sizeB <= sizeA {
		return 4 * b.Batch
	}
	slope := float64(sizeB-sizeA) / float64(b.Batch-a.Batch)
	return a.Batch + int64(min(float64(memory-sizeA)/slope, 2*maxBatch))
}

// maxBatch is the largest batch that Largest tries.
const maxBatch = 1 << 24

// ErrNoBatch is wrapped by the error about a model that has no open leading dimension.
var ErrNoBatch = errors.New("the model has no batch to choose")

// manyNodes is how many nodes a graph has at least for Largest to try few batches: seconds are spent on each. The
// likely and the safe batch are then found to one part in fewNear.
const (
	manyNodes = 20_000
	fewNear   = 16
)

// Largest finds the largest batch whose run takes at most so many bytes of device memory, and the largest whose
// safe figure does. It doubles the batch until the run is too large, then halves the interval; in a graph of many
// nodes it goes where the straight line through two batches that it tried says. Every batch on the way is simulated
// anew. Memory grows with the batch but for the steps of cuDNN's workspaces, so a somewhat larger batch may fit by
// luck; none below the one that it returns was seen to fail.
func Largest(m *onnxload.Model, opt Options, memory int64) (*Fitting, error) {
	if opt.Step == nil {
		opt.Step = &Step{}
	}
	step := opt.Step.free()
	step.Record, step.memory = false, memory
	f := &Fitting{Schema: Schema, Model: opt.Name, GPU: step.GPU.ID, Memory: memory, Notes: []Note{}}
	point := func(batch int64) (Point, error) { return f.point(m, opt, step, batch) }
	err := f.search(len(m.Graph.Nodes) >= manyNodes, point)
	if err == nil && step.GPUs > 1 && !step.Infer {
		err = f.fewest(m, opt, step)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Largest is the function of that name about the model that was bound, under the same options.
func (b *Model) Largest(memory int64) (*Fitting, error) {
	opt := b.asked
	return Largest(b.given, opt, memory)
}

// A batchSearch tries batches of a run, each once.
type batchSearch struct {
	memory int64
	few    bool // each takes seconds: few are tried
	point  func(batch int64) (Point, error)
	seen   map[int64]Point
	failed error
}

// search finds the batches of a run that point simulates. Few batches are tried where each takes seconds.
func (f *Fitting) search(few bool, point func(batch int64) (Point, error)) error {
	b := &batchSearch{memory: f.Memory, few: few, point: point, seen: map[int64]Point{}}
	good, bad := b.double()
	if b.failed != nil {
		return b.failed
	}
	if f.Capped = bad > maxBatch; !f.Capped {
		good = b.bisect(good, bad, maxBatch, Predicted)
	}
	f.Batch = good
	f.Likely, f.Safe = b.below(good, Likely), b.below(good, Safe)
	for _, p := range b.seen {
		if p.Device > 0 { // the others are beyond 64 bits
			f.Curve = append(f.Curve, p)
		}
	}
	slices.SortFunc(f.Curve, func(a, b Point) int { return int(a.Batch - b.Batch) })
	return nil
}

func (b *batchSearch) try(batch int64) Point {
	if p, ok := b.seen[batch]; ok {
		return p
	}
	p, err := b.point(batch)
	if err != nil {
		b.failed = errors.Join(b.failed, err)
	}
	b.seen[batch] = p
	return p
}

// double returns a batch that fits, 0 where none does, and a larger one that does not or is beyond maxBatch. The first
// batch tells whether the model can be run at all; some have a batch of one and no other.
func (b *batchSearch) double() (good, bad int64) {
	if !b.try(1).Fits || b.failed != nil {
		return 0, 1
	}
	good = 1
	for bad = 2; bad <= maxBatch && b.try(bad).Fits; {
		last := good
		good, bad = bad, bad*2
		if b.few { // one more than should fit, so that the interval is a short one
			bad = max(bad, min(line(b.seen[last], b.seen[good], Predicted, b.memory)+1, 16*good))
			if good < maxBatch {
				bad = min(bad, maxBatch)
			}
		}
	}
	return good, bad
}

// bisect returns the largest batch that fits with a confidence, to one part in near, between one that does and one that
// does not.
func (b *batchSearch) bisect(good, bad, near int64, c Confidence) int64 {
	fits := false
	for tried := 1; bad-good > max(1, good/near); tried++ {
		at := good + (bad-good)/2
		switch eighth := (bad - good) / 8; {
		case !b.few:
		case tried == 1 || near == maxBatch && tried%2 > 0:
			// in turn with half of what is left: what is reserved may rise in one great step
			at = min(max(line(b.seen[good], b.seen[bad], c, b.memory), good+1), bad-1)
		case tried == 2 && near < maxBatch && eighth > 0 && fits: // it is not far from where the line said
			at = good + eighth
		case tried == 2 && near < maxBatch && eighth > 0:
			at = bad - eighth
		}
		p := b.try(at)
		if fits = p.Device > 0 && p.At(c) <= b.memory; fits {
			good = at
		} else {
			bad = at
		}
	}
	return good
}

// below returns the largest batch up to one that fits with a confidence beyond what was predicted, between those that
// were tried.
func (b *batchSearch) below(batch int64, c Confidence) int64 {
	low, high := int64(0), batch+1
	for _, p := range b.seen {
		if p.Device > 0 && p.At(c) <= b.memory && p.Batch <= batch {
			low = max(low, p.Batch)
		}
	}
	for _, p := range b.seen {
		if (p.Device == 0 || p.At(c) > b.memory) && p.Batch > low {
			high = min(high, p.Batch)
		}
	}
	near := int64(maxBatch)
	if b.few {
		near = fewNear
	}
	return b.bisect(low, high, near, c)
}

// point simulates one batch. A run that is too large for the arithmetic does not fit.
func (f *Fitting) point(m *onnxload.Model, opt Options, s Step, batch int64) (Point, error) {
	opt.Batch = batch
	p := Point{Batch: batch}
	bound, err := Bind(m, opt)
	if err != nil {
		var bind *shape.BindError
		if errors.As(err, &bind) {
			return p, fmt.Errorf("%w: %w", ErrNoBatch, err)
		}
		if batch > 1 && !errors.Is(err, ErrNoBatch) {
			return p, nil
		}
		return p, err
	}
	sim, prog, why, err := bound.simulate(&s)
	if err != nil {
		if batch > 1 {
			return p, nil
		}
		return p, err
	}
	if batch == 1 {
		f.Settings = Settings{Dims: opt.Dims, Inputs: opt.Inputs}
		f.Settings.describe(s, sim.Run.Loss)
		f.Context = sim.Context
		if why != "" {
			f.Notes = append(f.Notes, Note{Warning, why})
		}
		if sim.Unknown > 0 {
			f.Notes = append(f.Notes, Note{Warning,
				fmt.Sprintf("%s no PyTorch counterpart here: the batch that fits may be smaller",
					plural(sim.Unknown, "node has", "nodes have"))})
		}
		f.Notes = append(f.Notes, infos(prog.Notes)...)
		f.Notes = append(f.Notes, sim.Notes...)
	}
	return f.at(batch, &sim.Peak), nil
}

// at is the point of a run whose peak is k.
func (f *Fitting) at(batch int64, k *Peak) Point {
	f.SafeShare = k.SafeShare
	return Point{
		Batch: batch, Allocated: k.Allocated, Reserved: k.Reserved, Device: k.Device, Likely: k.Likely,
		SafeBytes: k.Safe, UpperBound: k.UpperBound, Phase: k.Phase, Fits: k.Fits(f.Memory, Predicted), Safe: k.Fits(f.Memory, Safe),
	}
}
