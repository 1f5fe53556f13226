// Package kernels knows what PyTorch's kernels take beside their results: pure functions of shapes, sizes of
// elements and a device. It knows neither tensors nor gradients: whoever runs operators, and whoever reads a recording
// of them, asks it alike. Sizes are bytes.
package kernels

// A Script is what a kernel asks of the allocator while it runs, in order. Results that it does not make are there
// before it begins.
type Script []Step

// A Step is one request of a Script.
type Step struct {
	Do    Action
	Which int   // the number of what is taken or given back, or of the result that is made; each from 0
	Bytes int64 // of what is taken, or of the storage that a result is made in where that is not the tensor's own size
	Plan  int32 // of what is taken and can be done without, -1 of a search: see timeline.Event.Plan
}

// An Action is what a Step does.
type Action uint8

// The actions.
const (
	Take  Action = iota // temporary memory is allocated
	Give                // and freed
	Keep                // cuBLAS's workspace is allocated, which it keeps: see Kernels.ClearBLAS
	Make                // a result is allocated
	Leave               // a result is not on the GPU, though it is for fake tensors
	Empty               // cached memory is given back to the device
)

// take allocates, and returns the number to give it back by.
func (s *Script) take(bytes int64) int {
	n := 0
	for _, step := range *s {
		if step.Do == Take {
			n++
		}
	}
	*s = append(*s, Step{Do: Take, Which: n, Bytes: bytes})
	return n
}

// give frees what was taken, in this order.
func (s *Script) give(taken ...int) {
	for _, n := range taken {
		*s = append(*s, Step{Do: Give, Which: n})
	}
}

// scratch allocates and frees.
func (s *Script) scratch(bytes int64) { s.give(s.take(bytes)) }

// makes allocates results.
func (s *Script) makes(results ...int) {
	for _, n := range results {
		*s = append(*s, Step{Do: Make, Which: n})
	}
}

// play appends the steps of another script.
func (s *Script) play(other Script) {
	first := 0
	for _, step := range *s {
		if step.Do == Take {
			first++
		}
	}
	for _, step := range other {
		if step.Do == Take || step.Do == Give {
			step.Which += first
		}
		*s = append(*s, step)
	}
}
