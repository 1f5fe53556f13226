package main

import (
	"io"

	json "github.com/go-json-experiment/json/v1"
	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/snapshot"
)

// An exported is a whole snapshot as JSON. Frames and stacks are there once, and are referred to by their place. Sizes
// are in bytes.
type exported struct {
	Schema      string             `json:"schema"`
	File        string             `json:"file"`
	AllocConf   string             `json:"alloc_conf"`
	Frames      []exportedFrame    `json:"frames"`
	Stacks      [][]int            `json:"stacks"` // places in frames, innermost first; stack 0 is none
	Segments    []exportedSegment  `json:"segments"`
	Traces      []exportedTrace    `json:"traces"`
	Annotations []exportedInterval `json:"annotations"`
}

type exportedFrame struct {
	Name string `json:"name"`
	File string `json:"filename"`
	Line int64  `json:"line"`
}

type exportedSegment struct {
	Device     int             `json:"device"`
	Addr       uint64          `json:"address"`
	Total      int64           `json:"total_bytes"`
	Allocated  int64           `json:"allocated_bytes"`
	Active     int64           `json:"active_bytes"`
	Requested  int64           `json:"requested_bytes"`
	Stream     int64           `json:"stream"`
	Pool       [2]int64        `json:"pool"`
	Small      bool            `json:"small"`
	Expandable bool            `json:"expandable"`
	Stack      int             `json:"stack"`
	Blocks     []exportedBlock `json:"blocks"`
}

type exportedBlock struct {
	Addr      uint64 `json:"address"`
	Size      int64  `json:"bytes"`
	Requested int64  `json:"requested_bytes"`
	State     string `json:"state"`
	Stack     int    `json:"stack"`
}

type exportedTrace struct {
	Device int             `json:"device"`
	Events []exportedEvent `json:"events"`
}

type exportedEvent struct {
	Action   string `json:"action"`
	Addr     uint64 `json:"addr"` // of an oom: what the device had free
	Size     int64  `json:"bytes"`
	Stream   int64  `json:"stream"`
	Time     int64  `json:"time_us"`
	Stack    int    `json:"stack"`
	Context  string `json:"compile_context,omitempty"`
	Metadata string `json:"user_metadata,omitempty"`
	Category string `json:"category,omitempty"`
}

type exportedInterval struct {
	Name   string `json:"name"`
	Stage  string `json:"stage"`
	Device int64  `json:"device"`
	Time   int64  `json:"time_us"`
}

// snapshotExportCommand writes a whole snapshot as JSON.
func snapshotExportCommand(e *env) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write a whole snapshot as JSON, for programs that read no pickles",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openSnapshot(e, &o, args[0])
			if err != nil {
				return err
			}
			return o.write(e, func(w io.Writer) error {
				enc := json.NewEncoder(w)
				enc.SetEscapeHTML(false)
				return enc.Encode(export(s, args[0]))
			})
		},
	}
	o.flags(cmd.Flags(), "json")
	return cmd
}

func export(s *snapshot.Snapshot, file string) *exported {
	x := &exported{Schema: exportForm, File: file, AllocConf: s.AllocConf(), Frames: []exportedFrame{}, Stacks: [][]int{},
		Segments: []exportedSegment{}, Traces: []exportedTrace{}, Annotations: []exportedInterval{}}
	for _, f := range s.Frames {
		x.Frames = append(x.Frames, exportedFrame{f.Name, f.File, f.Line})
	}
	for id := range s.Stacks() {
		stack := []int{}
		for _, f := range s.Stack(snapshot.StackID(id)) {
			stack = append(stack, int(f))
		}
		x.Stacks = append(x.Stacks, stack)
	}
	for i := range s.Segments {
		g := &s.Segments[i]
		k := exportedSegment{g.Device, uint64(g.Addr), g.Total, g.Allocated, g.Active, g.Requested, g.Stream, g.Pool, g.Small,
			g.Expandable, int(g.Stack), []exportedBlock{}}
		for _, b := range g.Blocks {
			k.Blocks = append(k.Blocks, exportedBlock{uint64(b.Addr), b.Size, b.Requested, b.State.String(), int(b.Stack)})
		}
		x.Segments = append(x.Segments, k)
	}
	for d, t := range s.Traces {
		k := exportedTrace{Device: d, Events: make([]exportedEvent, 0, t.Len())}
		for _, e := range t.All() {
			n := &s.Notes[e.Note]
			k.Events = append(k.Events, exportedEvent{s.ActionName(e.Action), uint64(e.Addr), e.Size, s.Streams[e.Stream], e.Time,
				int(e.Stack), n.CompileContext, n.UserMetadata, n.Category})
		}
		x.Traces = append(x.Traces, k)
	}
	for _, a := range s.Annotations {
		x.Annotations = append(x.Annotations, exportedInterval{a.Name, a.Stage, a.Device, a.Time})
	}
	return x
}
