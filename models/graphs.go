//go:build !js

package models

import (
	"embed"

	"github.com/klauspost/compress/zstd"
)

//go:embed graphs/*.onnx.zst open/*.onnx.zst
var graphs embed.FS

func unpack(graph []byte) ([]byte, error) {
	// One goroutine: the files are small, and starting more costs longer than they take.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(graph, nil)
}
