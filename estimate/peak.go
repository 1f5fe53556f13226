package estimate

import (
	"cmp"
	"slices"

	"github.com/memestimate/memestimate/estimate/caching"
	"github.com/memestimate/memestimate/estimate/timeline"
)

// A Peak is the moment of a run at which the most memory is allocated, and what the run takes in
// all. Sizes are bytes.
type Peak struct {
	Allocated  int64            `json:"allocated_bytes"` // torch.cuda.max_memory_allocated()
	Reserved   int64            `json:"reserved_bytes"`  // torch.cuda.max_memory_reserved()
	Device     int64            `json:"device_bytes"`    // reserved and context: nvidia-smi
	UpperBound int64            `json:"upper_bound_bytes"`
	Phase      string           `json:"phase"`
	Step       int              `json:"step"`
	Layer      string           `json:"layer"`
	ByCategory map[string]int64 `json:"by_category"` // of the allocated bytes; "rounding" is what blocks hold beyond the requests
	Live       []Live           `json:"live"`        // the largest tensors at that moment
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

// layerOf names the layer of an event. What the criterion and its backward pass take belongs to the loss.
func layerOf(tl *timeline.Timeline, e timeline.Event) string {
	if e.Layer < 0 || int(e.Layer) >= len(tl.Layers) {
		if e.Phase == timeline.Loss || e.Phase == timeline.Backward {
			return "loss"
		}
		return ""
	}
	return tl.Layers[e.Layer]
}

// peakOf describes the moment at which the most is allocated.
func peakOf(tl *timeline.Timeline, res *caching.Result) Peak {
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
	e := tl.Events[at]
	p.Phase, p.Step, p.Layer = e.Phase.String(), int(e.Step), layerOf(tl, e)
	type key struct{ layer, category string }
	groups := map[key]*Live{}
	for _, i := range liveAt(tl, at) {
		e := tl.Events[i]
		c := e.Category.String()
		p.ByCategory[c] += e.Bytes
		k := key{layerOf(tl, e), c}
		g := groups[k]
		if g == nil {
			g = &Live{Layer: k.layer, Category: c}
			groups[k] = g
		}
		g.Bytes += e.Bytes
		g.Tensors++
	}
	p.ByCategory["rounding"] = res.PeakAllocated.Allocated - res.PeakAllocated.Requested
	for _, g := range groups {
		p.Live = append(p.Live, *g)
	}
	slices.SortFunc(p.Live, func(a, b Live) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Category, b.Category))
	})
	p.Live = p.Live[:min(len(p.Live), largestLive)]
	return p
}

// liveAt returns the indices of the Alloc events whose blocks are held just after event at.
func liveAt(tl *timeline.Timeline, at int) []int {
	where := make([]int, tl.Blocks)
	for i := range where {
		where[i] = -1
	}
	for i, e := range tl.Events[:at+1] {
		switch e.Kind {
		case timeline.Alloc:
			where[e.Block] = i
		case timeline.Free:
			where[e.Block] = -1
		}
	}
	return slices.DeleteFunc(where, func(i int) bool { return i < 0 })
}

// phasesOf lists the phases of the first and of the last step, and of the one in which the peak is where
// that is another one.
func phasesOf(res *caching.Result, peak int) []Phase {
	last := int32(0)
	for _, s := range res.Spans {
		last = max(last, s.Step)
	}
	phases := []Phase{}
	for _, s := range res.Spans {
		if s.Step == 0 || s.Step == 1 || s.Step == last || int(s.Step) == peak {
			phases = append(phases, Phase{int(s.Step), s.Phase.String(), s.End.Allocated, s.PeakAllocated.Allocated})
		}
	}
	return phases
}

// heldAtEnd returns the bytes of each category that live when the run has ended, and the most that
// gradients of parameters ever took.
func heldAtEnd(tl *timeline.Timeline) (byCategory [timeline.NumCategories]int64, gradients int64) {
	category := make([]timeline.Category, tl.Blocks)
	for _, e := range tl.Events {
		switch e.Kind {
		case timeline.Alloc:
			category[e.Block] = e.Category
			byCategory[e.Category] += e.Bytes
			gradients = max(gradients, byCategory[timeline.Gradient])
		case timeline.Free:
			byCategory[category[e.Block]] -= e.Bytes
		}
	}
	return byCategory, gradients
}
