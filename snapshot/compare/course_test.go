package compare

import (
	"fmt"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// run is a made-up training run of so many layers and steps: parameters, and in each step activations, gradients and
// their frees. extra is called at the forward pass of each layer.
func run(layers, steps int, extra func(l *timeline.Log, layer int32)) *timeline.Log {
	l := new(timeline.Log)
	size := func(i int) int64 { return int64(1+i%7) << 10 }
	for i := range layers {
		l.Layers = append(l.Layers, fmt.Sprintf("block%d.conv", i))
		l.Alloc(timeline.Request{Bytes: size(i), Layer: int32(i), Category: timeline.Parameter}, 0)
	}
	for s := 1; s <= steps; s++ {
		l.Mark(int32(s), timeline.Forward)
		var acts, grads []int32
		for i := range layers {
			acts = append(acts, l.Alloc(timeline.Request{Bytes: 3 * size(i+1), Layer: int32(i),
				Category: timeline.Activation}, 0))
			if extra != nil {
				extra(l, int32(i))
			}
		}
		l.Mark(int32(s), timeline.Backward)
		for i := layers - 1; i >= 0; i-- {
			grads = append(grads, l.Alloc(timeline.Request{Bytes: size(i), Layer: int32(i), Category: timeline.Gradient}, 0))
			l.Free(acts[i], int32(i))
		}
		l.Mark(int32(s), timeline.Finish)
		for _, g := range grads {
			l.Free(g, 0)
		}
	}
	return l
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
	measured := run(12, 2, func(l *timeline.Log, layer int32) {
		switch layer {
		case 4:
			l.Free(l.Alloc(timeline.Request{Bytes: 1 << 20, Layer: layer, Category: timeline.Workspace}, 0), layer)
		case 9:
			l.Alloc(timeline.Request{Bytes: 5 << 20, Layer: layer, Category: timeline.Unknown}, 0)
		}
	})
	number := make([]int32, measured.Len())
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
func (c *Course) eventOf(l *timeline.Log, layer int32) int {
	for i, e := range l.Source().Each {
		if e.Step == c.MeasuredStep && e.Category == timeline.Activation && e.Layer == layer {
			return i + 1
		}
	}
	return -1
}
