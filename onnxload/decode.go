package onnxload

import (
	"errors"
	"fmt"
)

// A decoder reads the messages of one file into raw graphs. The numbers in
// comments are ONNX's field numbers (onnx.proto, IR version 14).
//
// Names of values become numbers of a table at once: In and Out of a raw
// node hold these numbers, and resolve replaces them by ValueIDs.
type decoder struct {
	cursor
	m      *Model
	lim    Limits
	text   text
	words  *table // op types, domains, attribute names, metadata
	stacks stacks
	names  *table // values of the main graph and its subgraphs, or of the function being read

	attrOf memo[Attr]   // attributes without tensors, graphs and types
	listOf memo[[]Attr] // lists of these, by their numbers
	typeOf memo[*Type]

	main     *rawGraph
	subs     []*rawGraph // subgraphs of attributes; an attribute holds indexes into this
	funcs    []*function
	nodes    int64
	listed   int32 // the name of the last initializer or value_info
	odd      notes
	location string // of the last external data that was checked
	beside   map[string]bool

	ids     pool[ValueID]
	ints    pool[int64]
	attrs   pool[Attr]
	entries pool[Entry]
	tensors pool[Tensor]
	mores   pool[More]
	dims    pool[Dim]

	// scratch for lists whose length is not known before
	listKey       []byte
	inBuf, outBuf []ValueID
	attrBuf       []Attr
	seen          map[string]bool // names of a node's attributes
	metaBuf       []Entry
	intBuf        []int64
	keepBuf       []byte
	dimBuf        []Dim
}

// A rawGraph is a graph as the file has it.
type rawGraph struct {
	name      string
	names     *table
	nodes     []Node // In and Out: numbers of names, or NoValue
	overloads map[int]string
	inits     []rawInit
	inputs    []rawValue
	outputs   []rawValue
	infos     []rawValue
}

type rawInit struct {
	name int32
	t    *Tensor
}

type rawValue struct {
	name int32 // 0 when empty
	typ  *Type // nil when there is none
	spec Spec
	// names as the exporter lists them: "['zeros', 'val_3']"
	folded string
}

// refBit marks an attribute of a function's node that stands for an attribute
// of the call, whose name is in Str.
const refBit AttrType = 0x80

// notes gathers what is odd but acceptable, without growing without limit.
type notes struct {
	lines []string
	more  map[string]int
}

func (n *notes) add(kind, format string, args ...any) {
	if n.more[kind]++; n.more[kind] <= maxNotes {
		n.lines = append(n.lines, fmt.Sprintf(format, args...))
	} else if n.more[kind] == maxNotes+1 {
		n.lines = append(n.lines, fmt.Sprintf("more of the kind: %s", kind))
	}
}

// model reads a ModelProto: the whole input.
func (d *decoder) model() {
	m := d.m
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			at := d.tagAt
			if m.IRVersion = d.int(w, "ModelProto.ir_version"); m.IRVersion < 0 {
				d.fail(at, "IR version %d: want a number from 1 on", m.IRVersion)
			}
		case 2:
			m.Producer = d.str(w, "ModelProto.producer_name")
		case 3:
			m.ProducerVersion = d.str(w, "ModelProto.producer_version")
		case 4, 6, 26: // domain, doc_string, configuration of devices
			d.skip(d.length(w, "ModelProto.doc_string"))
		case 5: // model_version
			d.int(w, "ModelProto.model_version")
		case 7:
			if d.main != nil {
				d.fail(d.tagAt, "a second graph, where a model has one")
			}
			d.main = in(d, w, "ModelProto.graph", d.graph)
		case 8:
			d.inside(w, "ModelProto.opset_import", func() { d.opset(m.Opsets) })
		case 14:
			e := in(d, w, "ModelProto.metadata_props", d.entry)
			m.Metadata[e.Key] = e.Value
		case 20: // training_info
			d.skip(d.length(w, "ModelProto.training_info"))
			m.TrainingInfos++
		case 25:
			d.inside(w, "ModelProto.functions", d.function)
			m.Functions++
		default:
			d.skipUnknown(w)
		}
	}
	if d.err == nil && d.main == nil {
		d.refuse(errNoGraph)
	}
}

var errNoGraph = errors.New("no graph in the model")

