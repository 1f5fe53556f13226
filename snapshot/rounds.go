package snapshot

import "strings"

// Rounds finds the loop of the program that an event was in, and returns the
// events with which its rounds begin, up to that event; nil where there is none
// to be seen.
//
// It goes down the event's stack from the outermost call. The allocations before
// it that were made under the same calls tell which lines the next function ran,
// and in which order: a line that comes again after another one is in a loop, and
// begins a round. The layers of a model are no loop in this sense, so it does not
// look into what a module's forward does.
func (s *Snapshot) Rounds(device, event int) []int {
	t := s.Trace(device)
	if event < 0 || event >= t.Len() {
		return nil
	}
	own := s.Calls(t.At(event).Stack)
	paths := map[StackID]path{}
	var made []call
	for i, e := range t.All() {
		if i > event {
			break
		}
		if e.Action != Alloc {
			continue
		}
		p, ok := paths[e.Stack]
		if !ok {
			p.frames = s.Calls(e.Stack)
			for p.shared < min(len(own), len(p.frames)) && p.frames[p.shared] == own[p.shared] {
				p.shared++
			}
			paths[e.Stack] = p
		}
		if len(p.frames) > 0 { // the autograd thread has no Python of its own
			made = append(made, call{i, p})
		}
	}
	var few []int
	for depth := 0; depth < len(own) && !s.isInner(own[depth]); depth++ {
		rounds := roundsAt(made, depth)
		if len(rounds) >= 4 {
			return rounds
		}
		if len(rounds) >= 2 && few == nil {
			few = rounds
		}
	}
	return few
}

// A path is the Python frames of a stack, outermost first, and how many of them
// the stack in question has too.
type path struct {
	frames []uint32
	shared int
}

type call struct {
	event int
	path
}

// roundsAt looks at the frames at one depth, under the same calls.
func roundsAt(made []call, depth int) []int {
	const none = 1<<32 - 1
	runs := map[uint32][]int{}
	last, again := uint32(none), uint32(none)
	for _, c := range made {
		if c.shared < depth || len(c.frames) <= depth {
			continue
		}
		f := c.frames[depth]
		if f == last {
			continue
		}
		last = f
		runs[f] = append(runs[f], c.event)
	}
	// Of the lines that come again, the one that came first begins the round.
	for f, starts := range runs {
		if len(starts) >= 2 && (again == none || starts[0] < runs[again][0]) {
			again = f
		}
	}
	return runs[again]
}

// Calls are the Python frames of a stack, outermost first.
func (s *Snapshot) Calls(id StackID) []uint32 {
	frames := s.Stack(id)
	var out []uint32
	for i := len(frames) - 1; i >= 0; i-- {
		if s.Frames[frames[i]].IsPython() {
			out = append(out, frames[i])
		}
	}
	return out
}

// IsPython says whether a frame is of Python: of a file, a notebook or a string.
func (f *Frame) IsPython() bool {
	return strings.HasSuffix(f.File, ".py") || strings.HasPrefix(f.File, "<") || strings.Contains(f.File, "ipykernel")
}

// isInner says whether a frame is of a module's forward or of PyTorch itself,
// whose loops are over layers and parameters.
func (s *Snapshot) isInner(frame uint32) bool {
	f := &s.Frames[frame]
	return f.Name == "forward" || strings.Contains(f.File, "-packages/torch/") ||
		strings.Contains(f.File, "/torch/nn/") || strings.Contains(f.File, "/torch/optim/")
}

// Phase names what a program did when it called: "forward", "backward",
// "optimizer" and so on, from the functions on the stack; "" where there is no
// stack.
func (s *Snapshot) Phase(id StackID) string {
	if id == 0 {
		return ""
	}
	return s.phaseOf(id).String()
}
