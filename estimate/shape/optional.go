package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// optionalFamily has the operators on values that may be missing.
var optionalFamily = family{"", []op{
	{name: "Optional", since: 15, infer: inferOptional},
	{name: "OptionalHasElement", since: 15, infer: inferOptionalHasElement},
	{name: "OptionalGetElement", since: 15, infer: inferOptionalGetElement},
}}

// inferOptional wraps its input; without one the attribute says of what type the empty
// optional is.
func inferOptional(c *call) error {
	if c.has(0) {
		c.set(0, Optional(c.in(0)))
		return nil
	}
	a := c.node.Attr("type")
	if a == nil || len(a.Types) != 1 {
		return fmt.Errorf("neither an input nor the attribute %q is given", "type")
	}
	c.set(0, Optional(c.inf.fromDeclared(a.Types[0], func(int) Dim { return c.unknown() })))
	return nil
}

// inferOptionalHasElement is true for a tensor or sequence, which is there
// (opset 18 on), and false for no input at all; of an optional nobody knows.
func inferOptionalHasElement(c *call) error {
	c.out(0, onnxload.Bool, Of())
	known, has := !c.has(0), N(0)
	if k := c.in(0).Kind; k == onnxload.TensorType || k == onnxload.SequenceType {
		known, has = true, N(1)
	}
	if known {
		c.outConst(0, &Const{Elem: onnxload.Bool, Shape: []int64{}, Ints: []Dim{has}})
	}
	return nil
}

func inferOptionalGetElement(c *call) error {
	t := c.in(0)
	if t.Kind == onnxload.OptionalType {
		if t.Of == nil {
			return nil
		}
		t = *t.Of
	}
	if c.set(0, t); c.hasOut(0) {
		c.results[0] = c.constant(0)
	}
	return nil
}