// graph reads a GraphProto.
func (d *decoder) graph() *rawGraph {
	g := &rawGraph{names: d.names}
	// Nodes of the main graph come from one buffer of the right size; those of a
	// subgraph, read in the middle of a node, from their own.
	nodes, inits, infos := d.count(1, 5, 13)
	g.nodes, g.inits, g.infos = make([]Node, 0, nodes), make([]rawInit, 0, inits), make([]rawValue, 0, infos)
	d.names.expect(int(nodes + inits)) // most nodes produce one value
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			d.inside(w, "GraphProto.node", func() { d.node(g) })
		case 2:
			g.name = d.str(w, "GraphProto.name")
		case 5:
			d.addInit(g, w, "GraphProto.initializer", d.tensor)
		case 10, 14: // doc_string, quantization_annotation: scales and zero points by tensor name; no sizes
			d.skip(d.length(w, "GraphProto.doc_string"))
		case 11:
			g.inputs = d.addValue(g.inputs, w, "GraphProto.input")
		case 12:
			g.outputs = d.addValue(g.outputs, w, "GraphProto.output")
		case 13:
			g.infos = d.addValue(g.infos, w, "GraphProto.value_info")
		case 15:
			d.addInit(g, w, "GraphProto.sparse_initializer", d.sparse)
		case 16:
			d.inside(w, "GraphProto.metadata_props", d.signatureEntry)
		default:
			d.skipUnknown(w)
		}
	}
	return g
}

// The least that a valid node and an initializer or value_info take: their op_type or name has a tag, a length and a
// letter.
const (
	minNode  = 3
	minNamed = 3
)

// count returns how many nodes, initializers and value_infos, fields of these numbers, the rest of the message has, so
// that they can have one allocation of the right size. It reads the message's
// outline once, and comes back. A stream cannot come back: 0.
func (d *decoder) count(node, init, info uint32) (nodes, inits, infos int64) {
	if d.err != nil || d.stream != nil {
		return 0, 0, 0
	}
	at, budget := d.off(), d.budget
	for d.more() {
		f, w := d.tag()
		if w != wireLen {
			d.skipField(w)
			continue
		}
		k := d.length(w, "field")
		switch {
		case f == node:
			if d.err == nil && k < minNode {
				d.fail(d.tagAt, "a node without op_type")
			}
			if nodes++; d.nodes+nodes > d.lim.Nodes {
				d.refuse(fmt.Errorf("more than %d nodes, which is the limit", d.lim.Nodes))
			}
		case f == init && k >= minNamed:
			inits++
		case f == info && k >= minNamed:
			infos++
		}
		d.skip(k)
	}
	if d.err != nil {
		return 0, 0, 0
	}
	d.budget = budget
	d.seek(at)
	return nodes, inits, infos
}

func (d *decoder) addInit(g *rawGraph, w uint8, field string, read func(init bool) (*Tensor, ValueID)) {
	outer := d.enter(w, field)
	t, name := read(true)
	d.leave(outer)
	if d.err != nil {
		return
	}
	if name == NoValue {
		d.fail(d.tagAt, "initializer %d has no name", len(g.inits))
		return
	}
	g.inits = append(g.inits, rawInit{int32(name), t})
}

func (d *decoder) addValue(list []rawValue, w uint8, name string) []rawValue {
	v := in(d, w, name, d.value)
	if d.err != nil {
		return list
	}
	return append(list, v)
}

// inside reads a message within the message.
func (d *decoder) inside(w uint8, name string, read func()) {
	outer := d.enter(w, name)
	read()
	d.leave(outer)
}

// in is inside for what a message is read as.
func in[T any](d *decoder, w uint8, name string, read func() T) (v T) {
	d.inside(w, name, func() { v = read() })
	return v
}

// nameID reads the name of a value, which is likely one of the last ones.
func (d *decoder) nameID(w uint8, field string) ValueID {
	return d.nameNear(w, field, int32(len(d.names.strs)-2))
}

// listedID reads the name of a value in a list of values.
func (d *decoder) listedID(w uint8, field string) ValueID {
	id := d.nameNear(w, field, d.listed+1)
	d.listed = int32(id)
	return id
}

func (d *decoder) nameNear(w uint8, field string, from int32) ValueID {
	n := d.length(w, field)
	if n == 0 {
		return NoValue
	}
	return ValueID(d.names.idNear(d.bytes(d.bounded(n, field)), from))
}

// word reads a string of which there are many alike.
func (d *decoder) word(w uint8, field string) string {
	n := d.length(w, field)
	return d.words.str(d.bytes(d.bounded(n, field)))
}

// str reads a string.
func (d *decoder) str(w uint8, field string) string {
	n := d.length(w, field)
	return d.text.keep(d.bytes(d.bounded(n, field)))
}

func (d *decoder) bounded(n int64, field string) int64 {
	if n > d.lim.String {
		d.fail(d.tagAt, "%s of %d bytes, where the limit is %d", field, n, d.lim.String)
		return 0
	}
	return n
}
