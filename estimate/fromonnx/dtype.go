package fromonnx

import (
	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/onnxload"
)

// torchTypes are PyTorch's element types by ONNX's. Text has none.
var torchTypes = [...]aten.DType{
	onnxload.Bool: aten.Bool, onnxload.Uint8: aten.Uint8, onnxload.Int8: aten.Int8, onnxload.Uint16: aten.Uint16,
	onnxload.Int16:  aten.Int16,
	onnxload.Uint32: aten.Uint32, onnxload.Int32: aten.Int32, onnxload.Uint64: aten.Uint64, onnxload.Int64: aten.Int64,
	onnxload.Float16: aten.Float16, onnxload.BFloat16: aten.BFloat16, onnxload.Float32: aten.Float32,
	onnxload.Float64:   aten.Float64,
	onnxload.Complex64: aten.Complex64, onnxload.Complex128: aten.Complex128,
	onnxload.Float8E4M3FN: aten.Float8E4M3FN, onnxload.Float8E4M3FNUZ: aten.Float8E4M3FNUZ,
	onnxload.Float8E5M2:     aten.Float8E5M2,
	onnxload.Float8E5M2FNUZ: aten.Float8E5M2FNUZ, onnxload.Float8E8M0: aten.Float8E8M0, onnxload.Float4E2M1: aten.Float4,
	onnxload.Uint4: aten.Uint4, onnxload.Int4: aten.Int4, onnxload.Uint2: aten.Uint2, onnxload.Int2: aten.Int2,
}

func dtypeOf(d onnxload.DType) aten.DType {
	if int(d) >= len(torchTypes) {
		return aten.Undefined
	}
	return torchTypes[d]
}
