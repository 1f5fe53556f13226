package estimate

import (
	"fmt"
	"sort"

	"github.com/memestimate/memestimate/onnxload"
)

// manyGPUs is the largest number of GPUs that is tried.
const manyGPUs = 1024

// fewest finds the smallest number of GPUs that hold a batch of one safely, under the step's way to train together:
// one, where a GPU alone does, or so many that one less do not.
func (f *Fitting) fewest(m *onnxload.Model, opt Options, step Step) error {
	opt.Batch = 1
	bound, err := Bind(m, opt)
	if err != nil {
		return err
	}
	fits := func(n int) bool {
		s := step
		if s.GPUs = n; n == 1 {
			s.Plan = s.Alone()
		}
		sim, err := bound.Simulate(s)
		return err == nil && sim.Peak.Fits(f.Memory, Safe)
	}
	good := 1
	for ; !fits(good); good *= 2 {
		if good == manyGPUs || !step.Shrinks() {
			f.Notes = append(f.Notes, Note{Info,
				fmt.Sprintf("no number of GPUs that was tried, up to %d, holds a batch of one safely", good)})
			return nil
		}
	}
	more := good/2 + 1
	f.Fewest = more + sort.Search(good-more, func(i int) bool { return fits(more + i) })
	f.Notes = append(f.Notes, Note{Info,
		fmt.Sprintf("the smallest number of GPUs that hold a batch of one safely is %d", f.Fewest)})
	return nil
}
