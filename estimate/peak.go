package estimate

import (
	"cmp"
	"slices"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Peak is the moment of a run at which the most memory is allocated, and what the run takes in
// all. Sizes are bytes.
type Peak struct {
	Allocated int64 `json:"allocated_bytes"` // torch.cuda.max_memory_allocated()
	Reserved  int64 `json:"reserved_bytes"`  // torch.cuda.max_memory_reserved()
	Device    int64 `json:"device_bytes"`    // reserved and context: nvidia-smi
	// of the device memory; one run in twenty takes more: see Confidence
	Likely     int64   `json:"likely_bytes"`
	Safe       int64   `json:"safe_bytes"`        // fewer than two runs in a hundred take more, or three: see SafeRate
	SafeShare  float64 `json:"safe_share"`        // of runs that Safe holds in: see SafeRate
	UpperBound int64   `json:"upper_bound_bytes"` // the most that replays with other choices come to
	Phase      string  `json:"phase"`
	Step       int     `json:"step"`
	Layer      string  `json:"layer"`
	// of the allocated bytes; "rounding" is what blocks hold beyond the requests
	ByCategory map[string]int64 `json:"by_category"`
	Live       []Live           `json:"live"` // the largest tensors at that moment
}

// An OnGPU is what a process takes of one of its GPUs, as Peak has it.
type OnGPU struct {
	GPU        int32 `json:"gpu"`
	Allocated  int64 `json:"allocated_bytes"`
	Reserved   int64 `json:"reserved_bytes"`
	Device     int64 `json:"device_bytes"`
	Likely     int64 `json:"likely_bytes"`
	Safe       int64 `json:"safe_bytes"`
	UpperBound int64 `json:"upper_bound_bytes"`
}

// A Live is memory that is held at the peak, by layer and category.
type Live struct {
	Layer    string `json:"layer"`
	Category string `json:"category"`
	Bytes    int64  `json:"bytes"`
	Tensors  int    `json:"tensors"`
}

// A Phase is a part of the first step, of a steady one, or of the one in which the peak is.
type Phase struct {
	Step int    `json:"step"`
	Name string `json:"name"`
	End  int64  `json:"end_bytes"`  // allocated after it
	Peak int64  `json:"peak_bytes"` // largest allocated within it
}

// An OOM is the request that a limited run fails on.
type OOM struct {
	Phase     string `json:"at_phase"`
	Step      int    `json:"step"`
	Layer     string `json:"layer"`
	Tried     int64  `json:"tried_bytes"`
	Allocated int64  `json:"allocated_bytes"`
	Reserved  int64  `json:"reserved_bytes"`
	Message   string `json:"message"` // as PyTorch words it
}

// largestLive is how many entries Peak.Live has at most.
const largestLive = 20

// layerName names a layer. What the criterion and its backward pass take belongs to the loss.
func layerName(l *timeline.Log, layer int32, p timeline.Phase) string {
	if layer < 0 || int(layer) >= len(l.Layers) {
		if p == timeline.Loss || p == timeline.Backward {
			return lossLayer
		}
		return ""
	}
	return l.Layers[layer]
}

const lossLayer = "loss"

// peakOf describes the moment at which the most is allocated.
func peakOf(l *timeline.Log, res *caching.Result) Peak {
	p := Peak{
		Allocated:  res.PeakAllocated.Allocated,
		Reserved:   res.PeakReserved.Reserved,
		ByCategory: map[string]int64{},
		Live:       []Live{},
	}
	at := res.PeakAllocated.Event
	if at < 0 {
		return p
	}
	live := l.Live(at)
	last := l.Of(live[len(live)-1]) // which reached the peak
	phase, step := l.When(at)
	p.Phase, p.Step, p.Layer = phase.String(), int(step), layerName(l, last.Layer, phase)
	sums := map[place]sum{}
	for _, b := range live {
		r := l.Of(b)
		at := place{r.Category, layerName(l, r.Layer, r.Phase)}
		s := sums[at]
		sums[at] = sum{s.bytes + r.Bytes, s.tensors + 1}
	}
	for at, s := range sums {
		p.ByCategory[at.category.String()] += s.bytes
	}
	p.ByCategory["rounding"] = res.PeakAllocated.Allocated - res.PeakAllocated.Requested
	p.Live = largest(sums, largestLive)
	return p
}

// A place is what tensors are for and the layer that they are in, a sum what they take together.
type (
	place struct {
		category timeline.Category
		layer    string
	}
	sum struct {
		bytes   int64
		tensors int
	}
)

// largest returns the n largest, the largest first.
func largest(sums map[place]sum, n int) []Live {
	list := make([]Live, 0, n+1)
	for at, s := range sums {
		if len(list) == n && s.bytes < list[n-1].Bytes {
			continue
		}
		g := Live{at.layer, at.category.String(), s.bytes, s.tensors}
		i, _ := slices.BinarySearchFunc(list, g, func(a, b Live) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Category, b.Category))
		})
		list = slices.Insert(list, i, g)
		list = list[:min(len(list), n)]
	}
	return list
}

// phasesOf lists the phases of the first and of the last step, and of the one in which the peak is where
// that is another one. A phase that a step has several times, for it accumulates gradients, is listed once: with the
// largest of its peaks, and its last end.
func phasesOf(res *caching.Result, peak int) []Phase {
	last := int32(0)
	for _, s := range res.Spans {
		last = max(last, s.Step)
	}
	phases := []Phase{}
	for _, s := range res.Spans {
		if s.Step > 1 && s.Step != last && int(s.Step) != peak {
			continue
		}
		p := Phase{int(s.Step), s.Phase.String(), s.End.Allocated, s.PeakAllocated.Allocated}
		at := slices.IndexFunc(phases, func(o Phase) bool { return o.Step == p.Step && o.Name == p.Name })
		if at < 0 {
			phases = append(phases, p)
			continue
		}
		phases[at].End = p.End
		phases[at].Peak = max(phases[at].Peak, p.Peak)
	}
	return phases
}

// heldAtEnd returns the bytes of each category that live when the run has ended; of gradients, and of the optimizer's
// states, which a recorded program may drop before its end, the most there ever were. A step that repeats another
// adds nothing to either.
func heldAtEnd(l *timeline.Log) (byCategory [timeline.NumCategories]int64, gradients int64) {
	block, states := int32(0), int64(0)
	for s := range l.Stretches {
		if s.Later > 0 {
			break
		}
		for _, e := range s.Entries {
			switch e.Kind() {
			case timeline.Alloc:
				c := l.Of(block).Category
				block++
				byCategory[c] += e.Bytes()
				switch c {
				case timeline.Gradient:
					gradients = max(gradients, byCategory[c])
				case timeline.OptimizerState:
					states = max(states, byCategory[c])
				}
			case timeline.Free:
				r := l.Of(e.Block())
				byCategory[r.Category] -= r.Bytes
			}
		}
	}
	byCategory[timeline.OptimizerState] = states
	return byCategory, gradients
}
