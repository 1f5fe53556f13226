// Package program holds Programs: a model's forward pass as calls of ATen operators on values, in PyTorch's order, and
// what is said of each operator. A Plan changes one: parameters frozen, modules checkpointed, adapters, several GPUs. It
// knows neither where a program comes from nor what running it takes.
package program

import "slices"

// A ValueID names a value of a Program: an index into Program.Values.
type ValueID int32

// NoValue stands for an argument that is not given. It is the zero ValueID, and Values have a place for it, of kind
// None: what is read of it is that there is nothing.
const NoValue ValueID = 0

// A ValueKind says where a value comes from.
type ValueKind uint8

// The kinds of values.
const (
	Activation ValueKind = iota // computed by a call
	InputValue                  // given by the caller
	Parameter                   // collects a gradient
	Buffer                      // moves to the GPU with the model
	Constant                    // a tensor that lives on the GPU but not in the model's state
	Number                      // a Python number: no memory
	None                        // NoValue
)

// A Value is a tensor of a Program, with the shape and the element type that it has
// in 32-bit precision.
type Value struct {
	Name  string
	Shape []int64

	Kind   ValueKind
	DType  DType
	Frozen bool // a parameter with requires_grad=False: it collects no gradient
	Full   bool // it stays in float32 in a model of 16 bits
	Leaf   bool // an activation that a hook makes a leaf: output.requires_grad_(True)
}

// Add appends a value.
func (p *Program) Add(v Value) ValueID {
	if len(p.Values) == 0 {
		p.Values = append(p.Values, Value{Kind: None})
	}
	p.Values = append(p.Values, v)
	return ValueID(len(p.Values) - 1)
}

// InPlace counts the activations that are taken to write over their argument, which no graph records.
func (p *Program) InPlace() (n int) {
	for i := range p.Calls {
		if c := &p.Calls[i]; c.Args.Inplace && len(c.In) == 1 {
			n++
		}
	}
	return n
}

// A Call is one call of a PyTorch operator.
type Call struct {
	Op    string // its name: see Of
	In    []ValueID
	Out   []ValueID
	Args  *Args // shared: not to be written to
	Layer int32 // index into Program.Layers
	Scope int32 // index into Program.Scopes: the module whose forward makes the call

	Origin int32 // what it was recovered from, of Program.Origins: an ONNX node, the last one of several
	Stack  int32 // the line that makes it: see Lines; 0 where they are unknown
}

// Args are the arguments of a call that are not tensors. Each operator reads
// those that it has.
type Args struct {
	Dim     int     // the dimension to work on
	Dims    []int   // several of them, or a permutation
	Shape   []int64 // of the result, or sizes of parts
	Kernel  []int64 // pooling windows
	Stride  []int64 // convolutions, pooling, slices
	Pad     []int64 // before and after, as PyTorch's padding where symmetric
	Dilate  []int64
	Groups  int64
	Keep    bool // reductions: keep the reduced dimensions
	Inplace bool // writes into its first argument
	Train   bool // normalisation by batch statistics; dropout in force
	P       float64
	Causal  bool
	Bias    bool
	Hidden  int64 // recurrent layers
	Layers  int64
	Packed  int64  // likewise: elements of a packed batch; 0 where it is padded
	Both    bool   // bidirectional
	Mode    string // what a family's row distinguishes
	DType   DType

	Broadcast bool // attention to one key and value of all heads without enable_gqa
}

// Plain are no arguments but tensors, and inPlace says only that.
var Plain, inPlace = &Args{}, &Args{Inplace: true}

var PlainCall = &Call{Args: Plain}

// Kept returns arguments for a call to keep. Most calls have none, or work in place.
func (a Args) Kept() *Args {
	switch {
	case a.Same(Plain):
		return Plain
	case a.Same(inPlace):
		return inPlace
	}
	kept := a
	return &kept
}

// Same reports whether calls with these arguments do the same.
func (a *Args) Same(b *Args) bool {
	return a == b || a.Dim == b.Dim && a.Groups == b.Groups && a.Keep == b.Keep && a.Inplace == b.Inplace &&
		a.Train == b.Train && a.P == b.P && a.Causal == b.Causal && a.Bias == b.Bias && a.Hidden == b.Hidden &&
		a.Layers == b.Layers && a.Packed == b.Packed && a.Both == b.Both && a.Mode == b.Mode && a.DType == b.DType &&
		a.Broadcast == b.Broadcast && slices.Equal(a.Dims, b.Dims) && slices.Equal(a.Shape, b.Shape) &&
		slices.Equal(a.Kernel, b.Kernel) && slices.Equal(a.Stride, b.Stride) && slices.Equal(a.Pad, b.Pad) &&
		slices.Equal(a.Dilate, b.Dilate)
}

