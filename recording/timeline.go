package recording

import (
	"cmp"
	"strings"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Run is a recording as requests to the allocator, on some device.
type Run struct {
	Recording  *Recording
	Log        *timeline.Log
	BLAS, DNN  int       // threads that used cuBLAS, and cuDNN
	Workspaces [][]int64 // other sizes of convolutions' workspaces, by plan less 1: see workspace.Kernels.Others

	// Convolutions are the plans of convolutions, by plan less 1.
	Convolutions []kernels.ConvPlan
	// Doubtful says why some of what is taken, or until when, is not known: AtMost has it at its most.
	Doubtful kernels.Doubts

	Trains   bool  // it has a backward pass
	Crossing int   // tensors of which the program recorded that another stream uses them
	Raced    int64 // bytes of DDP's buckets of which it is a race whether the next backward pass still has them

	// Limit is what the process may take of the device, where the program was told that it is out of memory and went on:
	// the device's memory, or its part by torch.cuda.set_per_process_memory_fraction. 0 where it was not told.
	Limit int64

	// Of says by event of the Log where in the program it happened: an index into Sites, -1 where that is not known.
	Of    []int32
	Sites []Site

	// Calls counts the calls that made something on the GPU, Unknown those of operators of which is not known what
	// their kernels take.
	Calls   int
	Unknown map[Op]int
	Guessed map[string]int // calls of operators of which it is only guessed, by name without aten

	device gpu.Device
}

// A Site is a place of the program and the operator that it called there: frames and operators of the recording,
// NoFrame and -1 where none is known.
type Site struct{ Frame, Op int32 }

// noBlock is the block of a storage without bytes.
const noBlock = -1

// player plays a recording's events into a Log.
type player struct {
	rec     *Recording
	log     *timeline.Log
	kernels *kernels.Kernels
	run     *Run

	blocks  []int32 // by storage
	same    []int32 // a storage in whose place another one is, by the number of that other, plus 1; 0 mostly
	users   []int32 // how many storages share the block of a storage, itself included, where any do
	phase   timeline.Phase
	step    int32
	atMost  kernels.Doubts // see Run.AtMost
	stashed map[int32]bool // storages that backward passes gave to an asynchronous all-reduce
	crossed map[int32]bool // storages that another stream uses, too
	behind  [][]int32      // blocks of such, let go of, that other streams still use: by the stream that made them
	raced   int64          // bytes of stashed storages let go of since the last backward pass
	late    []int32        // blocks of stashed storages let go of, at most until a backward pass that reduces is over
	reduces bool           // the backward pass under way has an asynchronous all-reduce
	thread  int32
	stream  int32
	pools   []int32 // streams that stand for private pools
	kept    []int32 // blocks of the workspaces that cuBLAS keeps
	layer   int32
	site    int32            // of what happens now
	sites   map[Site]int32   // by what they are
	modules []int32          // the layers of modules, plus 1
	layers  map[string]int32 // by name
	tensors []*kernels.Tensor
	takes   []kernelKind // by operator
	call    kernels.Call
	args    []kernels.Arg
	taken   []int32
	fresh   []int32 // the storages that begin in the call, by result; -1 for the others
	born    []born  // storages that begin in the call
}

// A kernelKind says what is known of an operator.
type kernelKind uint8

const (
	unknownKernel kernelKind = iota
	plainKernel              // takes nothing beside its results
	takingKernel
	reducingKernel // allReduce
	timingKernel   // coldCache
)

// coldCache makes the buffer that Inductor writes between the runs of what it times, so that the cache is cold.
const coldCache = "inductor::cold_cache"

// allReduce is what DDP reduces its buckets by, in its backward pass.
const allReduce = "c10d::allreduce_"

// born is a storage that begins in a call.
type born struct {
	storage int32
	bytes   int64
	made    bool
}

// Timeline returns the requests to the allocator of the recorded program on a device: its storages, and around each
// call what the kernels take beside them.
func (r *Recording) Timeline(d gpu.Device) *Run { return r.timeline(d, 0) }

// AtMost returns the requests of a doubtful run with what is not known for some reasons at its most: workspaces of
// convolutions, also of those that likely take none; those of other kernels, buckets of DDP that live on, and blocks
// that other streams still use.
func (run *Run) AtMost(of kernels.Doubts) *timeline.Log {
	return run.Recording.timeline(run.device, of).Log
}

func (r *Recording) timeline(d gpu.Device, atMost kernels.Doubts) *Run {
	p := &player{
		rec: r, log: new(timeline.Log), kernels: kernels.NewKernels(d),
		run:    &Run{Recording: r, Unknown: map[Op]int{}, device: d},
		blocks: make([]int32, r.Storages), same: make([]int32, r.Storages), users: make([]int32, r.Storages),
		layer: timeline.NoLayer, site: -1, sites: map[Site]int32{},
		modules: make([]int32, len(r.Modules)), layers: map[string]int32{},
		tensors: make([]*kernels.Tensor, 2*len(r.Metas)), takes: make([]kernelKind, len(r.Ops)),
		atMost: atMost, stashed: map[int32]bool{}, crossed: map[int32]bool{},
	}
	p.kernels.AtMost(atMost)
	if r.asked(d) {
		p.kernels.Asked()
	}
	for i := range r.Searches {
		a := &r.Searches[i]
		p.kernels.Searched(&a.Shape, a.Pass, a.Bytes, a.Found)
	}
	if r.GPU.on(d) {
		for i := range r.Answers {
			a := &r.Answers[i]
			p.kernels.Answered(&a.Shape, a.Pass, a.Bytes)
		}
	}
	for i, op := range r.Ops {
		switch takes, known := p.kernels.Takes(aten(op.Name), op.Overload); {
		case takes:
			p.takes[i] = takingKernel
		case known:
			p.takes[i] = plainKernel
		}
		switch op.Name {
		case allReduce:
			p.takes[i] = reducingKernel
		case coldCache:
			p.takes[i] = timingKernel
		}
	}
	for i := range r.Events {
		if e := &r.Events[i]; e.Kind == Phase && PhaseName(e.What) == Backward {
			p.run.Trains = true
			break
		}
	}
	for i := range p.blocks {
		p.blocks[i] = noBlock // of a storage on another GPU
	}
	p.mark(0, timeline.Load)
	p.play()
	p.run.Log = p.log
	p.run.BLAS, p.run.DNN = p.kernels.Threads()
	p.run.Workspaces, p.run.Convolutions = p.kernels.Others(), p.kernels.Convolutions()
	p.run.Doubtful, p.run.Guessed = p.run.Doubtful|p.kernels.Doubts(), p.kernels.Guessed()
	return p.run
}

// asked reports whether the recorder asked cuDNN, for this device, about the convolutions that were not measured: it
// notes where it could not.
func (r *Recording) asked(d gpu.Device) bool {
	hopper := gpu.Capability{Major: 9}
	return r.GPU.on(d) && d.Capability == hopper && r.Noted("cudnn") == ""
}

// Noted is the recorder's first note of that code, "" without one.
func (r *Recording) Noted(code string) string {
	for i := range r.Events {
		if e := &r.Events[i]; e.Kind == Note && r.Texts[e.A] == code {
			return r.Texts[e.B]
		}
	}
	return ""
}

// aten is an operator's name without its namespace where that is aten.
func aten(name string) string { return strings.TrimPrefix(name, "aten::") }

func (p *player) play() {
	events := p.rec.Events
	for i := 0; i < len(events); i++ {
		switch e := &events[i]; e.Kind {
		case CallEvent:
			i = p.played(i)
			p.layer = timeline.NoLayer
		case Alloc:
			p.alloc(e.A, e.Bytes)
		case Free:
			p.free(e.A)
		case Resize:
			p.free(e.A)
			p.same[e.A], p.users[e.A] = 0, 0
			p.alloc(e.A, e.Bytes)
		case Is:
			p.is(e.A, Role(e.What), p.rec.Texts[e.B])
		case Phase:
			p.enter(PhaseName(e.What))
		case Step:
			p.step++
		case Thread:
			p.thread = e.A
		case Stream:
			p.stream = e.A
		case Pool:
			p.pools = append(p.pools, e.A)
		case ClearWorkspaces:
			for _, block := range p.kept {
				p.give(block)
			}
			p.kept = p.kept[:0]
			p.kernels.ClearBLAS()
		case RecordStream:
			p.run.Crossing++
			p.crossed[p.root(e.A)] = true
		case EmptyCache:
			p.release()
		case OutOfMemory: // before it is said, all cached blocks are given back (malloc of CUDACachingAllocator.cpp)
			p.run.Of = append(p.run.Of, p.site)
			p.log.Caught(p.layer)
			p.run.Limit = max(p.run.Limit, e.Bytes)
		}
	}
}

// phases are the names that the rest of memestimate has for what a recorder calls otherwise.
var phases = [numPhases]timeline.Phase{
	Forward: timeline.Forward, Loss: timeline.Loss, Backward: timeline.Backward, Optimizer: timeline.Optimizer,
	ZeroGrad: timeline.Finish,
}

// enter begins a phase. What is between two of them belongs to the one before; before the first the model is loaded.
func (p *player) enter(name PhaseName) {
	if name == Other {
		return
	}
	if p.phase == timeline.Backward && p.reduces { // of microbatches the last one's does
		for _, block := range p.late {
			p.give(block)
		}
		p.late, p.raced, p.reduces = p.late[:0], 0, false
	}
	p.phase = phases[name]
	p.mark(p.step+1, p.phase)
}

func (p *player) mark(step int32, phase timeline.Phase) {
	p.log.Mark(step, phase)
	p.run.Of = append(p.run.Of, -1)
}

var categories = [numRoles]timeline.Category{
	Parameter: timeline.Parameter, Buffer: timeline.Buffer, Gradient: timeline.Gradient, State: timeline.OptimizerState,
	Input: timeline.Input, Label: timeline.Input,
}

// siteOf returns the index of a site.
func (p *player) siteOf(s Site) int32 {
	i, ok := p.sites[s]
	if !ok {
		i = int32(len(p.run.Sites))
		p.run.Sites = append(p.run.Sites, s)
		p.sites[s] = i
	}
	return i
}

// layerOf returns the layer of a module.
func (p *player) layerOf(module int32) int32 {
	if module == NoModule {
		return timeline.NoLayer
	}
	if p.modules[module] == 0 {
		p.modules[module] = p.named(p.rec.Modules[module].Name) + 1
	}
	return p.modules[module] - 1
}

// ofArguments returns the layer of a call of the backward pass: that of the first parameter or activation among its
// arguments, which the module saved.
func (p *player) ofArguments(c *Call) int32 {
	for _, v := range p.rec.Args(c) {
		if v.Kind() != Tensor {
			continue
		}
		storage, ok := v.Storage()
		if !ok {
			continue
		}
		if b := p.blocks[p.root(storage)]; b != noBlock {
			r := p.log.Of(b)
			if r.Layer != timeline.NoLayer && (r.Category == timeline.Parameter || r.Category == timeline.Activation) {
				return r.Layer
			}
		}
	}
	return timeline.NoLayer
}

// RootLayer is what the model itself, which has no name among its modules, is called among layers.
const RootLayer = "model"

// named returns the layer of a module's name.
func (p *player) named(name string) int32 {
	name = cmp.Or(name, RootLayer)
	layer, ok := p.layers[name]
	if !ok {
		layer = int32(len(p.log.Layers))
		p.log.Layers = append(p.log.Layers, name)
		p.layers[name] = layer
	}
	return layer
}
