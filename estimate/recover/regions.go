package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// regionOf returns the outermost region around a frame, those around it being known.
func regionOf(lines program.Lines, i int, retraced map[string]bool) program.Region {
	f := &lines[i]
	if f.Up == 0 && lines.Retraced(int32(i)+1) {
		if retraced[f.File] {
			return program.Region{}
		}
		return program.Region{Frame: int32(i) + 1, Kind: program.NoGrad}
	}
	if f.Up > 0 {
		if around := lines[f.Up-1].Region; around.Kind != program.NoRegion {
			return around
		}
	}
	if checkpoints(f.Source) {
		return program.Region{Frame: int32(i) + 1, Kind: program.Checkpoint}
	}
	return program.Region{}
}

// checkpoints reports whether a line calls torch.utils.checkpoint.checkpoint, or what transformers call it
// (_gradient_checkpointing_func of PreTrainedModel).
func checkpoints(line string) bool {
	for _, call := range []string{"checkpoint(", "_gradient_checkpointing_func("} {
		if at := strings.Index(line, call); at == 0 || at > 0 && !isWord(line[at-1]) {
			return true
		}
	}
	return false
}

// ofReentrant reports whether a frame is the forward of a checkpoint with use_reentrant=True.
func ofReentrant(f program.Frame) bool {
	return f.Func == "forward" && strings.HasSuffix(f.File, "torch/utils/checkpoint.py")
}

// retracedForAutocast returns which files of graphs call their arguments arg1_1: the one of with torch.autocast(...) does
// (replace_autocast_with_hop_pass.py), which is traced anew. Gradients go through that.
func retracedForAutocast(stacks []onnxload.Frame) map[string]bool {
	files := map[string]bool{}
	for i := range stacks {
		f := &stacks[i]
		if !strings.HasPrefix(f.File, "<eval_with_key>") || files[f.File] {
			continue
		}
		for _, part := range strings.Split(f.Source, "arg")[1:] {
			if rest := strings.TrimLeft(part, "0123456789"); rest != part && strings.HasPrefix(rest, "_1") {
				files[f.File] = true
			}
		}
	}
	return files
}
