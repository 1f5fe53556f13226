package module

// Tensors is a sum over constant tensors, each counted once.
type Tensors struct {
	Count   int64 `json:"count"` // elements
	Bytes   int64 `json:"bytes"`
	Tensors int64 `json:"tensors"`
}

// A Tensor is a value with the shape it has under the settings.
type Tensor struct {
	Name      string  `json:"name"`
	NameBytes *[]byte `json:"name_bytes,omitempty"` // the name, when it is not UTF-8
	DType     string  `json:"dtype"`                // as ONNX spells it; "" when unknown
	Shape     []int64 `json:"shape"`                // nil when unknown
}

// A Layer is a leaf module of the model, or an operator outside of any.
type Layer struct {
	Index      int      `json:"index"` // of the layer's first node in execution order
	Name       string   `json:"name"`
	NameBytes  *[]byte  `json:"name_bytes,omitempty"` // the name, when it is not UTF-8
	Op         string   `json:"op"`
	Module     string   `json:"module"` // path from the root: "layer1.0.conv1"; "" when the file does not say
	Nodes      int      `json:"nodes"`
	Inputs     []string `json:"inputs"` // values of other layers, or the model's inputs
	Outputs    []Tensor `json:"outputs"`
	Params     int64    `json:"parameters"`
	ParamBytes int64    `json:"parameter_bytes"`
	Activation int64    `json:"activation_bytes"`
	// what autograd keeps for backward, each storage with the layer that saved it first
	SavedBytes int64 `json:"saved_bytes"`
	InPlace    bool  `json:"in_place,omitempty"` // its output takes the storage of its input
}
