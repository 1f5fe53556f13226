//go:build !js

package models

import "embed"

//go:embed graphs/*.onnx.zst open/*.onnx.zst
var graphs embed.FS
