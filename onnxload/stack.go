package onnxload

import (
	"bytes"
	"strconv"
	"strings"
)

// A Frame is one call of a Python function that was running when the operation of a node was traced. Frames form
// a tree, in which stacks share what they begin with: nodes that the same line made have the same Stack. All strings
// are as the file has them, and may hold anything but a line feed.
type Frame struct {
	Up     int32  // the Stack of the calling frame, less than this one's; 0 for the outermost
	Line   int32  // of File, from 1 on
	File   string // "/lib/resnet.py"
	Func   string // "forward"
	Source string // that line, without the blanks around it; "" where Python could not read it
}

// stackKey is where torch.onnx.export(dynamo=True) writes the stack of a node; its text becomes Node.Stack.
const stackKey = "pkg.torch.onnx.stack_trace"

// repeated reports whether a key of a node's metadata says what its namespace and its operator say as well: exports
// have it for every node, and no two texts are alike. They are not kept.
func repeated(key string) bool {
	return key == "pkg.torch.onnx.fx_node" || key == "pkg.torch.onnx.name_scopes" ||
		key == "pkg.torch.onnx.class_hierarchy"
}

// What is kept of a stack: frames, and bytes of each. Real ones have a fifth of it. A stack with more is passed over.
const (
	maxFrames = 128
	maxFrame  = 2 << 10
)

// stacks numbers the frames of a file.
type stacks struct {
	frames []Frame
	texts  *table
	number map[callOf]int32
	last   []byte // the text that was read last: the nodes of one operation have the same
	lastID int32
}

// A callOf is a frame within its caller.
type callOf struct{ up, text int32 }

// id returns the number of a stack, 0 for what is none. Its text is `File "FILE", line N, in NAME`, a line feed and the
// source of that line, for every frame, the outermost first, joined by a line feed and two blanks.
func (s *stacks) id(b []byte, t *text) int32 {
	if len(b) > 0 && bytes.Equal(b, s.last) {
		return s.lastID
	}
	if s.number == nil {
		s.number, s.texts = map[callOf]int32{}, newTable(t)
	}
	s.last, s.lastID = append(s.last[:0], b...), 0
	rest, ok := bytes.CutPrefix(b, []byte(`File "`))
	up := int32(0)
	for depth := 0; ok; depth++ {
		var one []byte
		one, rest, ok = bytes.Cut(rest, []byte("\n  File \""))
		if len(one) > maxFrame || depth == maxFrames {
			return 0
		}
		call := callOf{up, s.texts.id(one)}
		n, known := s.number[call]
		if !known {
			f, good := parseFrame(s.texts.strs[call.text])
			if !good {
				return 0
			}
			f.Up = up
			s.frames = append(s.frames, f)
			n = int32(len(s.frames))
			s.number[call] = n
		}
		up = n
	}
	s.lastID = up
	return up
}

// parseFrame reads what follows `File "`.
func parseFrame(text string) (f Frame, ok bool) {
	head, source, _ := strings.Cut(text, "\n")
	file, rest, ok := strings.Cut(head, `", line `)
	number, name, ok2 := strings.Cut(rest, ", in ")
	line, err := strconv.ParseInt(number, 10, 32)
	source = strings.TrimSpace(source)
	if !ok || !ok2 || err != nil || line < 1 || strings.Contains(source, "\n") {
		return Frame{}, false
	}
	return Frame{Line: int32(line), File: file, Func: name, Source: source}, true
}
