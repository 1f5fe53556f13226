package shape

import (
	"github.com/memestimate/memestimate/onnxload"
)

// constantFamily has the operator whose value is written into the file.
var constantFamily = family{"", []op{
	{name: "Constant", since: 1, infer: inferConstant},
}}

// inferConstant takes the value from the one attribute that has it. Tensors are read when
// somebody asks for their value.
func inferConstant(c *call) {
	for i := range c.node.Attrs {
		a := &c.node.Attrs[i]
		one := len(a.Tensors) == 1
		switch {
		case a.Name == "value" && one, a.Name == "sparse_value" && one:
			t := a.Tensors[0]
			c.out(0, t.DType, OfInts(t.Dims...))
			if c.hasOut(0) {
				c.results[0] = &Const{stored: t}
			}
			return
		case a.Name == "value_int":
			c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{}, Ints: []Dim{N(a.Int)}})
			return
		case a.Name == "value_ints":
			c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{int64(len(a.Ints))}, Ints: toDims(a.Ints)})
			return
		case a.Name == "value_float":
			c.outConst(0, &Const{Elem: onnxload.Float32, Shape: []int64{}, Floats: []float64{float64(a.Float)}})
			return
		case a.Name == "value_floats":
			c.outConst(0, &Const{Elem: onnxload.Float32, Shape: []int64{int64(len(a.Floats))},
				Floats: toFloats(a.Floats)})
			return
		case a.Name == "value_string":
			c.out(0, onnxload.String, Of())
			return
		case a.Name == "value_strings":
			c.out(0, onnxload.String, OfInts(int64(len(a.Strs))))
			return
		}
	}
	c.fail("no attribute has the value, wanted %q or one like it", "value")
}
