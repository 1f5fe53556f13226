package onnxload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
)

var errChanged = errors.New("the file changed while it was used")

// SetAside drops what the model computes, its Values, Graph and Stacks, for a while in which nobody looks at them and
// others need the memory. They are read anew from the file, which Open has left open, by the function that it returns:
// nil, with nothing dropped, where there is no such file. Values keep their numbers. A file that changed in between is
// an error; then the model is empty for good.
func (m *Model) SetAside() (again func() error) {
	if m.data == nil || m.data.file == nil {
		return nil
	}
	seed := maphash.MakeSeed()
	sum := m.sum(seed)
	m.Values, m.Graph, m.Stacks = make([]Value, 1), &Graph{}, nil
	return func() error {
		n, err := openRegular(m.data.file, Options{Dir: m.data.dir, Limits: m.data.lim})
		if err != nil {
			return fmt.Errorf("%w: %w", errChanged, err)
		}
		if n.sum(seed) != sum || !n.data.written.Equal(m.data.written) {
			return errChanged
		}
		m.Values, m.Graph, m.Stacks = n.Values, n.Graph, n.Stacks
		return nil
	}
}

// sum tells models apart by what others number: values, and nodes with their operators and what they read and make. A
// file that is written twice within a tick of the clock has one time.
func (m *Model) sum(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var buf []byte
	ids := func(list []ValueID) {
		buf = binary.AppendUvarint(buf[:0], uint64(len(list)))
		for _, id := range list {
			buf = binary.AppendUvarint(buf, uint64(id))
		}
		h.Write(buf)
	}
	for i := range m.Values {
		v := &m.Values[i]
		h.WriteString(v.Name)
		h.WriteByte(0)
		if v.Init != nil {
			buf = append(buf[:0], byte(v.Init.DType))
			for _, d := range v.Init.Dims {
				buf = binary.AppendVarint(buf, d)
			}
			h.Write(buf)
		}
	}
	ids(m.Graph.Inputs)
	ids(m.Graph.Outputs)
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		h.WriteString(n.Op)
		ids(n.In)
		ids(n.Out)
	}
	return h.Sum64()
}
