package estimate

import (
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
)

// What a Fit may be held against.
const (
	Budget      = "budget"       // a size that somebody set
	Capacity    = "gpu"          // a GPU's memory
	MemoryLimit = "memory-limit" // what the allocator may reserve
)

// A Fit says whether a run fits a size. Sizes are bytes.
type Fit struct {
	Limit string `json:"limit"` // Budget, Capacity or MemoryLimit
	Name  string `json:"name,omitempty"`
	Bytes int64  `json:"limit_bytes"`
	Need  int64  `json:"need_bytes"` // what was compared with it
	// which figure of the peak that is: device_bytes, likely_bytes, safe_bytes or reserved_bytes
	By   string `json:"by"`
	Fits bool   `json:"fits"`
}

// Fits reports whether a run fits so much memory on the device, by the figure of a confidence. The peak must be that of
// a run that nothing limits: one that needs more than there is goes on only while the allocator gives back what it has
// cached to ask again, or runs out, and neither is to fit.
func (p *Peak) Fits(memory int64, c Confidence) bool {
	need, _ := p.At(c)
	return need <= memory
}

// On returns what a run takes on a GPU where its memory is no limit. simulate runs the step; known is the peak of
// the same step on its own GPU. A GPU with twice the memory that the run takes there is not simulated: what kernels
// take differs by less, but for cuDNN's searches, which leave out what is not free.
func On(simulate func(Step) (*Peak, error), s Step, g gpu.Device, known *Peak) (*Peak, error) {
	if g == s.GPU || known.Safe < g.Memory/2 {
		return known, nil
	}
	s.GPU, s.Record = g, false
	return simulate(s.free())
}

// free is the step where nothing limits what it takes.
func (s Step) free() Step {
	s.Limited, s.MemoryLimit, s.unlimited = false, 0, true
	return s
}

// limit adds what becomes of a run within the limits of its step, and returns the run whose figures are the answer:
// what it takes where nothing limits it, unless it stays within the limits as conf sets the allocator.
func (r *Report) limit(s Step, conf string, free *Simulation,
	simulate func(Step) (*Simulation, error)) (*Simulation, error) {
	r.Simulation, r.OOM = free, free.OOM()
	allocator, err := caching.ParseOptions(conf)
	if err != nil {
		return nil, err
	}
	if s.MemoryLimit == 0 && allocator.MemoryFraction == 0 && (!s.limitedByGPU() || free.Peak.Device <= s.GPU.Memory) {
		return free, nil
	}
	limited, err := simulate(s)
	if err != nil {
		return nil, err
	}
	r.Simulation, r.OOM, r.Retries = limited, limited.OOM(), limited.retries()
	r.Notes = append(r.Notes, shortNotes(limited.Replay)...)
	if r.OOM == nil && r.Retries == 0 || free.OOM() != nil { // what takes more than is simulated
		return limited, nil
	}
	return free, nil
}

// Judge holds the run against the sizes that its step sets, and against a budget for the device
// memory unless that is 0. Where the device memory counts, it is that with this confidence which must fit.
func (r *Report) Judge(s Step, budget int64, c Confidence) {
	if r.Peak == nil {
		return
	}
	survives := r.OOM == nil && r.Retries == 0
	need, by := r.Peak.At(c)
	if s.MemoryLimit > 0 {
		r.Fits = append(r.Fits, Fit{Limit: MemoryLimit, Bytes: s.MemoryLimit, Need: r.Peak.Reserved, By: "reserved_bytes",
			Fits: survives})
	}
	if s.Limited {
		r.Fits = append(r.Fits, Fit{Limit: Capacity, Name: s.GPU.Name, Bytes: s.GPU.Memory, Need: need, By: by,
			Fits: survives && r.Peak.Fits(s.GPU.Memory, c)})
	}
	if budget > 0 {
		r.Fits = append(r.Fits, Fit{Limit: Budget, Bytes: budget, Need: need, By: by,
			Fits: survives && r.Peak.Fits(budget, c)})
	}
}

// OK reports whether the run fits all that it was held against.
func (r *Report) OK() bool {
	for _, f := range r.Fits {
		if !f.Fits {
			return false
		}
	}
	return true
}
