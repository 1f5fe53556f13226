package main

import (
	"io"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/snapshot/replay"
)

// writeSnapshot writes the predicted run as torch.cuda.memory._dump_snapshot would write the
// measured one.
func writeSnapshot(path string, in source, conf string, r *estimate.Report) error {
	if r.Peak == nil {
		return fail(exitInput, "%s: there is no run to write as a snapshot", quoteArg(in.arg))
	}
	return putFile(path, func(w io.Writer) error {
		l := r.Simulation.Run.Log
		return replay.WritePredicted(w, l.Layers, l.Events, r.Simulation.Replay, r.Model.Name, conf,
			sitesOf(r.Simulation.Recorded))
	})
}

// All stacks of a run have so many frames together, and each one that comes after has enoughFrames: a thousand stacks a
// thousand deep. Stacks share their callers in a recording, and are lists in a snapshot.
const (
	manyFrames   = 1 << 20
	enoughFrames = 64
)

// sitesOf are the places of a recorded program, nil for a model: Python's frames, and before them the operator that
// was called. Of a stack that is too deep the outermost frames are left out.
func sitesOf(run *recording.Run) *snapshot.Sites {
	if run == nil {
		return nil
	}
	rec, left := run.Recording, manyFrames
	return &snapshot.Sites{Of: run.Of, Stack: func(site int32) []snapshot.Frame {
		at := run.Sites[site]
		var frames []snapshot.Frame
		if at.Op >= 0 {
			frames = append(frames, snapshot.Frame{Name: rec.Ops[at.Op].Name})
		}
		for id := at.Frame; id >= 0; id = rec.Frames[id].Parent {
			if len(frames) >= max(left, enoughFrames) {
				frames = append(frames, snapshot.Frame{Name: "... more calls, left out"})
				break
			}
			f := &rec.Frames[id]
			frames = append(frames, snapshot.Frame{Name: f.Function, File: f.File, Line: int64(f.Line)})
		}
		left -= len(frames)
		return frames
	}}
}
