package onnxtest

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Mutate returns a model with one to four of its fields changed: numbers become odd ones, names others of the file or
// such as no file should have, fields go missing, come twice, swap with their likes, or get another number. What comes
// out is a file of messages in messages like any other, so most of it is read before something is amiss.
func Mutate(rng *rand.Rand, model []byte) []byte {
	m := parseMessage("model", model)
	for range 1 + rng.IntN(4) {
		m.mutate(rng)
	}
	return m.bytes()
}

// Cross returns a model with one to three of its fields replaced by fields of their kinds from another model, or with
// such fields added: a node, an attribute, a type, a tensor, a function.
func Cross(rng *rand.Rand, model, other []byte) []byte {
	m := parseMessage("model", model)
	found, there := map[kindOfField][]place{}, map[kindOfField][]place{}
	var names [][]byte
	m.places(found, &names)
	parseMessage("model", other).places(there, &names)
	kinds := slices.DeleteFunc(sortedKinds(found), func(k kindOfField) bool { return len(there[k]) == 0 })
	for range 1 + rng.IntN(3) {
		if len(kinds) == 0 {
			break
		}
		k := kinds[rng.IntN(len(kinds))]
		p, from := found[k][rng.IntN(len(found[k]))], there[k][rng.IntN(len(there[k]))]
		if f := from.in.fields[from.at].clone(); rng.IntN(4) == 0 {
			p.in.fields = append(p.in.fields, f)
		} else {
			p.in.fields[p.at] = f
		}
	}
	return m.bytes()
}

// messages says which fields of a message are messages, by kind and field number of onnx.proto.
var messages = map[string]map[int]string{
	"model": {7: "graph", 8: "opset", 14: "entry", 20: "training", 25: "function"}, "training": {1: "graph", 2: "graph"},
	"graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 14: "quantization", 15: "sparse"},
	"node":  {5: "attr", 9: "entry"}, "attr": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 14: "type",
		22: "sparse"},
	"value": {2: "type"}, "type": {1: "tensortype", 4: "elements", 5: "map", 8: "tensortype", 9: "elements"},
	"elements": {1: "type"}, "map": {2: "type"}, "tensortype": {2: "shape"}, "shape": {1: "dim"},
	"tensor": {13: "entry"}, "sparse": {1: "tensor", 2: "tensor"}, "function": {7: "node", 9: "opset", 11: "attr",
		12: "value"},
}

// A message is a message taken apart; what cannot be is cut off.
type message struct {
	kind   string
	fields []*field
}

type field struct {
	number, wire int
	varint       uint64
	data         []byte
	message      *message // in place of data
}

func parseMessage(kind string, b []byte) *message {
	m := &message{kind: kind}
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m
		}
		size := protowire.ConsumeFieldValue(number, wire, b[n:])
		if size < 0 {
			return m
		}
		f := &field{number: int(number), wire: int(wire), data: b[n : n+size]}
		b = b[n+size:]
		switch wire {
		case protowire.VarintType:
			f.varint, _ = protowire.ConsumeVarint(f.data)
		case protowire.BytesType:
			f.data, _ = protowire.ConsumeBytes(f.data)
			if sub, ok := messages[kind][f.number]; ok {
				f.message = parseMessage(sub, f.data)
			}
		}
		m.fields = append(m.fields, f)
	}
	return m
}

func (m *message) bytes() []byte {
	var out []byte
	for _, f := range m.fields {
		switch {
		case f.wire == 0:
			out = Varint(out, f.number, f.varint)
		case f.message != nil:
			out = Bytes(out, f.number, f.message.bytes())
		case f.wire == 2:
			out = Bytes(out, f.number, f.data)
		default:
			out = append(Tag(out, f.number, f.wire), f.data...)
		}
	}
	return out
}

func (f *field) clone() *field {
	c := *f
	if f.message != nil {
		c.message = parseMessage(f.message.kind, f.message.bytes())
	}
	return &c
}

// A place is a field in its message.
type place struct {
	in *message
	at int
}

// A kindOfField groups places alike.
type kindOfField struct {
	kind   string
	number int
}

