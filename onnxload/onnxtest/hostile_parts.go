package onnxtest

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Relu is the smallest honest graph: x -> Relu -> y.
func Relu() Graph {
	return Graph{In: []Value{Float("x", 2)}, Nodes: []Node{Op("Relu", "x", "y")}, Out: []Value{Float("y", 2)}}
}

// GraphOf is a model of these nodes over the input x.
func GraphOf(nodes ...Node) Model {
	return Model{Graph: Graph{In: []Value{{Name: "x"}}, Nodes: nodes, Out: []Value{{Name: "x"}}}}
}

// withInput is a model with one more input of this type.
func withInput(dims ...any) Model {
	g := Relu()
	g.In = append(g.In, Float("in", dims...))
	return Model{Graph: g}
}

// WithInit is a model with these initializers, which nothing reads.
func WithInit(ts ...Tensor) Model {
	g := Relu()
	g.Inits = ts
	return Model{Graph: g}
}

// nest wraps an attribute's graph n times in nodes with a graph attribute.
func nest(n int) []byte {
	inner := Graph{Name: "g"}.Bytes()
	for range n {
		attr := Varint(Bytes(Str(nil, 1, "body"), 6, inner), 20, 5)
		inner = Bytes(nil, 1, Bytes(Str(nil, 4, "Loop"), 5, attr))
	}
	return Bytes(Varint(nil, 1, 10), 7, inner)
}

// deepTypes nests sequence types. Lengths are written from the inside out, so
// the bytes are gathered backwards.
func deepTypes(n int) []byte {
	var rev []byte
	size := uint64(0)
	for i := range 2 * n { // TypeProto.sequence_type, Sequence.elem_type
		tag := byte(0x0a)
		if i%2 == 1 {
			tag = 0x22
		}
		head := binary.AppendUvarint([]byte{tag}, size)
		slices.Reverse(head)
		rev = append(rev, head...)
		size = uint64(len(rev))
	}
	slices.Reverse(rev)
	return Bytes(Varint(nil, 1, 10), 7, Bytes(nil, 11, Bytes(Str(nil, 1, "x"), 2, rev)))
}

// Fib returns functions of domain "l", f0 to fn, of which each calls the one before twice.
func Fib(n int) []Function {
	return functions(n, func(prev string) []Node { return []Node{Op(prev, "a", "m").Of("l"), Op(prev, "m", "b").Of("l")} })
}

func chainOfCalls(n int) []Function {
	return functions(n, func(prev string) []Node { return []Node{Op(prev, "a", "b").Of("l")} })
}

// functions returns f0 to fn, whose bodies follow from the name of the one before.
func functions(n int, body func(prev string) []Node) []Function {
	fs := []Function{{Domain: "l", Name: "f0", In: []string{"a"}, Out: []string{"b"}, Nodes: []Node{Op("Neg", "a", "b")}}}
	for i := range n {
		fs = append(fs, Function{Domain: "l", Name: fmt.Sprint("f", i+1), In: []string{"a"}, Out: []string{"b"},
			Nodes: body(fmt.Sprint("f", i))})
	}
	return fs
}

// Calling is a model of one call of a function of domain "l".
func Calling(fs []Function, name string) Model {
	m := GraphOf(Op(name, "x", "y").Of("l"))
	m.Functions = fs
	return m
}

func text(s string) []byte { return []byte(s) }

// Safetensors is a file of that format with one weight.
func Safetensors() []byte {
	head := `{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), 0, 0, 0, 0)
}

func zipOf(name string) []byte {
	b := append([]byte("PK\x03\x04"), make([]byte, 26)...)
	binary.LittleEndian.PutUint16(b[26:], uint16(len(name)))
	return append(append(b, name...), make([]byte, 40)...)
}

func utf16(s string) []byte {
	b := []byte{0xff, 0xfe}
	for _, r := range s {
		b = append(b, byte(r), 0)
	}
	return b
}

func tarOf(name string) []byte {
	b := make([]byte, 1024)
	copy(b, name)
	copy(b[257:], "ustar")
	return b
}
