package page

import (
	"fmt"
	"slices"
)

// A Trace is what a recording knows beyond its timeline. Events are numbered as
// the recording numbers them.
type Trace struct {
	Events int     // of the recording
	Number []int32 // by event of the timeline: the recording's, or -1, before it begins
	Frames []string
	Stacks [][]int32    // indices into Frames, innermost first
	Blocks []TraceBlock // by block of the timeline

	Segments []TraceSegment // what was reserved, and given back
	Marks    []Mark
}

// A TraceBlock is where an allocation lies, and who asked for it.
type TraceBlock struct {
	Addr, Bytes int64 // of its block, as the allocator counts it
	Stack       int32 // index into Stacks, or -1
	Stream      int64
}

// A TraceSegment is memory that an event takes from the device, or gives back.
type TraceSegment struct {
	Event       int // -1: before the recording
	Addr, Bytes int64
	Stream      int64
	Kind        string // "small", "large", "expandable"
	Freed       bool
}

// A Mark is something to see at an event: where memory ran out.
type Mark struct {
	Event int    `json:"event"`
	Text  string `json:"text"`
}

type traceData struct {
	// allocations from before the recording: events of the page that come before its own
	First    int        `json:"first"`
	Addr     []int64    `json:"addr"`
	Block    []int64    `json:"block"` // bytes
	Stack    []int32    `json:"stack"`
	Stream   []int32    `json:"stream"` // index into Streams
	Streams  []string   `json:"streams"`
	Frames   []string   `json:"frames"`
	Stacks   [][]int32  `json:"stacks"`
	Segments [][6]int64 `json:"segments"` // event of the page (-1: before), address, bytes, stream, kind, freed
	Kinds    []string   `json:"kinds"`
	Marks    []Mark     `json:"marks"`
}

var segmentKinds = []string{"large", "small", "expandable"}

func streamName(cuda int64) string {
	if cuda == 0 {
		return "the default stream"
	}
	return fmt.Sprintf("stream %#x", cuda)
}

// traceOf makes what the page's script gets of a trace. first is the number of
// the page's events that come before the recording.
func traceOf(t *Trace, first int) *traceData {
	d := &traceData{First: first, Streams: []string{}, Frames: []string{}, Stacks: t.Stacks, Segments: [][6]int64{},
		Kinds: segmentKinds, Marks: []Mark{}}
	if d.Stacks == nil {
		d.Stacks = [][]int32{}
	}
	for _, f := range t.Frames {
		d.Frames = append(d.Frames, show(f))
	}
	streams := map[int64]int32{}
	stream := func(cuda int64) int32 {
		i, ok := streams[cuda]
		if !ok {
			i = int32(len(streams))
			streams[cuda] = i
			d.Streams = append(d.Streams, streamName(cuda))
		}
		return i
	}
	n := len(t.Blocks)
	d.Addr, d.Block, d.Stack, d.Stream = make([]int64, n), make([]int64, n), make([]int32, n), make([]int32, n)
	for i := range t.Blocks {
		b := &t.Blocks[i]
		d.Addr[i], d.Block[i], d.Stack[i], d.Stream[i] = b.Addr, b.Bytes, b.Stack, stream(b.Stream)
	}
	for _, s := range t.Segments {
		k := [6]int64{int64(s.Event), s.Addr, s.Bytes, int64(stream(s.Stream)),
			int64(max(slices.Index(segmentKinds, s.Kind), 0)), 0}
		if s.Event >= 0 {
			k[0] += int64(first)
		}
		if s.Freed {
			k[5] = 1
		}
		d.Segments = append(d.Segments, k)
	}
	for _, m := range t.Marks {
		d.Marks = append(d.Marks, Mark{first + m.Event, clean(m.Text)})
	}
	return d
}