// places sorts the fields of m by what they are, and collects the names in it.
func (m *message) places(out map[kindOfField][]place, names *[][]byte) {
	for i, f := range m.fields {
		k := kindOfField{m.kind, f.number}
		out[k] = append(out[k], place{m, i})
		if m.kind == "node" && f.number <= 2 && len(*names) < 5000 {
			*names = append(*names, f.data)
		}
		if f.message != nil {
			f.message.places(out, names)
		}
	}
}

var (
	oddNumbers = []uint64{
		0, 1, 2, 3, 5, 7, 11, 13, 16, 28, 255, 1000, 4096, 1 << 16, 1 << 20, 1 << 31, 1 << 33, 1 << 40, 1 << 62, 1<<63 - 1,
		1 << 63,
		math.MaxUint64, math.MaxUint64 - 1, math.MaxUint64 - 2,
	}
	oddFloats = []float32{float32(math.NaN()), float32(math.Inf(1)), 0, -1, 1e30, 0.5, 3}
	oddNames  = []string{
		"", "\x1b[31mred", "a\nb", "x\r\ny", "\x00", "del\x7f", "\u009b31m", "\u202eabc", strings.Repeat("n",
			5000), "../../../etc/passwd", "\xff\xfe",
		"ij,jk->ik", "...i,...i->...", "Loop", "If", "Scan", "Reshape", "Expand", "ConstantOfShape", "Tile", "Range",
		"Einsum", "Split", "Resize", "Concat",
		"MatMul", "Gather", "LSTM", "Attention", "Pad", "com.microsoft", "batch", "9999999999999999999", "a*b+1",
	}
)

// mutate changes one field.
func (m *message) mutate(rng *rand.Rand) {
	found := map[kindOfField][]place{}
	var names [][]byte
	m.places(found, &names)
	if len(found) == 0 {
		return
	}
	kinds := sortedKinds(found)
	alike := found[kinds[rng.IntN(len(kinds))]]
	p := alike[rng.IntN(len(alike))]
	other := alike[rng.IntN(len(alike))]
	f := p.in.fields[p.at]
	switch op := rng.IntN(10); {
	case op == 0:
		p.in.fields = slices.Delete(p.in.fields, p.at, p.at+1)
	case op == 1:
		p.in.fields = append(p.in.fields, f.clone())
	case op == 2 || op == 3:
		copied := other.in.fields[other.at].clone()
		if op == 2 {
			other.in.fields[other.at] = f.clone()
		}
		p.in.fields[p.at] = copied
	case op == 4 && rng.IntN(3) == 0:
		f.number = 1 + rng.IntN(15)
	case op == 5 && f.wire == 2 && f.message == nil:
		f.data = []byte(oddNames[rng.IntN(len(oddNames))])
	case f.message == nil:
		f.change(rng, p.in.kind, names)
	}
}

// sortedKinds are the kinds in an order that does not depend on the map's.
func sortedKinds(found map[kindOfField][]place) []kindOfField {
	return slices.SortedFunc(maps.Keys(found), func(a, b kindOfField) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), a.number-b.number)
	})
}

// change gives a field that is no message another value.
func (f *field) change(rng *rand.Rand, in string, names [][]byte) {
	switch f.wire {
	case 0:
		f.varint = oddNumbers[rng.IntN(len(oddNumbers))]
		if rng.IntN(3) == 0 {
			f.varint = uint64(rng.IntN(24)) // an element type, a version
		}
		return
	case 1:
		f.data = binary.LittleEndian.AppendUint64(nil, oddNumbers[rng.IntN(len(oddNumbers))])
		return
	case 5:
		f.data = binary.LittleEndian.AppendUint32(nil, math.Float32bits(oddFloats[rng.IntN(len(oddFloats))]))
		return
	}
	named := in == "node" || in == "graph" || in == "value" || in == "tensor" && f.number == 8
	var data []byte
	switch {
	case named && len(names) > 0 && rng.IntN(3) > 0:
		data = names[rng.IntN(len(names))]
	case rng.IntN(2) == 0 || in == "tensor" && f.number == 9: // raw data of int64
		for range min(len(f.data)/8+rng.IntN(2), 100) {
			data = binary.LittleEndian.AppendUint64(data, oddNumbers[rng.IntN(len(oddNumbers))])
		}
	default: // packed numbers
		for range 1 + rng.IntN(6) {
			data = binary.AppendUvarint(data, oddNumbers[rng.IntN(len(oddNumbers))])
		}
	}
	f.data = data
}
