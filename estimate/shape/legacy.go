package shape

// legacyFamily has experimental operators of ONNX's first versions that later ones removed; converters of Core ML and
// Caffe2 wrote them.
var legacyFamily = family{"", []op{
	{"Affine", 1, unary, nil},
	{"Scale", 1, unary, nil},
	{"ImageScaler", 1, unary, nil},
}}
