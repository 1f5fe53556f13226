package timeline_test

import (
	"fmt"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// A step that holds an activation from its forward pass until the gradient is there.
func ExampleTimeline_Peak() {
	var b timeline.Builder
	b.AddLayer("fc")
	b.Alloc(timeline.Parameter, 1000)
	b.Mark(1, timeline.Forward)
	activation := b.Alloc(timeline.Activation, 600)
	b.Mark(1, timeline.Backward)
	b.Alloc(timeline.Gradient, 1000)
	b.Free(activation, 600)
	t := b.Timeline()
	if err := t.Check(); err != nil {
		fmt.Println(err)
	}
	bytes, at := t.Peak()
	fmt.Println(bytes, "bytes in the", t.Events[at].Phase, "pass")
	for _, i := range t.Live(at) {
		fmt.Println(t.Events[i].Category, t.Events[i].Bytes)
	}
	// Output:
	// 2600 bytes in the backward pass
	// parameter 1000
	// activation 600
	// gradient 1000
}
