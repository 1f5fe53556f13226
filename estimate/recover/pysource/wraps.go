package pysource

import (
	"strconv"
	"strings"
)

// A Wrap is a line that has autograd run what it calls in another way: x = checkpoint(self.block, x).
type Wrap struct {
	Frame int32 // 0 for none
	Kind  WrapKind
}

type WrapKind uint8

const (
	Plain      WrapKind = iota
	Checkpoint          // torch.utils.checkpoint
	Sequential          // its checkpoint_sequential, of which each segment but the last is checkpointed
	Function            // the forward of a torch.autograd.Function, which runs without gradients
	// with torch.no_grad(): torch.export traces what is in it once more, as a graph of its own that has the names of
	// the graph around it (_export/passes/replace_set_grad_with_hop_pass.py)
	NoGrad
)

// wrapOf returns the outermost wrap of a frame, those around it being known.
func wrapOf(s *Sources, i int) Wrap {
	f := &s.Frames[i]
	if f.Up == 0 && strings.HasPrefix(f.File, ownGraph) {
		if s.arguments[f.File] {
			return Wrap{}
		}
		return Wrap{int32(i) + 1, NoGrad}
	}
	if f.Up > 0 {
		up := f.Up - 1
		caller := s.Frames[up].Source
		switch {
		case s.Wrapped[up].Kind == Checkpoint && f.Func == "forward" && OfCheckpoint(*f): // use_reentrant=True
			return Wrap{f.Up, Function}
		case s.Wrapped[up].Kind != Plain:
			return s.Wrapped[up]
		case ofSegment(*f):
			return Wrap{f.Up, Sequential}
		case ofFunction(*f, caller):
			return Wrap{f.Up, Function}
		case checkpoints(caller) && strings.Contains(f.Source, "ctx."): // the program's own, and it is asked to
			return Wrap{f.Up, Checkpoint}
		}
	}
	if checkpoints(f.Source) && !s.asked[f.File] {
		return Wrap{int32(i) + 1, Checkpoint}
	}
	return Wrap{}
}

// checkpoints reports whether a line calls torch.utils.checkpoint.checkpoint, or what transformers call it
// (_gradient_checkpointing_func of PreTrainedModel).
func checkpoints(line string) bool {
	for _, call := range []string{"checkpoint(", "_gradient_checkpointing_func("} {
		if at := strings.Index(line, call); at == 0 || at > 0 && !partOfName(line[at-1]) {
			return true
		}
	}
	return false
}

// asksFirst returns the files whose checkpoint is a function of the program that takes parameters, and whether to
// checkpoint, besides: checkpoint(func, inputs, params, flag) of improved-diffusion's nn.py, and of all that was made
// of it. torch.utils.checkpoint gives each argument to the function that it calls, and takes no parameters. Where that
// one is asked to, the forward of its torch.autograd.Function is in the stack; where not, it calls func and nothing
// else. One line may have but the name, its arguments being on others: in a file a name is one function.
func asksFirst(frames []Frame) map[string]bool {
	files := map[string]bool{}
	for i := range frames {
		if f := &frames[i]; strings.Contains(f.Source, ".parameters()") && checkpoints(f.Source) {
			files[f.File] = true
		}
	}
	return files
}

func partOfName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// ofFunction reports whether a frame is the forward of a torch.autograd.Function, which its caller applies, and so no
// module's. That of a checkpoint with use_reentrant=True is applied in a function whose line is not known.
func ofFunction(f Frame, caller string) bool {
	return f.Func == "forward" && (strings.Contains(caller, ".apply(") || OfCheckpoint(f) || ofSegment(f))
}

// OfCheckpoint reports whether a frame is of torch.utils.checkpoint.
func OfCheckpoint(f Frame) bool { return strings.HasSuffix(f.File, "torch/utils/checkpoint.py") }

// ownGraph is what the files are called that torch.fx makes of graphs.
const ownGraph = "<eval_with_key>"

// Retraced reports whether the innermost line of a stack is of a graph that torch.export made of a part of the program:
// it says nothing of the program's own lines.
func (s *Sources) Retraced(stack int32) bool {
	return s != nil && stack > 0 && strings.HasPrefix(s.Frames[stack-1].File, ownGraph)
}

// GraphNumber returns the number of the graph that a frame is of, as torch.fx counts those that it makes: 7 of
// <eval_with_key>.7; 0 of what is none.
func (s *Sources) GraphNumber(frame int32) int {
	number, _ := strings.CutPrefix(s.Frames[frame-1].File, ownGraph+".")
	n, _ := strconv.Atoi(number)
	return n
}

// ofArguments returns which files of graphs call their arguments arg1_1: the one of with torch.autocast(...) does
// (replace_autocast_with_hop_pass.py), which is traced anew. Gradients go through that.
func ofArguments(frames []Frame) map[string]bool {
	files := map[string]bool{}
	for i := range frames {
		f := &frames[i]
		if !strings.HasPrefix(f.File, ownGraph) || files[f.File] {
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
