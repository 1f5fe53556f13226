package onnxload

// A ValueID names a value of a Model: an index into Model.Values.
type ValueID int32

// NoValue stands for an omitted optional input or output. It is the zero ValueID, and Values have a place for it, which
// is empty: what is read of it is that nothing is known.
const NoValue ValueID = 0

// A Model is an ONNX file without its weights: what is computed, on which
// types, and where the bytes of each constant lie.
//
// Model-local functions are inlined, so a node is always an operator. Values
// of all graphs, subgraphs included, share one dense table: a subgraph that
// captures an outer value simply has that value's ID among its nodes' inputs.
type Model struct {
	Path            string // as given; "" when there was none
	Size            int64  // bytes of the file
	IRVersion       int64
	Producer        string
	ProducerVersion string
	Opsets          map[string]int64 // by domain; the default domain is ""
	Metadata        map[string]string
	Functions       int // model-local functions that the file declares
	TrainingInfos   int // training graphs that the file declares (not read)

	Values []Value // the first one is that of NoValue
	Graph  *Graph
	// what the signature of torch.export's program calls parameters, by name, also of those that were folded; nil without
	Trained map[string]bool

	Notes  []string // what was odd but acceptable, one line each
	Beside []string // external files with tensors that are small enough to be read, as the model names them
	Stacks []Frame  // the Python calls that nodes were traced in: Node.Stack less 1 is the index

	data *source // where tensor payloads are read from; see Model.Ints
}

// A Value is one edge of the graph: it has at most one producer.
type Value struct {
	Name string
	// as the file declares it (input, output, value_info), shared by values of one type; nil when it does not
	Declared *Type
	Init     *Tensor // its constant data when it is an initializer
}

// A Spec is what the signature of a program of torch.export says about one of its inputs.
type Spec uint8

const (
	NoSpec       Spec = iota // nothing, or something else
	SpecBuffer               // what register_buffer registered
	SpecConstant             // a plain attribute, self.grid = torch.linspace(...), or made in forward
)

// Type returns the declared type; its Kind is NoType when there is none.
func (v *Value) Type() Type {
	if v.Declared == nil {
		return Type{}
	}
	return *v.Declared
}

// A Graph is the model's graph, or the body of an If, Loop, Scan or the like.
type Graph struct {
	Name    string
	Nodes   []Node    // topologically sorted
	Inputs  []ValueID // of the main graph: initializers that are listed as inputs too (IR < 4) are left out
	Outputs []ValueID
	Inits   []ValueID // values of this graph with constant data, in file order
}

// A Node is one operator call.
type Node struct {
	Op      string
	Domain  string // "" for ai.onnx
	Name    string // may be empty
	Version int64  // the version of Domain that is in force for this node
	In, Out []ValueID
	Attrs   []Attr // shared by nodes with the same ones: not to be changed
	More    *More  // nil as a rule
	Stack   int32  // the Python call that it was traced in, see Model.Frame; 0 when the file does not say
}

// More is what few nodes have.
type More struct {
	Meta  []Entry // metadata_props, in file order, but for the stack and for what PyTorch's exporter says twice
	Scope string  // the call path of inlined functions, outermost first, "/"-separated
}

// Meta returns the metadata of a node, nil where it has none.
func (n *Node) Meta() []Entry {
	if n.More == nil {
		return nil
	}
	return n.More.Meta
}

// An Entry is a key and a value of a metadata list.
type Entry struct{ Key, Value string }

// An AttrType says which field of an Attr holds its value, numbered as
// ONNX's AttributeProto.AttributeType.
type AttrType uint8

