// Package recording holds training steps that PyTorch ran on fake tensors and the Python package wrote down: every ATen
// call, every storage's birth and death, in order. docs/recording-format.md describes the file.
package recording

import (
	"math"
	"strings"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// Format is the name and version that a file begins with.
const Format = "memestimate-recording/1"

// A Header says how a recording came about, as far as an estimate depends on it.
type Header struct {
	Format string `json:"format"`
	Torch  string `json:"torch"`
	Way    string `json:"way"` // fake-cuda, fake-cuda-no-driver, fake-cpu, real-cpu
	GPU    Device `json:"gpu"`

	WorldSize int    `json:"world_size"`
	Rank      int    `json:"rank"`
	GPUs      int32  `json:"gpus,omitempty"` // that the process used; 0 for one
	AllocConf string `json:"alloc_conf"`

	Benchmark bool `json:"cudnn_benchmark"`
}

// A Device is the GPU that the recorded program was told it ran on.
type Device struct {
	Name            string  `json:"name"`
	Capability      []int64 `json:"capability"`
	Multiprocessors int64   `json:"multiprocessors"`
	Memory          int64   `json:"memory"` // bytes
}

// on reports whether a device has what cuDNN chooses by: the same chip.
func (d *Device) on(g gpu.Device) bool {
	return len(d.Capability) == 2 && d.Capability[0] == int64(g.Capability.Major) &&
		d.Capability[1] == int64(g.Capability.Minor) && d.Multiprocessors == int64(g.Multiprocessors)
}

// A Recording is one file in memory.
type Recording struct {
	Header
	Ops      []Op
	Metas    []Meta
	Frames   []Frame
	Modules  []Module
	Texts    []string // what Values, names and notes refer to
	Answers  []Answer
	Searches []Search
	Events   []Event
	Asks     []Ask // what events of kind Depends tell
	Calls    []Call
	Values   []Value // arguments and results of all calls, one after the other

	NCCL          *NCCL // nil where the program has no process group, or the recorder wrote nothing of NCCL
	Communicators []Communicator

	Storages int32 // how many were born; they are numbered from 0 in that order
}

// An Op is an ATen operator: "aten::convolution", "default".
type Op struct{ Name, Overload string }

// String returns the operator as torch.ops spells it: "aten.convolution.default".
func (o Op) String() string {
	return strings.Replace(o.Name, "::", ".", 1) + "." + o.Overload
}

// A Meta is how a tensor lies in its storage. Strides and offset are in elements.
type Meta struct {
	DType  string // as PyTorch spells it: "float32"
	Shape  []int64
	Stride []int64
	Offset int64
}

// A Frame is a place of the program and who called it.
type Frame struct {
	Parent   int32 // NoFrame for the outermost
	Line     int32
	File     string
	Function string
}

// A Module is an nn.Module by its full name.
type Module struct{ Name, Class string }

// Ids that stand for none.
const (
	NoFrame  = -1
	NoModule = -1
)

// A Kind says what an Event tells.
type Kind uint8

// The kinds of events, with the fields of Event that each uses.
const (
	CallEvent       Kind = iota // A: index into Calls
	Alloc                       // A: storage, B: the GPU that it is on, Bytes
	Free                        // A: storage
	Resize                      // A: storage, Bytes
	Is                          // A: storage, What: a Role, B: text of its name
	Phase                       // What: a PhaseName
	Step                        // a training step ended
	Thread                      // A: number
	Stream                      // A: number
	RecordStream                // A: storage, B: stream
	Sum                         // A: storage that the call before it, an addition, writes into on real tensors
	EmptyCache                  // cached blocks are given back
	Pool                        // A: number of a stream, whose blocks are those of a private pool of CUDA graphs
	ClearWorkspaces             // the workspaces that cuBLAS keeps are freed
	OutOfMemory                 // Bytes: what the program may take, which the next request would pass: it was told so
	ResetPeak                   // peaks are counted anew
	Allocated                   // Bytes: what the recorder had counted here, for tests
	Note                        // A: text of its code, B: text, Bytes: frame
	Depends                     // A: index into Asks
	numKinds
)

// kindWords are the words by which lines begin.
var kindWords = [numKinds]string{
	"call", "alloc", "free", "resize", "is", "phase", "step", "thread", "stream", "record_stream", "sum",
	"empty_cache", "pool", "clear_workspaces", "out_of_memory", "reset_peak", "allocated", "note", "depends",
}

// A Role is what a storage is to the program.
type Role uint8

// The roles.
const (
	Parameter Role = iota
	Buffer
	Gradient
	State // of an optimizer
	Input
	Label
	numRoles
)

var roleWords = [numRoles]string{"parameter", "buffer", "gradient", "state", "input", "label"}

// A Question is what a program asked of a tensor whose values no recording has.
type Question uint8

// The questions.
const (
	Truth Question = iota // yes or no
	Number
	Count // how many elements are set, or different: the size of another tensor
	Part  // the same, and the most that there can be is among the answers that were tried
	numQuestions
)

var questionWords = [numQuestions]string{"truth", "number", "size", "part"}

// String returns the word of a recording.
func (q Question) String() string { return questionWords[q] }

// Unweighed is the weight of an answer of which nobody knows what another one would change.
const Unweighed = -1

// An Ask is a place of the program that asked for a value, and the answer that was taken.
type Ask struct {
	Question Question
	Taken    int32 // text of the answer
	Frame    int32 // NoFrame where it is not known
	Bytes    int64 // its weight: by how much the peak was another with another answer, or Unweighed
	More     int64 // by how much it was higher: 0 where no other answer takes more; Unweighed where that is not known
}

// An Answer is what cuDNN said, for the device of the header and without one, about a pass of a convolution.
type Answer struct {
	Pass  kernels.ConvPass
	Shape kernels.ConvShape // as kernels have it: of one dimension raised to two
	Bytes int64             // the workspace of the engine that its heuristic names
}

// A Search is that of PyTorch for the fastest engine of a pass. Its Bytes are the largest workspace that cuDNN offers
// without a GPU.
type Search struct {
	Answer
	Found int64 // the most that an engine takes which it may find, in bytes
}

// A PhaseName is a part of a step as the recorder names it.
type PhaseName uint8

// The phases.
const (
	Forward PhaseName = iota
	Loss
	Backward
	Optimizer
	ZeroGrad
	Other
	numPhases
)

var phaseWords = [numPhases]string{"forward", "loss", "backward", "optimizer", "zero_grad", "other"}

// An Event is one line. Which fields mean something its Kind says.
type Event struct {
	Kind  Kind
	What  uint8
	A, B  int32
	Bytes int64
}

// A Call is one call of an ATen operator. Its arguments are in the order of the operator's schema; trailing ones that
// have their defaults may be missing. Its results are flattened.
type Call struct {
	Op, Frame, Module int32
	args, results     int32 // where they begin in Values
	end               int32
}

// Args returns the arguments of a call: a list's items follow it.
func (r *Recording) Args(c *Call) []Value { return r.Values[c.args:c.results] }

// Results returns what a call returned, without lists.
func (r *Recording) Results(c *Call) []Value { return r.Values[c.results:c.end] }

// A ValueKind says what a Value is.
type ValueKind uint8

// The kinds of values.
const (
	None ValueKind = iota
	Bool
	Int
	Float
	Text   // a string
	Word   // a dtype, layout, device, memory format or generator
	Tensor // a storage and a Meta
	List   // so many of the Values that follow
)

// A Value is an argument or a result in eight bytes. Its lowest three bits are its kind.
type Value uint64

const (
	valueBits  = 3
	metaBits   = 30
	maxInt     = 1<<60 - 1
	maxMetas   = 1 << metaBits
	maxStorage = math.MaxInt32 - 1
	cpuStorage = 0 // in a Value: storages are numbered from 1 there
)

// Kind says what the Value is.
func (v Value) Kind() ValueKind { return ValueKind(v & (1<<valueBits - 1)) }

// Int returns an Int, or a Bool as 0 or 1. What has more than 60 bits is the largest or the smallest that has not.
func (v Value) Int() int64 { return int64(v) >> valueBits }

// Float returns a Float to 50 bits of its fraction, or an Int.
func (v Value) Float() float64 {
	if v.Kind() == Float {
		return math.Float64frombits(uint64(v) &^ (1<<valueBits - 1))
	}
	return float64(v.Int())
}

// Len returns how many of the Values that follow are the List's.
func (v Value) Len() int { return int(v >> valueBits) }

// Text returns the index into Texts of a Text or a Word.
func (v Value) Text() int32 { return int32(v >> valueBits) }

// Meta returns the index into Metas of a Tensor.
func (v Value) Meta() int32 { return int32(v >> valueBits & (maxMetas - 1)) }

// Storage returns the storage of a Tensor, and false for a tensor that is not on the GPU.
func (v Value) Storage() (int32, bool) {
	s := int32(v >> (valueBits + metaBits))
	return s - 1, s != cpuStorage
}

func intValue(n int64) Value {
	return Value(min(max(n, -maxInt-1), maxInt))<<valueBits | Value(Int)
}

func floatValue(f float64) Value {
	return Value(math.Float64bits(f))&^(1<<valueBits-1) | Value(Float)
}

func tensorValue(storage, meta int32) Value {
	return Value(storage+1)<<(valueBits+metaBits) | Value(meta)<<valueBits | Value(Tensor)
}

func indexValue(k ValueKind, i int) Value { return Value(i)<<valueBits | Value(k) }
