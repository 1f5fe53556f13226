package program

import "strings"

// Lines are the lines of Python that made a program's calls, as far as a file has them: Call.Stack is the number of one,
// counted from 1. Exporters write the frames of functions called forward: those of modules, and of what they call by
// that name.
type Lines []Frame

// A Frame is a line that calls were traced at. Up leads to the line that called its function.
type Frame struct {
	Up     int32  // the calling frame, less than this one's number, counted from 1; 0 for the outermost
	File   string // "/lib/resnet.py"
	Func   string // "forward"
	Source string // the line without the blanks around it; "" where Python could not read it

	Says    *Statement // what the line does; shared by lines of the same text
	Forward int32      // the innermost frame at or around it that a module's call made, counted from 1; 0 for none
	Level   int32      // how many modules' forwards are around it, its own included
	Region  Region     // the outermost line around it that has autograd run its calls in another way
}

// A Statement is what one physical line does with the values that it computes. Of a statement of several lines a frame
// has the one that was being computed.
type Statement struct {
	Kind    StatementKind
	Next    *Statement // behind a semicolon; nil for none
	Open    bool       // it goes on after the line
	Targets []string   // names that are bound, by place: "self.c" for an attribute of the module, "" for what is no name
	Spread  bool       // targets are parts of one value; else all are bound to the value: x = y = f(x)
	Held    string     // a container that the value goes into: xs of xs.append(f(x)), d of d[k] = f(x)
	Sign    string     // of an augmented assignment: "+"
	Reads   []string   // names whose values it may compute with, in the order of the text
	Calls   []string   // modules, or functions of the program, that it calls: the path of self.conv1; "" for a local name
	Copies  string     // y of x = y
	Ops     int        // signs and calls of torch that compute something
	Copied  []string   // methods whose result it copies at once: permute of x.permute(0, 2, 1).contiguous()
	Inplace bool       // a call has inplace=True, or a function or method is called that ends with "_"
}

// A StatementKind says what is done with the value of a statement.
type StatementKind uint8

// The kinds of statements.
const (
	Bare    StatementKind = iota // an expression alone; or a part of a statement that began on an earlier line
	Binding                      // x = , x: T =
	Augment                      // x +=
	Returns                      // return
)

// OwnAttribute is what targets begin with that are attributes of the module.
const OwnAttribute = "self."

// A Region is a line that has autograd run what it calls in another way: x = checkpoint(self.block, x).
type Region struct {
	Frame int32 // counted from 1; 0 for none
	Kind  RegionKind
}

// A RegionKind is a way in which autograd runs calls.
type RegionKind uint8

// The kinds of regions.
const (
	NoRegion   RegionKind = iota
	Checkpoint            // torch.utils.checkpoint
	// with torch.no_grad(): torch.export traces what is in it once more, as a graph of its own that has the names of
	// the graph around it (_export/passes/replace_set_grad_with_hop_pass.py)
	NoGrad
)

// Retraced reports whether the innermost line of a stack is of a graph that torch.export made of a part of the program:
// it says nothing of the program's own lines.
func (l Lines) Retraced(stack int32) bool {
	return stack > 0 && strings.HasPrefix(l[stack-1].File, "<eval_with_key>")
}

// Modules returns how many modules' forwards are around a stack, 0 when that is unknown.
func (l Lines) Modules(stack int32) int {
	if len(l) == 0 || stack <= 0 {
		return 0
	}
	return int(l[stack-1].Level)
}

// At returns the frame that a stack has at a level: the line that the module of that depth was at, which says which
// lines those around it were at too. 0 is for a level that the stack does not have; levels count from 1.
func (l Lines) At(stack int32, level int) int32 {
	if level < 1 || l.Modules(stack) < level {
		return 0
	}
	for stack = l[stack-1].Forward; int(l[stack-1].Level) > level; stack = l[stack-1].Forward {
		stack = l[stack-1].Up
	}
	return stack
}

// Traced reports whether the file says of most calls which lines made them.
func (p *Program) Traced() bool {
	if len(p.Lines) == 0 {
		return false
	}
	good, all := 0, 0
	for i := range p.Calls {
		stack := p.Calls[i].Stack
		if p.Lines.Retraced(stack) { // the power iterations of spectral norms are more calls than all others
			continue
		}
		if all++; p.Lines.Modules(stack) > 0 {
			good++
		}
	}
	return all > 0 && 4*good >= 3*all
}
