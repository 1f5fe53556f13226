package onnxload

import "bytes"

const entryValue = "StringStringEntryProto.value"

// keyed reads a StringStringEntryProto, whose value is read as its key says it, and returns the key.
func (d *decoder) keyed(value func(key string, w uint8)) (key string) {
	for d.more() {
		switch f, w := d.tag(); f {
		case 1:
			key = d.word(w, "StringStringEntryProto.key")
		case 2:
			value(key, w)
		default:
			d.skipUnknown(w)
		}
	}
	return key
}

// entry reads a StringStringEntryProto.
func (d *decoder) entry() (e Entry) {
	e.Key = d.keyed(func(_ string, w uint8) { e.Value = d.word(w, entryValue) })
	return e
}

// hint returns the value of an entry without which a file is read as well: nil of one that is too long, which is
// skipped.
func (d *decoder) hint(w uint8, most int64) []byte {
	n := d.length(w, entryValue)
	if n > min(most, d.lim.String) {
		d.skip(n)
		return nil
	}
	return d.bytes(n)
}

// nodeEntry reads a StringStringEntryProto of a node: its stack goes where the others' go, and what only repeats is
// left out.
func (d *decoder) nodeEntry(n *Node) (e Entry, keep bool) {
	e.Key = d.keyed(func(key string, w uint8) {
		switch {
		case key == stackKey:
			n.Stack = d.stacks.id(d.bytes(d.bounded(d.length(w, entryValue), entryValue)), &d.text)
		case repeated(key):
			d.skip(d.length(w, entryValue))
		default:
			e.Value = d.word(w, entryValue)
		}
	})
	return e, e.Key != stackKey && !repeated(e.Key)
}

// signatureKey is where torch.onnx.export(dynamo=True) writes a torch.export.ExportGraphSignature as text: its inputs a
// line each.
const signatureKey = "pkg.torch.export.ExportedProgram.graph_signature"

// signatureEntry reads a StringStringEntryProto of a graph. Of the signature of a program it keeps the names of the
// parameters, those too that no initializer has any more:
//
//	p_table: PARAMETER target='encoder.table'
func (d *decoder) signatureEntry() {
	d.keyed(func(key string, w uint8) {
		if key != signatureKey {
			d.skip(d.length(w, entryValue))
			return
		}
		for line := range bytes.Lines(d.hint(w, d.lim.String)) {
			_, target, ok := bytes.Cut(line, []byte(": PARAMETER target='"))
			if name, _, ends := bytes.Cut(target, []byte("'")); ok && ends {
				if d.m.Trained == nil {
					d.m.Trained = map[string]bool{}
				}
				d.m.Trained[d.text.keep(name)] = true
			}
		}
	})
}

// specKey is where torch.onnx.export(dynamo=True) writes a torch.export.graph_signature.InputKind.
const specKey = "pkg.torch.export.graph_signature.InputSpec.kind"

// foldedKey is where onnxscript's optimizer writes of what it computed a constant.
const foldedKey = "pkg.onnxscript.optimizer.folded_from"

// specEntry reads a StringStringEntryProto of a value, of which two keys are kept.
func (d *decoder) specEntry(spec *Spec, folded *string) {
	d.keyed(func(key string, w uint8) {
		switch key {
		case specKey:
			switch d.word(w, entryValue) {
			case "BUFFER":
				*spec = SpecBuffer
			case "CONSTANT_TENSOR":
				*spec = SpecConstant
			}
		case foldedKey:
			*folded = d.word(w, entryValue)
		default:
			d.skip(d.length(w, entryValue))
		}
	})
}