// The attribute types.
const (
	AttrUndefined     AttrType = 0
	AttrFloat         AttrType = 1
	AttrInt           AttrType = 2
	AttrString        AttrType = 3
	AttrTensor        AttrType = 4
	AttrGraph         AttrType = 5
	AttrFloats        AttrType = 6
	AttrInts          AttrType = 7
	AttrStrings       AttrType = 8
	AttrTensors       AttrType = 9
	AttrGraphs        AttrType = 10
	AttrSparseTensor  AttrType = 11
	AttrSparseTensors AttrType = 12
	AttrTypeProto     AttrType = 13
	AttrTypeProtos    AttrType = 14
)

// An Attr is a named attribute of a node. Type says which field is set.
type Attr struct {
	Name    string
	Type    AttrType
	Int     int64
	Float   float32
	Str     string // the bytes as they are: not necessarily UTF-8
	Ints    []int64
	Floats  []float32
	Strs    []string
	Tensors []*Tensor // AttrTensor, AttrSparseTensor: one; AttrTensors, AttrSparseTensors: any number
	Graphs  []*Graph  // AttrGraph: one; AttrGraphs: any number
	Types   []Type    // AttrTypeProto: one; AttrTypeProtos: any number
}

// Input returns the input in that place, NoValue where the node has none there.
func (n *Node) Input(i int) ValueID { return at(n.In, i) }

// Output returns the output in that place, NoValue where the node has none there.
func (n *Node) Output(i int) ValueID { return at(n.Out, i) }

func at(ids []ValueID, i int) ValueID {
	if i >= len(ids) {
		return NoValue
	}
	return ids[i]
}

// NameOf returns the name of a value, "" for NoValue.
func (m *Model) NameOf(id ValueID) string { return m.Values[id].Name }

// Attr returns the attribute of that name, or nil.
func (n *Node) Attr(name string) *Attr {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			return &n.Attrs[i]
		}
	}
	return nil
}

// MetaValue returns the value of a metadata key, or "".
func (n *Node) MetaValue(key string) string {
	for _, e := range n.Meta() {
		if e.Key == key {
			return e.Value
		}
	}
	return ""
}

// A Kind says what a Type describes.
type Kind uint8

// The kinds of types.
const (
	NoType Kind = iota // nothing is known
	TensorType
	SparseTensorType
	SequenceType
	MapType
	OptionalType
	OpaqueType
)

// A Type is the declared type of a value.
type Type struct {
	Kind    Kind
	Elem    DType // tensors: the element; maps: the key
	HasRank bool  // tensors: whether Dims is known; a scalar has rank 0
	Dims    []Dim
	Of      *Type // sequences and optionals: the element; maps: the value
}

// A Dim is a declared dimension: a number, a symbol, or neither.
type Dim struct {
	Known bool
	Size  int64 // when Known
	// Param is the symbol or expression as written: "batch", "past_sequence_length + 1"; "" when there is none. Of a
	// Known one it is a name under which it takes other sizes, which no file has.
	Param string
}

// A Tensor is constant data: an initializer or an attribute. Its payload stays
// in the file; Model.Ints and Floats read it when it is small.
type Tensor struct {
	Name     string
	DType    DType
	Spec     Spec   // of an initializer: what its exporter says that it is to the module
	Folded   string // of one that the exporter computed: the names of what, as it lists them: "['zeros', 'val_3']"
	Dims     []int64
	Sparse   *SparseTensor // set when the tensor is stored as coordinates and values
	External *External     // set when the payload lies in a file of its own

	payload payload
	made    []int64 // the elements of IntTensor's
}

// IntTensor returns a tensor of integers that no file has.
func IntTensor(name string, elements []int64) *Tensor {
	return &Tensor{Name: name, DType: Int64, Dims: []int64{int64(len(elements))}, made: elements}
}

// A SparseTensor is a tensor stored as its non-zero values and their places.
type SparseTensor struct {
	Values  *Tensor // [NNZ]
	Indices *Tensor // [NNZ] linear, or [NNZ, rank]
}

// External says where a payload outside the model file lies.
type External struct {
	Location string // relative to the model's folder, slash-separated, as the file has it
	Offset   int64
	Length   int64 // -1 when the file does not say
}
