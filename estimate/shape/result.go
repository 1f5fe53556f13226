package shape

import "github.com/memestimate/memestimate/onnxload"

// A Result is what inference found out about a model.
type Result struct {
	types []Type
}

// Type returns the type of a value.
func (r *Result) Type(id onnxload.ValueID) Type { return r.types[id] }

func (f *inferer) result() *Result { return &Result{types: f.types} }
