package shape

import "github.com/memestimate/memestimate/onnxload"

// read fetches the value of a small constant from the file.
func (f *inferer) read(t *onnxload.Tensor) *Const { return nil }
