package onnxload

import (
	"errors"
	"fmt"
)

// ErrNoData is wrapped by errors of Ints and Floats when the tensor's
// payload is absent: the file was stripped of its weights, the external file
// is not there, or a stream's payload was too large to keep.
var ErrNoData = errors.New("no data")

// ErrTooLarge is wrapped by errors of Ints and Floats when the payload is
// larger than Limits.Const.
var ErrTooLarge = errors.New("too large to read as a constant")

// A WireError is a byte sequence that is not a valid ONNX protobuf message.
type WireError struct {
	Offset int64 // of the byte, from the start of the file
	Msg    string
}

// Error returns "byte OFFSET: what is wrong".
func (e *WireError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Msg) }

// A FormatError says that the input is something other than an ONNX model.
type FormatError struct {
	Format string // what it is: "PNG image"; "" when unknown
	Hint   string // what to do about it; may be empty
}

// Error says what the input is, as far as it is known, and what to do about it.
func (e *FormatError) Error() string {
	s := "not an ONNX model"
	if e.Format != "" {
		s += " (" + e.Format + ")"
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

func (r *resolver) duplicate(p *place, nodes []Node, i int, name int32, id ValueID) error {
	s := p.scope.names.strs[name]
	this := nodeLabel(i, &nodes[i])
	if r.owner[id] == p.owner {
		if k := r.producer[id]; k >= 0 {
			if int(k) == i {
				return fmt.Errorf("%s produces %q twice", this, s)
			}
			return fmt.Errorf("%s and %s both produce %q", nodeLabel(int(k), &nodes[k]), this, s)
		}
	}
	return fmt.Errorf("%s produces %q, which is an input", this, s)
}

// nodeLabel names a node in an error.
func nodeLabel(i int, n *Node) string {
	if n.Name != "" {
		return fmt.Sprintf("node %d %q", i, n.Name)
	}
	return fmt.Sprintf("node %d (%q)", i, n.Op)
}
