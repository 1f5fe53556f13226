package kernels

import (
	"slices"
	"strings"
	"sync"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// A Call is a call of an ATen operator as PyTorch's dispatcher sees it below autograd and autocast. Arguments are in
// the order of the operator's schema; trailing ones may be missing. Lists among the results are flattened.
type Call struct {
	Op       string // without its namespace where that is aten: "convolution", "torchvision::roi_align"
	Overload string // "default", "dim_IntList"
	Args     []Arg
	Results  []*Tensor // nil for what is no tensor on the GPU
}

// An Arg is an argument of a Call. The zero Arg is None.
type Arg struct {
	Tensor *Tensor // nil for what is no tensor
	Int    int64   // of an integer or a bool
	Float  float64 // of any number
	List   []Arg
	Set    bool // it is not None
}

func (c *Call) arg(i int) Arg {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return Arg{}
}

// tensor returns an argument on the GPU, nil where there is none.
func (c *Call) tensor(i int) *Tensor {
	if t := c.arg(i).Tensor; t != nil && !t.Host {
		return t
	}
	return nil
}

func (c *Call) int(i int) int64 { return c.arg(i).Int }

func (c *Call) flag(i int) bool { return c.arg(i).Int != 0 }

// ints returns a list of integers; a number alone is a list of one.
func (c *Call) ints(i int) []int64 {
	a := c.arg(i)
	if a.Set && a.Tensor == nil && a.List == nil {
		return []int64{a.Int}
	}
	list := make([]int64, len(a.List))
	for k := range list {
		list[k] = a.List[k].Int
	}
	return list
}

// which says which dimensions of t a call works on.
type which func(c *Call, t *Tensor) []int

// allDims are all dimensions.
func allDims(_ *Call, t *Tensor) []int {
	dims := make([]int, len(t.Shape))
	for i := range dims {
		dims[i] = i
	}
	return dims
}

// dimsAt are the dimensions that an argument lists, and all of them where it lists none.
func dimsAt(arg int) which {
	return func(c *Call, t *Tensor) (dims []int) {
		for _, d := range c.ints(arg) {
			if d < 0 {
				d += int64(len(t.Shape))
			}
			if d >= 0 && int(d) < len(t.Shape) {
				dims = append(dims, int(d))
			}
		}
		if len(dims) == 0 {
			return allDims(c, t)
		}
		return dims
	}
}

// result returns a result, or a tensor without elements where there is none.
func (c *Call) result(i int) *Tensor {
	if i < len(c.Results) && c.Results[i] != nil {
		return c.Results[i]
	}
	return &noTensor
}

var noTensor = Tensor{Shape: []int64{0}, Stride: []int64{1}, RowMajor: true}

// has reports whether there is such a result.
func (c *Call) has(i int) bool { return i < len(c.Results) && c.Results[i] != nil }

// An operator is what is known of one ATen operator's kernels.
type operator struct {
	name string                    // with its overload where overloads differ
	take func(k *Kernels, c *Call) // nil: they take nothing beside their results
}

// on is take where these arguments are tensors on the GPU; else the kernels take nothing there.
func on(take func(k *Kernels, c *Call), args ...int) func(k *Kernels, c *Call) {
	return func(k *Kernels, c *Call) {
		for _, i := range args {
			if c.tensor(i) == nil {
				return
			}
		}
		take(k, c)
	}
}

// tables list the operators by family, but for atenPlain.
var tables = [][]operator{atenProducts, atenConvs, atenNorms, atenReductions, atenLosses, atenAttention, atenIndex,
	atenSorts, atenFFT, atenLinalg, atenGuessed, atenRNN, atenOthers}

// rows are all operators by name. They are read when a recording first asks: most commands have none.
var rows = sync.OnceValue(func() map[string]*operator {
	all := map[string]*operator{}
	for _, name := range strings.Fields(atenPlain) {
		all[name] = &operator{name: name}
	}
	for _, table := range tables {
		for i := range table {
			all[table[i].name] = &table[i]
		}
	}
	return all
})

// Kernels are the kernels of one process: what its threads keep, and what it has planned.
type Kernels struct {
	device   gpu.Device
	thread   int32
	stream   int32
	blas     map[place]bool // took cuBLAS's workspace
	lt       map[place]bool // took cublasLt's
	blasOn   map[int32]bool // threads that used cuBLAS
	dnnOn    map[int32]bool // threads that used cuDNN
	dropout  bool           // the state of dropout in recurrent layers is there
	plans    map[string]int32
	answers  map[string]int64 // workspaces of convolutions, as cuDNN answered
	searches map[string]known
	searched map[search]bool // that were made
	planned  []ConvPlan
	asked    bool           // cuDNN was asked about what was not measured
	atMost   Doubts         // which is taken at its most
	doubts   Doubts         // which there are
	op       string         // that is called
	guessed  map[string]int // calls of operators of which it is only guessed what they take
	key      []byte         // room for a plan's
	script   Script
}

// A place is where a library keeps a workspace.
type place struct{ thread, stream int32 }

// A search is that of a thread for the fastest engine of a convolution. Of it is known the most that takes what cuDNN
// offers without a GPU, and what it may find, in bytes.
type (
	search struct {
		thread int32
		key    string
	}
	known struct{ offered, found int64 }
)

// NewKernels returns the kernels of a new process on a device.
func NewKernels(d gpu.Device) *Kernels {
	return &Kernels{
		device: d, plans: map[string]int32{}, answers: map[string]int64{},
		searches: map[string]known{}, searched: map[search]bool{},
		blas: map[place]bool{}, lt: map[place]bool{}, blasOn: map[int32]bool{}, dnnOn: map[int32]bool{},
		guessed: map[string]int{},
	}
}

// Doubts are kinds of what is not known.
type Doubts uint8

// The kinds: which engines cuDNN chooses, and what is guessed of other kernels or not known at all.
const (
	OfEngines Doubts = 1 << iota
	OfGuesses
)

// AtMost makes kernels take the most that they may where it is not known what they take, for these reasons.
func (k *Kernels) AtMost(of Doubts) { k.atMost = of }

// Asked says that cuDNN was asked, as far as it could be, about every convolution that was not measured.
func (k *Kernels) Asked() { k.asked = true }

// Answered says what cuDNN answered, without a GPU, about a pass of a convolution: the workspace in bytes. It is taken
// for what runs.
func (k *Kernels) Answered(s *ConvShape, pass ConvPass, bytes int64) {
	k.answers[string(s.AppendKey(nil, pass))] = min(bytes, convMaximum)
}

// Searched says that cuDNN searches for the fastest engine of a pass, as torch.backends.cudnn.benchmark has it, what
// the largest takes that it offers without a GPU, and what the engine takes at most that is found. Each thread does so
// when it first runs the pass, and gives all cached memory back then (get_plans_from_find and run_single_conv of
// aten/src/ATen/native/cudnn/Conv_v8.cpp, whose cache of plans is the thread's own).
func (k *Kernels) Searched(s *ConvShape, pass ConvPass, offered, found int64) {
	k.searches[string(s.AppendKey(nil, pass))] = known{offered, found}
}

// Doubts returns why it was not known what something takes.
func (k *Kernels) Doubts() Doubts { return k.doubts }

// Convolutions returns what is known of each kind of convolution that was called, by plan less 1.
func (k *Kernels) Convolutions() []ConvPlan { return k.planned }

// Guessed counts the calls of operators of which it is only guessed what they take.
func (k *Kernels) Guessed() map[string]int { return k.guessed }

// guess takes what nobody measured and no source says: what is likely, or the most that it may be.
func (k *Kernels) guess(likely, most int64) int {
	if k.guessed[k.op]++; most > likely {
		k.doubts |= OfGuesses
	}
	if k.atMost&OfGuesses != 0 {
		return k.take(max(likely, most))
	}
	return k.take(likely)
}

// On says on which thread and stream the next calls are.
func (k *Kernels) On(thread, stream int32) { k.thread, k.stream = thread, stream }

// Takes reports what is known of an operator: whether its kernels take anything beside their results, so that Call
// must be asked, and whether it is known at all.
func (k *Kernels) Takes(op, overload string) (takes, known bool) {
	row := rowOf(op, overload)
	return row != nil && row.take != nil, row != nil
}

// rowOf returns the row of an operator, with its overload where that has one of its own; nil for none.
func rowOf(op, overload string) *operator {
	if row := rows()[op+"."+overload]; row != nil {
		return row
	}
	return rows()[op]
}

// Call returns what a call asks of the allocator, which is good until the next call. What it takes and never gives back
// stays for good.
func (k *Kernels) Call(c *Call) Script {
	k.script = k.script[:0]
	switch row := rowOf(c.Op, c.Overload); {
	case row == nil:
		k.unknown(c)
	case row.take != nil:
		k.op = c.Op
		row.take(k, c)
	}
	return k.script
}

// unknown is a kernel of which nothing is known: it may take as much as its arguments and results are together.
func (k *Kernels) unknown(c *Call) {
	k.doubts |= OfGuesses
	if k.atMost&OfGuesses == 0 {
		return
	}
	bytes := int64(0)
	for i := range c.Results {
		k.makes(i)
		bytes += c.result(i).Bytes()
	}
	for i := range c.Args {
		if t := c.tensor(i); t != nil {
			bytes += t.Bytes()
		}
	}
	k.scratch(min(bytes, convMaximum))
}

// Threads returns how many threads used cuBLAS, and how many cuDNN.
func (k *Kernels) Threads() (blas, dnn int) { return len(k.blasOn), len(k.dnnOn) }

// Others lists the workspaces of the calls' convolutions under other choices: see OtherChoices.
func (k *Kernels) Others() [][]int64 { return OtherChoices(k.planned) }

// take and the like write the script of the call.
func (k *Kernels) take(bytes int64) int        { return k.script.take(max(bytes, 0)) }
func (k *Kernels) give(taken ...int)           { k.script.give(taken...) }
func (k *Kernels) scratch(bytes int64)         { k.script.scratch(bytes) }
func (k *Kernels) makes(results ...int)        { k.script.makes(results...) }
func (k *Kernels) play(s Script)               { k.script.play(s) }
func (k *Kernels) copyTo(t *Tensor, l lay) int { return k.take(t.copied(l)) }

// makesAll makes every result.
func (k *Kernels) makesAll(c *Call) {
	for i := range c.Results {
		k.makes(i)
	}
}

// giveBack frees what was taken, the last first.
func (k *Kernels) giveBack(taken []int) {
	for _, n := range slices.Backward(taken) {
		k.give(n)
	}
}

// makesAs makes a result of another size than its tensor's: the storage that it was first made in.
func (k *Kernels) makesAs(result int, bytes int64) {
	k.script = append(k.script, Step{Do: Make, Which: result, Bytes: bytes})
}

// leaves says that results are not on the GPU, though fake tensors are.
func (k *Kernels) leaves(results ...int) {
	for _, n := range results {
		k.script = append(k.script, Step{Do: Leave, Which: n})
	}
}

// reduce is a reduction of dims of t by sums or what is like them.
func (k *Kernels) reduce(t *Tensor, dims []int) { k.reduceBy(sumAccumulator, t, dims) }

// reduceBy is one by accumulators of another size.
func (k *Kernels) reduceBy(accumulator func(elem int64) int64, t *Tensor, dims []int) {
	k.play(Reduction(t.Shape, t.Stride, dims, t.Elem, accumulator(t.Elem), k.device))
}
