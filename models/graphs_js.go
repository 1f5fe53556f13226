package models

import "embed"

// A page names models alone: the other forms, three quarters of all bytes, are left out.
//
//go:embed graphs/*.ts-train.onnx.zst open/*.onnx.zst
//go:embed graphs/gpt2.dynamo-train.onnx.zst graphs/llama_160m.dynamo-train.onnx.zst graphs/qwen2_0_5b.dynamo-train.onnx.zst
var graphs embed.FS

// unpack has nothing to do: the page's build embeds graphs unpacked, which its xz packs together to two thirds.
func unpack(graph []byte) ([]byte, error) { return graph, nil }