// InPlace makes the call work in place.
func (c *Call) InPlace() {
	a := *c.Args
	a.Inplace = true
	c.Args = a.Kept()
}

// A Guess is a choice between programs that are exported alike.
type Guess struct {
	Row    string // the name of its GuessRow
	Origin int32  // Call.Origin of what it is about
}

// A Span is a run of calls, both ends included.
type Span struct{ First, Last int32 }

// A Group is parameters that FSDP2 shards and gathers together: those of a module, or of the model what its modules
// leave.
type Group struct {
	Params []ValueID // in the order of Module.parameters
	Spans  []Span    // the calls of the module, in order; none for the model itself
}

// A Scope is a module in the tree of modules.
type Scope struct {
	Name   string // "layer1.0.conv1"; "" for the model
	Class  string // "Conv2d" where the file tells, and it is one of torch.nn
	Parent int32  // -1 for the model
	Cut    bool   // calls of modules within it may be taken for its own: the file says no more
}

// A Program is a model's forward pass as calls of PyTorch operators.
type Program struct {
	Values    []Value
	Calls     []Call
	Inputs    []ValueID
	Outputs   []ValueID
	Flat      [][]ValueID // parameters that a module keeps in one block: those of recurrent layers
	State     []ValueID   // parameters and buffers in the order in which .to("cuda") moves them
	Params    []ValueID   // the parameters among them in the order of Module.parameters
	Layers    []string
	Origins   int // how many things calls were recovered from; each has its number
	Scopes    []Scope
	Notes     []string        // what was restored or guessed, one line each
	Lost      []string        // what the export lost of the model, in a few words each
	Doubtful  bool            // another call is exported like one of these, and would save more: see recover.Source.Most
	Guesses   []Guess         // what could have been written otherwise
	Longest   bool            // Liveness has each result live to the end of the function that made it: the most that variables hold
	Without   map[string]bool // guesses that are switched off, by their rows' names
	InferOnly string          // by what the graph shows that it was made for inference; "" when nothing does
	Unknown   map[string]int  // operators without a row, by name, with their number

	// of parameters that are sharded and gathered together, the model's own last; none where nothing is sharded
	Groups []Group
	// calls that run under torch.utils.checkpoint with use_reentrant=False, one span a call of a module, in order
	Checkpoints []Span

	Lines Lines // those of Python that made the calls; nil where the file has none
}

// Read returns the activations that the calls of a span read and others make, in the order of reading.
func (p *Program) Read(s Span) (read []ValueID) {
	known := map[ValueID]bool{}
	for i := s.First; i <= s.Last; i++ {
		for _, v := range p.Calls[i].In {
			if v != NoValue && !known[v] && p.Values[v].Kind == Activation {
				known[v] = true
				read = append(read, v)
			}
		}
		for _, v := range p.Calls[i].Out {
			known[v] = true
		}
	}
	return read
}

// DropDead removes the calls whose results nothing reads, such as what made a mask that turned out
// to be an argument.
func (p *Program) DropDead() {
	live := make([]bool, len(p.Values))
	for _, v := range p.Outputs {
		live[v] = true
	}
	keep := make([]bool, len(p.Calls))
	for i := len(p.Calls) - 1; i >= 0; i-- {
		for _, v := range p.Calls[i].Out {
			keep[i] = keep[i] || v != NoValue && live[v]
		}
		if !keep[i] {
			continue
		}
		for _, v := range p.Calls[i].In {
			if v != NoValue {
				live[v] = true
			}
		}
	}
	if dead := slices.Index(keep, false); dead >= 0 {
		calls := p.Calls[:dead]
		for i := dead; i < len(keep); i++ {
			if keep[i] {
				calls = append(calls, p.Calls[i])
			}
		}
		p.Calls = calls
	}
	for i := range p.Values { // constants that only dead calls read
		if v := &p.Values[i]; v.Kind == Constant && !live[i] {
			v.Kind = Number
		}
	}
}

// Depth returns how many scopes are around and at s.
func (p *Program) Depth(s int32) (d int) {
	for ; s >= 0; s = p.Scopes[s].Parent {
		d++
	}
	return d
}

// CommonScope returns the innermost scope around both.
func (p *Program) CommonScope(a, b int32) int32 {
	da, db := p.Depth(a), p.Depth(b)
	for a != b {
		if da >= db {
			a = p.Scopes[a].Parent
			da--
		} else {
			b = p.Scopes[b].Parent
			db--
		}
	}
	return a
}
