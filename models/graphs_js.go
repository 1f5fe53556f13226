package models

import "embed"

// A page names models alone: the other forms, three quarters of all bytes, are left out.
//
//go:embed graphs/*.ts-train.onnx.zst open/*.onnx.zst
//go:embed graphs/gpt2.dynamo-train.onnx.zst graphs/llama_160m.dynamo-train.onnx.zst graphs/qwen2_0_5b.dynamo-train.onnx.zst
var graphs embed.FS
