package onnxload

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// node reads a NodeProto into g.
func (d *decoder) node(g *rawGraph) {
	if d.nodes++; d.nodes > d.lim.Nodes {
		d.refuse(fmt.Errorf("more than %d nodes, which is the limit", d.lim.Nodes))
		return
	}
	g.nodes = append(g.nodes, Node{})
	i := len(g.nodes) - 1
	n := &g.nodes[i] // stays: the nodes of its subgraphs go elsewhere
	var overload string
	at := d.off()
	// Subgraphs of this node push their own nodes' lists on the same scratch.
	in0, out0, attr0, meta0, key0 := len(d.inBuf), len(d.outBuf), len(d.attrBuf), len(d.metaBuf), len(d.listKey)
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			d.inBuf = append(d.inBuf, d.nameID(w, "NodeProto.input"))
		case 2:
			d.outBuf = append(d.outBuf, d.nameID(w, "NodeProto.output"))
		case 3:
			n.Name = d.nodeName(w, d.outBuf[out0:])
		case 4:
			n.Op = d.word(w, "NodeProto.op_type")
		case 5:
			if len(d.attrBuf)-attr0 == d.lim.Attrs {
				d.refuse(fmt.Errorf("%s has more than %d attributes, which is the limit", nodeLabel(i, n), d.lim.Attrs))
				return
			}
			outer := d.enter(w, "NodeProto.attribute")
			a, k := d.sharedAttr()
			d.leave(outer)
			d.attrBuf = append(d.attrBuf, a)
			if k >= 0 {
				d.listKey = binary.NativeEndian.AppendUint32(d.listKey, uint32(k))
			}
		case 6, 10: // doc_string, device_configurations
			d.skip(d.length(w, "NodeProto.doc_string"))
		case 7:
			n.Domain = domain(d.word(w, "NodeProto.domain"))
		case 8:
			overload = d.word(w, "NodeProto.overload")
		case 9:
			outer := d.enter(w, "NodeProto.metadata_props")
			e, keep := d.nodeEntry(n)
			d.leave(outer)
			if keep {
				d.metaBuf = append(d.metaBuf, e)
			}
		default:
			d.skipUnknown(w)
		}
	}
	if d.err == nil && n.Op == "" {
		d.fail(at, "node %d %q has no op_type", i, n.Name)
	}
	if d.err == nil {
		n.Attrs = d.attrList(i, n, d.attrBuf[attr0:], d.listKey[key0:])
	}
	if d.err != nil {
		return
	}
	n.In = d.ids.copy(d.inBuf[in0:])
	n.Out = d.ids.copy(d.outBuf[out0:])
	if len(d.metaBuf) > meta0 {
		n.More = d.mores.one()
		n.More.Meta = d.entries.copy(d.metaBuf[meta0:])
	}
	d.inBuf, d.outBuf, d.attrBuf, d.metaBuf, d.listKey = d.inBuf[:in0], d.outBuf[:out0], d.attrBuf[:attr0],
		d.metaBuf[:meta0], d.listKey[:key0]
	if overload != "" {
		if g.overloads == nil {
			g.overloads = map[int]string{}
		}
		g.overloads[i] = overload
	}
}

// nodeName reads the name of a node. TorchScript names the outputs after the node, which is then no text of its own.
func (d *decoder) nodeName(w uint8, outs []ValueID) string {
	name := d.bytes(d.bounded(d.length(w, "NodeProto.name"), "NodeProto.name"))
	if len(outs) > 0 && outs[0] != NoValue {
		if s := d.names.strs[outs[0]]; len(s) >= len(name) && s[:len(name)] == string(name) {
			return s[:len(name)]
		}
	}
	return d.text.keep(name)
}

// attrList returns the attributes of node i: nodes with the same ones share a list. key is the numbers of those that
// are in the memo.
func (d *decoder) attrList(i int, n *Node, attrs []Attr, key []byte) []Attr {
	shared := len(attrs) > 0 && len(key) == 4*len(attrs)
	if shared {
		if k := d.listOf.find(key); k >= 0 {
			return d.listOf.of[k]
		}
	}
	d.checkAttrs(i, n, attrs)
	list := d.attrs.copy(attrs)
	if shared {
		d.listOf.add(key, list)
	}
	return list
}

func (d *decoder) checkAttrs(i int, n *Node, attrs []Attr) {
	clear(d.seen)
	for j := range attrs {
		name := attrs[j].Name
		if d.seen[name] {
			d.refuse(fmt.Errorf("%s has attribute %q twice", nodeLabel(i, n), name))
			return
		}
		d.seen[name] = true
	}
}

// domain returns the one spelling of a domain: ai.onnx is the default domain.
func domain(s string) string {
	if s == "ai.onnx" {
		return ""
	}
	return s
}

// opset reads an OperatorSetIdProto into versions by domain.
func (d *decoder) opset(versions map[string]int64) {
	dom, version := "", int64(0)
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			dom = domain(d.word(w, "OperatorSetIdProto.domain"))
		case 2:
			at := d.tagAt
			if version = d.int(w, "OperatorSetIdProto.version"); version < 0 {
				d.fail(at, "version %d of operator set %q: want a number from 1 on", version, cmp.Or(dom, "ai.onnx"))
			}
		default:
			d.skipUnknown(w)
		}
	}
	versions[dom] = version
}

// function reads a FunctionProto.
func (d *decoder) function() {
	fn := &function{opsets: map[string]int64{}}
	g := &rawGraph{names: newNames(&d.text)}
	outerNames := d.names
	d.names = g.names
	defer func() { d.names = outerNames }()
	nodes, _, infos := d.count(7, 0, 12)
	g.nodes, g.infos = make([]Node, 0, nodes), make([]rawValue, 0, infos)
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			fn.name = d.word(w, "FunctionProto.name")
		case 4:
			fn.in = append(fn.in, d.nameID(w, "FunctionProto.input"))
		case 5:
			fn.out = append(fn.out, d.nameID(w, "FunctionProto.output"))
		case 6:
			fn.attrs = append(fn.attrs, d.word(w, "FunctionProto.attribute"))
		case 7:
			d.inside(w, "FunctionProto.node", func() { d.node(g) })
		case 8, 14: // doc_string, metadata_props
			d.skip(d.length(w, "FunctionProto.doc_string"))
		case 9:
			d.inside(w, "FunctionProto.opset_import", func() { d.opset(fn.opsets) })
		case 10:
			fn.domain = domain(d.word(w, "FunctionProto.domain"))
		case 11:
			fn.defaults = append(fn.defaults, in(d, w, "FunctionProto.attribute_proto", d.attr))
		case 12:
			g.infos = d.addValue(g.infos, w, "FunctionProto.value_info")
		case 13:
			fn.overload = d.word(w, "FunctionProto.overload")
		default:
			d.skipUnknown(w)
		}
	}
	fn.body = g
	d.funcs = append(d.funcs, fn)
}
