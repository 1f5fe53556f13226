package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// torchTypes are PyTorch's element types by ONNX's. Text has none.
var torchTypes = [...]program.DType{
	onnxload.Bool: program.Bool, onnxload.Uint8: program.Uint8, onnxload.Int8: program.Int8, onnxload.Uint16: program.Uint16,
	onnxload.Int16:  program.Int16,
	onnxload.Uint32: program.Uint32, onnxload.Int32: program.Int32, onnxload.Uint64: program.Uint64, onnxload.Int64: program.Int64,
	onnxload.Float16: program.Float16, onnxload.BFloat16: program.BFloat16, onnxload.Float32: program.Float32,
	onnxload.Float64:   program.Float64,
	onnxload.Complex64: program.Complex64, onnxload.Complex128: program.Complex128,
	onnxload.Float8E4M3FN: program.Float8E4M3FN, onnxload.Float8E4M3FNUZ: program.Float8E4M3FNUZ,
	onnxload.Float8E5M2:     program.Float8E5M2,
	onnxload.Float8E5M2FNUZ: program.Float8E5M2FNUZ, onnxload.Float8E8M0: program.Float8E8M0, onnxload.Float4E2M1: program.Float4,
	onnxload.Uint4: program.Uint4, onnxload.Int4: program.Int4, onnxload.Uint2: program.Uint2, onnxload.Int2: program.Int2,
}

func dtypeOf(d onnxload.DType) program.DType {
	if int(d) >= len(torchTypes) {
		return program.Undefined
	}
	return torchTypes[d]
}

// elem is the type of a value's elements in PyTorch.
func (b *recovery) elem(id onnxload.ValueID) program.DType { return dtypeOf(b.types.Type(id).Elem) }
