// Package snapshot reads PyTorch's CUDA memory snapshots, as torch.cuda.memory._dump_snapshot writes them, and writes
// those of predicted runs.
//
// A snapshot is a pickle. Read interprets the few opcodes that plain data
// needs and refuses every other; nothing in a file is ever executed or
// imported. Events are held in 40 bytes each, and frames, stacks and strings
// once, so that a file takes less memory than it has bytes.
//
// All sizes and addresses are in bytes, all times in microseconds.
package snapshot

import "iter"

// An Action is what an Event records. Actions that PyTorch may add later keep
// their name for Snapshot.ActionName and have values from NumActions on.
type Action uint8

// The actions, as c10::CachingDeviceAllocator::TraceEntry names them.
const (
	Alloc Action = iota
	FreeRequested
	FreeCompleted
	SegmentAlloc
	SegmentFree
	SegmentMap
	SegmentUnmap
	Snap // a snapshot was taken; Size is what was allocated
	OOM  // Size is what was asked for, Addr what the device had free
	UserDefined
	NumActions
)

var actionNames = [NumActions]string{
	"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
	"segment_map", "segment_unmap", "snapshot", "oom", "user_defined",
}

// A Frame is one call of a stack.
type Frame struct {
	Name string
	File string
	Line int64 // below 0 where Python does not know it
}

// A StackID names a stack in Snapshot.Stack. Zero is no stack at all.
type StackID uint32

// An Event is one entry of a device's trace.
type Event struct {
	Time     int64 // microseconds
	Addr     int64 // the block or the segment; for an OOM the bytes that the device had free
	Size     int64 // as requested, for segment actions the segment's
	Stack    StackID
	Category uint32 // index into Snapshot.Categories
	Stream   uint32 // index into Snapshot.Streams
	Action   Action
}

const chunkLen = 1 << 12

// A Trace is the events of one device, oldest first.
type Trace struct {
	// chunks are all full but the last: growing a trace copies no event.
	chunks [][]Event
	n      int
}

// Len is the number of events.
func (t *Trace) Len() int { return t.n }

// At returns event i. It may be changed in place.
func (t *Trace) At(i int) *Event { return &t.chunks[i/chunkLen][i%chunkLen] }

// Add appends an event.
func (t *Trace) Add(e Event) {
	if t.n%chunkLen == 0 {
		// The first chunk grows by itself: most traces of most devices are empty.
		size := chunkLen
		if t.n == 0 {
			size = 0
		}
		t.chunks = append(t.chunks, make([]Event, 0, size))
	}
	last := len(t.chunks) - 1
	t.chunks[last] = append(t.chunks[last], e)
	t.n++
}

// All ranges over the events with their index.
func (t *Trace) All() iter.Seq2[int, *Event] {
	return func(yield func(int, *Event) bool) {
		i := 0
		for _, c := range t.chunks {
			for k := range c {
				if !yield(i, &c[k]) {
					return
				}
				i++
			}
		}
	}
}

// A BlockState says whether a block is in use.
type BlockState uint8

// The states of a block.
const (
	Inactive        BlockState = iota // free, kept for reuse
	ActiveAllocated                   // in use
	PendingFree                       // freed, another stream may still use it
)

var stateNames = [...]string{"inactive", "active_allocated", "active_pending_free"}

// String returns PyTorch's name of the state.
func (s BlockState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// A Block is a part of a Segment.
type Block struct {
	Addr      int64
	Size      int64
	Requested int64 // equals Size where the file does not say
	Stack     StackID
	State     BlockState
	unplaced  bool // the file does not say Addr, which follows from the blocks before
}

// A Segment is memory that the allocator got from CUDA in one piece, or a
// contiguous mapped range of an expandable segment.
type Segment struct {
	Device     int
	Addr       int64
	Total      int64
	Allocated  int64 // bytes of blocks in use
	Active     int64 // bytes of blocks in use or pending
	Requested  int64 // bytes that were asked for
	Stream     int64
	Small      bool // of the pool for requests up to 1 MiB
	Pool       [2]int64
	Expandable bool
	Stack      StackID
	Blocks     []Block // in address order; they tile the segment
}

// A Snapshot is one file. Keys that this package does not know are passed over.
type Snapshot struct {
	Segments  []Segment
	Traces    []*Trace // by device
	AllocConf string   // the PYTORCH_CUDA_ALLOC_CONF under which the file was recorded

	Streams    []int64 // CUDA streams of events; 0 is the default stream
	Frames     []Frame
	Categories []string // of events: memestimate's own files and other predictors write them; "" is none

	stacks      [][2]int // start and end in stackFrames, by StackID
	stackFrames []uint32
	actions     []string  // names of actions from NumActions on
	maxSplit    int64     // max_split_size of the settings
	roundup     [16]int64 // roundup_power2_divisions, by the binary logarithm of MiB
}

func newSnapshot() *Snapshot {
	return &Snapshot{stacks: make([][2]int, 1), Categories: []string{""}}
}

// Stack returns the frames of a stack, innermost first: indices into Frames.
func (s *Snapshot) Stack(id StackID) []uint32 {
	if id == 0 || int(id) >= len(s.stacks) {
		return nil
	}
	r := s.stacks[id]
	return s.stackFrames[r[0]:r[1]]
}

// ActionName returns the name of an action as the file spells it.
func (s *Snapshot) ActionName(a Action) string {
	if a < NumActions {
		return actionNames[a]
	}
	if i := int(a - NumActions); i < len(s.actions) {
		return s.actions[i]
	}
	return "unknown"
}

// Events is the number of events of all devices.
func (s *Snapshot) Events() int {
	n := 0
	for _, t := range s.Traces {
		n += t.Len()
	}
	return n
}
