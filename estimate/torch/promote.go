package torch

import "github.com/memestimate/memestimate/estimate/program"

// promote returns the element type of an arithmetic result: that of the tensors
// with dimensions, unless one without is of a higher kind (bool < integer < float;
// aten/src/ATen/native/TypeProperties.cpp).
func promote(operands ...*tensor) program.DType {
	var best [3]program.DType // with dimensions, zero-dimensional, Python number
	for _, t := range operands {
		if t == nil {
			continue
		}
		k := 0
		if t.host {
			k = 2
		} else if len(t.shape) == 0 {
			k = 1
		}
		best[k] = wider(best[k], t.dtype)
	}
	if best[2].IsFloat() {
		best[2] = program.Float32 // a Python float takes the default type
	}
	out := best[0]
	for _, d := range best[1:] {
		if kindRank(d) > kindRank(out) {
			out = d
		}
	}
	return out
}

func kindRank(d program.DType) int {
	switch {
	case d == program.Undefined:
		return 0
	case d == program.Bool:
		return 1
	case d.IsInt():
		return 2
	case d.IsFloat():
		return 3
	}
	return 4
}

func wider(a, b program.DType) program.DType {
	switch ra, rb := kindRank(a), kindRank(b); {
	case a == b || ra < rb:
		return b
	case ra > rb:
		return a
	case a.Bits() == b.Bits() && a.IsFloat():
		return program.Float32 // float16 with bfloat16
	case a.Bits() >= b.Bits():
		return a
	}
	return b
}
