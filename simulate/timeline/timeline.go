// Package timeline holds the spine of memestimate: the ordered allocations and
// frees of a run, whether a simulation predicted them or PyTorch recorded them.
package timeline

// A Kind says what an Event does.
type Kind uint8

// The kinds of events.
const (
	Alloc   Kind = iota // Block becomes live, Bytes long
	Free                // Block is given back
	Mark                // a phase begins; Phase and Step say which
	Release             // cached memory is given back to the device: torch.cuda.empty_cache()
)

// A Category is what an allocation is for. The first eight are those of
// PyTorch's memory profiler (torch.profiler._memory_profiler.Category), in its order.
type Category uint8

// The categories.
const (
	Parameter Category = iota
	OptimizerState
	Input
	Temporary
	Activation
	Gradient
	AutogradDetail
	Unknown
	Buffer    // a module's buffer: running statistics, tables, masks
	Workspace // cuBLAS, cuDNN and attention scratch
	NumCategories
)

var categoryNames = [NumCategories]string{
	"parameter", "optimizer_state", "input", "temporary", "activation",
	"gradient", "autograd_detail", "unknown", "buffer", "workspace",
}

// String returns the category's name: "parameter", "optimizer_state", ...
func (c Category) String() string {
	if c >= NumCategories {
		return "unknown"
	}
	return categoryNames[c]
}

// A Phase is a part of a run.
type Phase uint8

// The phases, in the order in which a training run first meets them.
const (
	Load Phase = iota // parameters, buffers and inputs move to the GPU
	Forward
	Loss
	Backward
	Optimizer
	Finish // gradients are given back, or zeroed
	NumPhases
)

var phaseNames = [NumPhases]string{"load", "forward", "loss", "backward", "optimizer", "finish"}

// String returns the phase's name: "load", "forward", ...
func (p Phase) String() string {
	if p >= NumPhases {
		return "unknown"
	}
	return phaseNames[p]
}

// NoLayer is the layer of events that belong to none.
const NoLayer = -1

// Moves reports whether a block is made or given back.
func (k Kind) Moves() bool { return k == Alloc || k == Free }

// PrivatePools is the first of the streams that stand for private pools of CUDA graphs. The allocator keeps a pool's
// blocks for it alone, as it keeps a stream's, and while its graphs live it gives none of them back to the device.
const PrivatePools = 1 << 7

// An Event is one request to the allocator, or the beginning of a phase.
type Event struct {
	Kind     Kind
	Category Category // of Alloc
	Phase    Phase
	Stream   uint8 // 0 is the default stream; see PrivatePools
	Step     int32 // 0 while loading; the first step is 1
	Layer    int32 // index into Log.Layers, or NoLayer
	Block    int32 // identifies the allocation: an Alloc and its Free share it
	Bytes    int64 // of the allocation, as requested, before any rounding

	// Plan marks an Alloc that can be done without: the workspace of the way in
	// which a library plans to compute something, numbered from 1. When there is no
	// memory for it, the library takes another plan from then on, so neither this nor any later
	// Alloc of the same plan happens. 0: the run ends when the memory cannot be had. Searching: see there.
	Plan int32
}

// Change returns by how many bytes, as requested, more is held after the event.
func (e *Event) Change() int64 {
	switch e.Kind {
	case Alloc:
		return e.Bytes
	case Free:
		return -e.Bytes
	}
	return 0
}

// Searching is the Plan of a workspace in which a library searches for the fastest of its ways. It looks at what is
// free first and leaves out the ways that take more, so that where the device has no room this Alloc alone does not
// happen.
const Searching = -1
