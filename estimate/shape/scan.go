package shape

import (
	"fmt"
	"slices"
)

// inferScan is Scan: state values first, then the tensors that are
// taken apart along an axis, one slice an iteration; the outputs are the states and the slices
// put together.
func inferScan(c *call) {
	scanned, states := c.scanCounts()
	inAxes, _ := c.attrInts("scan_input_axes")
	outAxes, _ := c.attrInts("scan_output_axes")
	g := c.body("body", states+scanned, len(c.node.Out))
	l := &loop{c: c, attr: "body", g: g, carried: states}
	for i := range states {
		l.ins = append(l.ins, c.in(i))
	}
	trips, known := unknownSize, false
	for i := range scanned {
		t := c.in(states + i)
		if dims, ok := c.dims(states + i); ok {
			at, err := nth(inAxes, i, len(dims))
			if err != nil {
				c.fail("scan input %d: %w", i, err)
			}
			trips = checked(scanLength(trips, dims[at], known))
			known = true
			t.Shape = Of(slices.Delete(slices.Clone(dims), at, at+1)...)
		}
		l.ins = append(l.ins, t)
	}
	l.settle(0, 0, make([]*Const, len(l.ins)))
	for i, id := range g.Outputs {
		t := c.inf.typeOf(id)
		if i >= states {
			at := 0
			if t.Shape.Ranked {
				var err error
				if at, err = nth(outAxes, i-states, len(t.Shape.Dims)+1); err != nil {
					c.fail("scan output %d: %w", i-states, err)
				}
			}
			t = stacked(t, at, trips)
		}
		c.set(i, t)
	}
	c.inf.runs(c.node, g)
}

// oldScan refuses Scan of opset 8, which has a batch dimension of its own and which no exporter of today writes.
func oldScan(c *call) {
	c.fail("of opset 8, with a batch dimension of its own, it is not modelled: export with opset 9 or later")
}

// scanCounts returns how many inputs are taken apart, and how many are states.
func (c *call) scanCounts() (scanned, states int) {
	n := c.attrInt("num_scan_inputs", 0)
	given := int64(len(c.node.In))
	if n < 1 || n > given {
		c.fail("num_scan_inputs is %d, wanted 1 to %d", n, given)
	}
	if states = int(given - n); states > len(c.node.Out) {
		c.fail("%d states but %d outputs", states, len(c.node.Out))
	}
	return int(n), states
}

// scanLength combines the lengths of two tensors that are taken apart together.
func scanLength(a, b Dim, known bool) (Dim, error) {
	x, okA := a.Int()
	y, okB := b.Int()
	switch {
	case known && okA && okB && x != y:
		return a, fmt.Errorf("tensors of length %d and %d are scanned together", x, y)
	case known && okA, known && a.Equal(b):
		return a, nil
	}
	return b, nil
}

// nth returns element i of a list of axes, 0 when the list is shorter, in 0..rank-1.
func nth(axes []int64, i, rank int) (int, error) {
	if i < len(axes) {
		return axis(axes[i], rank)
	}
	return axis(0, rank)
}
