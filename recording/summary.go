package recording

import (
	"cmp"
	"strings"

	"github.com/memestimate/memestimate/simulate/kernels"
)

// A Summary is what a recording says of the model. Sizes are bytes.
type Summary struct {
	Parameters, Buffers Total
	Inputs              []Named
	Labels              []Named // what else the program brought to the device
	Layers              []Layer // the modules that called operators, in the order of the first forward pass
	Saved               int64   // what the first forward pass and its loss left for the backward pass
	LossSaved           int64   // the part of it that no layer made
}

// A Total is over storages, each counted once.
type Total struct{ Elements, Bytes, Tensors int64 }

// A Named is a tensor by its name and layout; Meta is -1 where no call shows it.
type Named struct {
	Name    string
	Storage int32
	Meta    int32
}

// A Layer is a module that calls operators itself.
type Layer struct {
	Name, Class string
	Calls       int
	Output      int32 // the layout of what its last call made; -1 where that is no tensor
	Bytes       int64 // of the storages that it made and left to others
	Saved       int64 // of these, what lived when the backward pass began
	Params      Total
}

// Summary looks at the first step.
func (r *Recording) Summary() *Summary {
	s := &summarizer{
		rec: r, out: new(Summary), layers: map[string]int{},
		metas: make([]int32, r.Storages), bytes: make([]int64, r.Storages),
	}
	for i := range s.metas {
		s.metas[i] = -1
	}
	s.tensors()
	s.forward()
	s.roles()
	return s.out
}

type summarizer struct {
	rec    *Recording
	out    *Summary
	layers map[string]int // by name
	metas  []int32        // a layout in which each storage was seen
	bytes  []int64        // by storage
}

// tensors finds how storages are seen, and how large they are.
func (s *summarizer) tensors() {
	for _, v := range s.rec.Values {
		if v.Kind() != Tensor {
			continue
		}
		if n, on := v.Storage(); on && s.metas[n] < 0 {
			s.metas[n] = v.Meta()
		}
	}
	for i := range s.rec.Events {
		if e := &s.rec.Events[i]; e.Kind == Alloc || e.Kind == Resize && e.Bytes > s.bytes[e.A] {
			s.bytes[e.A] = e.Bytes
		}
	}
}

// layer returns the index of the layer of a module.
func (s *summarizer) layer(module int32) int {
	m := Module{}
	if module != NoModule {
		m = s.rec.Modules[module]
	}
	i, ok := s.layers[m.Name]
	if !ok {
		i = len(s.out.Layers)
		s.out.Layers = append(s.out.Layers, Layer{Name: m.Name, Class: m.Class, Output: -1})
		s.layers[m.Name] = i
	}
	return i
}

// A birth is where a storage of the forward pass began.
type birth struct {
	layer int // -1 in the loss
	visit int // how often the calls had gone from one layer to another
}

// forward follows the first forward pass to the beginning of its backward pass.
func (s *summarizer) forward() {
	births := map[int32]birth{}
	phase, at, visit, called := Other, -1, 0, false
	for i := range s.rec.Events {
		switch e := &s.rec.Events[i]; e.Kind {
		case Phase:
			if phase = PhaseName(e.What); phase == Backward || phase == Optimizer {
				for storage, b := range births {
					s.out.Saved += s.bytes[storage]
					if b.layer < 0 {
						s.out.LossSaved += s.bytes[storage]
					} else {
						s.out.Layers[b.layer].Saved += s.bytes[storage]
					}
				}
				return
			}
		case Step:
			return
		case CallEvent:
			if called = phase == Forward || phase == Loss; phase != Forward {
				break
			}
			c := &s.rec.Calls[e.A]
			if l := s.layer(c.Module); l != at {
				at = l
				visit++
			}
			layer := &s.out.Layers[at]
			layer.Calls++
			if results := s.rec.Results(c); len(results) > 0 && results[0].Kind() == Tensor {
				layer.Output = results[0].Meta()
			}
		case Alloc:
			if !called {
				break
			}
			b := birth{-1, visit}
			if phase == Forward {
				b.layer = at
				s.out.Layers[at].Bytes += e.Bytes
			}
			births[e.A] = b
		case Free:
			if b, ok := births[e.A]; ok {
				if delete(births, e.A); b.layer >= 0 && b.visit == visit && phase == Forward {
					s.out.Layers[b.layer].Bytes -= s.bytes[e.A]
				}
			}
		default:
			called = false
		}
	}
}

// roles adds up parameters and buffers.
func (s *summarizer) roles() {
	elem := map[string]int64{}
	counted, brought := map[int32]bool{}, map[int32]bool{}
	ended := false // the first step: what the next ones are given is as much again
	for i := range s.rec.Events {
		e := &s.rec.Events[i]
		ended = ended || e.Kind == Step
		if e.Kind != Is {
			continue
		}
		name, meta := s.rec.Texts[e.B], s.metas[e.A]
		role := Role(e.What)
		if role == Input || role == Label {
			list, seen := &s.out.Inputs, counted
			if role == Label { // which a buffer is, too, before it has its name
				list, seen = &s.out.Labels, brought
			}
			if !seen[e.A] && !ended {
				*list = append(*list, Named{cmp.Or(name, roleWords[role]), e.A, meta})
			}
			seen[e.A] = true
			continue
		}
		if role != Parameter && role != Buffer || counted[e.A] {
			continue
		}
		counted[e.A] = true
		size := int64(4)
		if meta >= 0 {
			dtype := s.rec.Metas[meta].DType
			if elem[dtype] == 0 {
				elem[dtype] = kernels.NewTensor(dtype, nil, nil, false).Elem
			}
			size = elem[dtype]
		}
		sum := Total{s.bytes[e.A] / size, s.bytes[e.A], 1}
		if role == Buffer {
			s.out.Buffers.add(sum)
			continue
		}
		s.out.Parameters.add(sum)
		if l, ok := s.layers[name[:max(strings.LastIndexByte(name, '.'), 0)]]; ok {
			s.out.Layers[l].Params.add(sum)
		}
	}
}

func (t *Total) add(other Total) {
	t.Elements += other.Elements
	t.Bytes += other.Bytes
	t.Tensors += other.Tensors
}
