package onnxgo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// A skeleton is a graph in a form that onnx-go takes: a model of its own, of
// names, operators and plain attributes. What onnx-go fails on is left out or has a string in its place:
// weights, types, attributes that are tensors, types or graphs.
type skeleton struct {
	model []byte
	nodes []skeletonNode
}

type skeletonNode struct {
	name, op, domain string
	outs             int
	subs             []subskeleton
}

// A subskeleton is the graph of a node's attribute, the index-th of it.
type subskeleton struct {
	attr  string
	index int
	g     *skeleton
}

const (
	noOutput = "memestimate/no output " // for nodes without outputs: onnx-go tells inputs by output
	replaced = "memestimate: not for onnx-go"
	longest  = 1 << 20 // bytes of an attribute's string: longer ones are replaced
)

// safe returns a string that protobuf's check of UTF-8 accepts.
func safe(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// A stripper reads the messages of a file and writes skeletons. It shares no
// code with onnxload: what it finds is there to be compared.
type stripper struct {
	r    io.ReaderAt
	size int64
	buf  []byte
	base int64
}

var errShort = errors.New("message ends early")

// at returns up to n bytes of the file from off on, n at most a window's size.
func (s *stripper) at(off int64, n int) ([]byte, error) {
	if off < s.base || off+int64(n) > s.base+int64(len(s.buf)) {
		if s.buf == nil {
			s.buf = make([]byte, 32<<10)
		}
		k, err := s.r.ReadAt(s.buf[:cap(s.buf)], off)
		if err != nil && err != io.EOF {
			return nil, err
		}
		s.buf, s.base = s.buf[:k], off
	}
	b := s.buf[off-s.base:]
	return b[:min(n, len(b))], nil
}

// text reads bytes as a string.
func (s *stripper) text(off, end int64) (string, error) {
	b := make([]byte, 0, min(end-off, 4096))
	for off < end {
		p, err := s.at(off, int(min(end-off, 4096)))
		if err != nil {
			return "", err
		}
		if len(p) == 0 {
			return "", errShort
		}
		b = append(b, p...)
		off += int64(len(p))
	}
	return string(b), nil
}

// A field is one field of a message: a number, or the bytes from off to end.
type field struct {
	num, wire int
	v         uint64
	off, end  int64
}

// fields calls f for each field of the message from off to end.
func (s *stripper) fields(off, end int64, f func(field) error) error {
	for off < end {
		b, err := s.at(off, 20)
		if err != nil {
			return err
		}
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("byte %d: %w", off, errShort)
		}
		x := field{num: int(key >> 3), wire: int(key & 7)}
		x.off = off + int64(n)
		switch x.wire {
		case 0, 2:
			v, k := binary.Uvarint(b[n:])
			if k <= 0 {
				return fmt.Errorf("byte %d: %w", off, errShort)
			}
			x.v = v
			x.end = x.off + int64(k)
			if x.wire == 2 {
				x.off = x.end
				if v > uint64(end-x.off) {
					return fmt.Errorf("byte %d: %w", off, errShort)
				}
				x.end = x.off + int64(v)
			}
		case 1:
			x.end = x.off + 8
		case 5:
			x.end = x.off + 4
		default:
			return fmt.Errorf("byte %d: wire type %d", off, x.wire)
		}
		if x.end > end {
			return fmt.Errorf("byte %d: %w", off, errShort)
		}
		if err := f(x); err != nil {
			return err
		}
		off = x.end
	}
	return nil
}

// model returns the skeleton of the main graph.
func (s *stripper) model() (*skeleton, error) {
	var g *skeleton
	err := s.fields(0, s.size, func(x field) (err error) {
		if x.num == 7 && x.wire == 2 {
			g, err = s.graph(x.off, x.end)
		}
		return err
	})
	if err == nil && g == nil {
		err = errors.New("no graph")
	}
	return g, err
}

func (s *stripper) graph(off, end int64) (*skeleton, error) {
	k := &skeleton{}
	var b []byte
	outputs := 0
	err := s.fields(off, end, func(x field) error {
		if x.wire != 2 || x.num != 1 && x.num != 11 && x.num != 12 {
			return nil
		}
		if x.num == 1 {
			n, err := s.node(k, x.off, x.end)
			b = bytesField(b, 1, n)
			return err
		}
		if x.num == 12 {
			outputs++
		}
		return s.fields(x.off, x.end, func(y field) error {
			if y.num != 1 || y.wire != 2 {
				return nil
			}
			name, err := s.text(y.off, y.end)
			b = bytesField(b, x.num, bytesField([]byte(nil), 1, safe(name)))
			return err
		})
	})
	k.model = finish(b, outputs)
	return k, err
}

// finish makes a model of a graph's fields. onnx-go wants an output.
func finish(graph []byte, outputs int) []byte {
	if outputs == 0 {
		graph = bytesField(graph, 12, bytesField([]byte(nil), 1, noOutput))
	}
	return bytesField(varint(nil, 1, 3), 7, graph)
}

func (s *stripper) node(k *skeleton, off, end int64) ([]byte, error) {
	var b []byte
	var n skeletonNode
	err := s.fields(off, end, func(x field) error {
		if x.wire != 2 {
			return nil
		}
		if x.num == 5 {
			a, err := s.attr(&n, x.off, x.end)
			b = bytesField(b, 5, a)
			return err
		}
		if x.num != 1 && x.num != 2 && x.num != 3 && x.num != 4 && x.num != 7 {
			return nil
		}
		text, err := s.text(x.off, x.end)
		text = safe(text)
		switch x.num {
		case 2:
			n.outs++
		case 3:
			n.name = text
		case 4:
			n.op = text
		case 7:
			n.domain = text
		}
		b = bytesField(b, x.num, text)
		return err
	})
	if n.outs == 0 {
		b = bytesField(b, 2, noOutput+strconv.Itoa(len(k.nodes)))
	}
	k.nodes = append(k.nodes, n)
	return b, err
}

func (s *stripper) attr(n *skeletonNode, off, end int64) ([]byte, error) {
	var name string
	var values []byte
	var typ uint64
	replace := false
	var subs []*skeleton
	err := s.fields(off, end, func(x field) error {
		switch {
		case x.num == 1 && x.wire == 2:
			text, err := s.text(x.off, x.end)
			name = safe(text)
			return err
		case x.num == 20 && x.wire == 0:
			typ = x.v
		case (x.num == 6 || x.num == 11) && x.wire == 2:
			g, err := s.graph(x.off, x.end)
			subs = append(subs, g)
			return err
		case x.num == 2 || x.num == 3 || x.num == 4 || x.num == 7 || x.num == 8 || x.num == 9:
			if x.end-x.off > longest && x.num == 4 {
				replace = true
				return nil
			}
			values = tag(values, x.num, x.wire)
			if x.wire == 2 {
				values = binary.AppendUvarint(values, x.v)
			}
			text, err := s.text(x.off, x.end)
			values = append(values, text...)
			return err
		}
		return nil
	})
	for i, g := range subs {
		n.subs = append(n.subs, subskeleton{name, i, g})
	}
	b := bytesField([]byte(nil), 1, name)
	switch typ {
	case 0, 1, 2, 3, 6, 7, 8:
		if !replace {
			return varint(append(b, values...), 20, typ), err
		}
	}
	return varint(bytesField(b, 4, replaced), 20, 3), err
}
