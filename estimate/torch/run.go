package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A run emits the events of PyTorch executing a program.
type run struct {
	opts   *Options
	prog   *program.Program
	log    *timeline.Log // on its own: whoever keeps it shall not keep the run, which is several times larger
	step   int32
	layer  int32
	origin int32 // Call.Origin of the call that runs, -1 outside of any
	grad   bool  // gradient mode
	amp    *autocast
	seq    int32 // sequence number of the next autograd node
	passes int32 // backward passes so far

	inBackward bool // the autograd thread is running

	libraries
	likes   [2]tensor // see looks
	nowhere storage   // theirs

	values     []*tensor // of the program's values; activations are here while a forward pass runs
	index      int32     // of the call that runs
	born       int32     // allocations so far
	callStart  int32     // those before the operator of the call
	frame      *frame    // the checkpointed span that the forward pass is in
	recomputed *frame    // the one that backward recomputes
	packed     int       // what the recomputation has saved

	checkpoints, noGrad []program.Span // see wrapped

	noGradSpan *program.Span // the one of noGrad that runs
	stopAt     int32         // see stopped; 0 is nowhere

	hooked [2][]*leaf // of the graph behind the loss, and of the one that is made: see requireGrads

	ddp    *reducer  // nil without DistributedDataParallel
	shards *sharding // nil without FSDP2

	stream uint8 // that memory is asked for on

	err error // the first that happened: what follows it does not count

	lives program.Liveness // the same for every pass

	criterion string      // the loss of the first output, once it is known
	heads     heads       // the outputs that the loss takes
	made      tensorsMade // see Options.Tensors
	saved     int64       // see Run.Saved
	savedBy   []int64
}

// libraries are what cuBLAS and cuDNN keep between calls, and how cuDNN planned to compute what it was asked for.
type libraries struct {
	blas [2]bool // cuBLAS workspace taken, by thread: forward, backward
	lt   [2]bool // cublasLt workspace, likewise
	dnn  [2]bool // cuDNN used, by thread

	dropoutState *storage // cuDNN's state of random numbers; nil until it is taken

	plans   plans  // of convolutions
	planKey []byte // room for a key of it
	// of convolutions: see search
	searched map[searched]bool
}
