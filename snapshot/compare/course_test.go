package compare

import (
	"fmt"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// run is a made-up training run of so many layers and steps: parameters, and in each step activations, gradients and
// their frees. extra is called at the forward pass of each layer.
func run(layers, steps int, extra func(b *timeline.Builder, step, layer int)) *timeline.Timeline {
	var b timeline.Builder
	size := func(i int) int64 { return int64(1+i%7) << 10 }
	for i := range layers {
		b.AddLayer(fmt.Sprintf("block%d.conv", i))
	}
	for i := range layers {
		b.SetLayer(int32(i))
		b.Alloc(timeline.Parameter, size(i))
	}
	for s := 1; s <= steps; s++ {
		b.Mark(int32(s), timeline.Forward)
		var acts, grads []int32
		for i := range layers {
			b.SetLayer(int32(i))
			acts = append(acts, b.Alloc(timeline.Activation, 3*size(i+1)))
			if extra != nil {
				extra(&b, s, i)
			}
		}
		b.Mark(int32(s), timeline.Backward)
		for i := layers - 1; i >= 0; i-- {
			b.SetLayer(int32(i))
			grads = append(grads, b.Alloc(timeline.Gradient, size(i)))
			b.Free(acts[i], 3*size(i+1))
		}
		b.Mark(int32(s), timeline.Finish)
		for k, g := range grads {
			b.Free(g, size(layers-1-k))
		}
	}
	return b.Timeline()
}

// A run beside itself does not part, and each module holds the same.
func TestCourseOfItself(t *testing.T) {
	tl := run(12, 3, nil)
	c := courseOf(tl.Source(), tl.Source(), nil)
	if c.First != nil || len(c.Partings) != 0 || c.Alike != c.Predicted || c.Alike != 48 || c.PredictedStep != 3 ||
		c.MeasuredStep != 3 {
		t.Errorf("%+v", c)
	}
	if len(c.Modules) != 12+12+1 || c.Modules[0].Name != "block0.conv" || c.Modules[12].Name != "block11.conv" ||
		c.Modules[12].Phase != "backward" {
		t.Errorf("modules %+v", c.Modules)
	}
	for _, m := range c.Modules {
		if m.Difference.Difference != 0 || m.Predicted == 0 {
			t.Errorf("%+v", m)
		}
	}
}

// What one run keeps, or takes for a moment, is found where it does, by its own event, and the rest is alike.
func TestCourseParts(t *testing.T) {
	predicted := run(12, 2, nil)
	measured := run(12, 2, func(b *timeline.Builder, step, layer int) {
		switch layer {
		case 4:
			b.Free(b.Alloc(timeline.Workspace, 1<<20), 1<<20)
		case 9:
			b.Alloc(timeline.Unknown, 5<<20)
		}
	})
	number := make([]int32, len(measured.Events))
	for i := range number {
		number[i] = int32(1000 + i)
	}
	c := courseOf(predicted.Source(), measured.Source(), number)
	if c.Alike != 48 || c.Predicted != 48 || c.Measured != 51 || len(c.Partings) != 2 || c.First == nil ||
		*c.First != c.Partings[0] {
		t.Fatalf("%+v", c)
	}
	want := []Parting{
		{Phase: "forward", MeasuredEvent: 1000 + c.eventOf(measured, 4), MeasuredMost: 1 << 20, Layer: "block5.conv",
			Site: "block4.conv"},
		{Phase: "forward", MeasuredEvent: 1000 + c.eventOf(measured, 9), Measured: 5 << 20, Difference: -5 << 20,
			MeasuredMost: 5 << 20, Layer: "block10.conv", Site: "block9.conv"},
	}
	for i, p := range c.Partings {
		p.PredictedEvent = 0
		if p != want[i] {
			t.Errorf("%+v, wanted %+v", p, want[i])
		}
	}
	for i, m := range c.Modules {
		gap := int64(-5 << 20) // what the first step kept is there from the beginning
		switch {
		case i == 4:
			gap -= 1 << 20
		case i >= 9:
			gap -= 5 << 20
		}
		if m.Difference.Difference != gap {
			t.Errorf("%s of %s: %d, wanted %d", m.Name, m.Phase, m.Difference.Difference, gap)
		}
	}
}

// eventOf is the event after the activation of a layer in the measured step.
func (c *Course) eventOf(t *timeline.Timeline, layer int32) int {
	for i, e := range t.Events {
		if e.Step == c.MeasuredStep && e.Category == timeline.Activation && e.Layer == layer {
			return i + 1
		}
	}
	return -1
}
